"""A worker's claims on studies: who it is, and whether another claimant is still alive."""

import os
import re
from pathlib import Path

from ledger import writes
from ledger.database import Ledger
from ledger.records import Study


def owner_name(host: str) -> str:
    """`host/pid/start time.namespace`: enough for a worker on the same host to see that we are
    gone, if it numbers processes as we do."""
    pid = os.getpid()
    return f"{host}/{pid}/{_start_ticks(pid)}.{_namespace()}"


def is_owner_gone(owner: str, host: str) -> bool:
    """Whether the owner ran on this host and its process no longer exists.

    Of another host nothing is known, nor of another container: its lease has to expire.
    """
    parts = owner.rsplit("/", 2)
    if len(parts) != 3 or parts[0] != host:
        return False
    pid, (started, _, namespace) = parts[1], parts[2].partition(".")
    if namespace not in ("", _namespace()):
        return False
    return not pid.isdigit() or _start_ticks(int(pid)) != started


def _namespace() -> str:
    """In which processes are numbered as this one sees them: a container has its own."""
    try:
        return re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))
    except OSError:
        return ""


def _start_ticks(pid: int) -> str:
    """The process's start time in clock ticks since boot; empty when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]


def try_claim(ledger: Ledger, study: Study, owner: str, host: str, lease_s: float) -> int | None:
    """Claim the study when it is free, expired, or its owner is gone; a lease of our own that we
    no longer drive under counts as gone. Returns the new fence, or None."""
    holder = study.lease_owner
    dead = holder is not None and (holder == owner or is_owner_gone(holder, host))
    with ledger.write() as session:
        return writes.claim_study(session, study.id, owner, lease_s, dead=dead)


def describe_holder(study: Study) -> str:
    """For a person: who drives the study."""
    host, pid, _ = (study.lease_owner or "nobody/-/-").rsplit("/", 2)
    return f"worker {pid} on {host}"
