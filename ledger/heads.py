"""A file outside the database that remembers where each chain ended, so truncation shows."""

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from ledger.chain import SERVICE_CHAIN
from ledger.database import ReadSession
from ledger.digests import canonical_json
from ledger.errors import InvalidInput
from ledger.files import BUFFER_BYTES, disk_full_at, sync_directory, write_all
from ledger.rows import STUDIES
from ledger.tables import Base

_SERVICE = Base.metadata.tables["service_head"]


@dataclass(frozen=True, slots=True)
class RecordedHead:
    chain: str
    seq: int
    digest: str


def write_heads(session: ReadSession, path: Path) -> None:
    """Append the heads that changed since the last time, and fsync. Called at every promotion
    and shutdown. Raises DiskFull."""
    last = {head.chain: head for head in read_heads(path)}
    changed = [head for head in current_heads(session) if last.get(head.chain) != head]
    if not changed:
        return
    lines = "".join(
        canonical_json({"at": session.now(), "chain": h.chain, "digest": h.digest, "seq": h.seq})
        + "\n"
        for h in changed
    )
    with disk_full_at(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            _append(fd, lines.encode())
        finally:
            os.close(fd)
        sync_directory(path.parent)


def _append(fd: int, lines: bytes) -> None:
    """Whole lines behind whole lines, durably. Who writes waits for whoever else does."""
    fcntl.flock(fd, fcntl.LOCK_EX)
    whole = _whole_bytes(fd)
    os.ftruncate(fd, whole)
    try:
        write_all(fd, lines)
        os.fsync(fd)
    except OSError:
        os.ftruncate(fd, whole)
        raise


def _whole_bytes(fd: int) -> int:
    """Up to where the file holds whole lines: a crash or a full disk cuts the last one short."""
    end = os.fstat(fd).st_size
    while end:
        start = max(0, end - BUFFER_BYTES)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def read_heads(path: Path) -> list[RecordedHead]:
    """Every recorded head, oldest first; none when there is no file. A last line that a crash
    cut short is skipped. Raises InvalidInput, naming the line, when another one is damaged."""
    try:
        lines = path.read_text(errors="replace").split("\n")
    except FileNotFoundError:
        return []
    heads = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            found = json.loads(line)
            heads.append(RecordedHead(str(found["chain"]), int(found["seq"]), found["digest"]))
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"{path}: line {number} is no recorded head: {error!r}") from error
    return heads


def current_heads(session: ReadSession) -> list[RecordedHead]:
    """Where each chain ends according to its head row; empty chains are left out."""
    query = select(STUDIES.c.id, STUDIES.c.head_seq, STUDIES.c.head_digest).order_by(STUDIES.c.id)
    heads = [RecordedHead(*row) for row in session.connection.execute(query)]
    query = select(_SERVICE.c.seq, _SERVICE.c.digest).where(_SERVICE.c.id == 1)
    service = session.connection.execute(query).first()
    if service is not None and service.seq:
        heads.append(RecordedHead(SERVICE_CHAIN, service.seq, service.digest))
    return heads
