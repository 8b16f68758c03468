"""When an outside attempt ends by itself: past its time, silent, or asked to stop long ago."""

from pathlib import Path
from typing import Final

from targets.outside.facts import Document, Facts
from targets.outside.record_files import read_document
from targets.outside.stamps import elapsed_s
from targets.protocol import Exit, ExitCause

LEASE_S: Final = 120.0
"""An outside worker that is silent for so long is taken for dead."""


def find_overdue(known: Facts, offer: Document, heard: Path) -> Exit | None:
    """How an attempt that has not ended does now, if it does; `heard` is the file that says when
    its worker was heard of. Time counts from when it was fetched."""
    claim, stop = known.claim, known.stop
    if stop is not None and (claim is None or elapsed_s(stop) > offer["grace_s"]):
        return Exit(cause=ExitCause.KILLED, code=None, detail="it was asked to stop")
    if claim is None or known.claimed_at is None:
        return None
    if elapsed_s(claim["at"]) > offer["timeout_s"]:
        limit = f"it was not told of within {offer['timeout_s']:g} s"
        return Exit(cause=ExitCause.DEADLINE, code=None, detail=limit)
    lease_s, silent_s = offer["lease_s"], elapsed_s(known.claimed_at)
    if silent_s > lease_s and (last := read_document(heard)) is not None:
        silent_s = min(silent_s, elapsed_s(last["at"]))
    if silent_s > lease_s:
        silent = f"worker {claim['client']} was silent for {lease_s:g} s"
        return Exit(cause=ExitCause.LOST, code=None, detail=silent)
    return None
