"""What ended attempts of a cluster left, brought from the shared store to this machine."""

import hashlib
import os
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from ledger.errors import ArlError, TargetUnavailable
from targets.disk_errors import disk_errors
from targets.protocol import ExitCause, LogChunk, Observation
from targets.ray_job.outputs import fetch_output
from targets.ray_job.records import (
    JOURNAL,
    JOURNAL_PIECE,
    OUTPUT,
    RECORD,
    SCORE,
    Record,
    attempt_path,
    log_path,
    read_journal,
)
from targets.ray_job.trees import Damaged
from targets.shared_store import SharedStore
from targets.spares import NOT_EMPTY, remove_tree

_AT_ONCE_BYTES: Final = 32 << 20
"""A larger output is fetched beside the controller's loop."""
_LOGS_KNOWN: Final = 256
_DRAFT_AGE_S: Final = 86_400.0
"""Of what a killed process left half fetched; none takes so long."""

Piece = tuple[int, int]


class Ended:
    """The attempts with a record. Thread-safe.

    Below `root`: `<name>/output/` and `<name>/score`, made whole or not at all.
    """

    def __init__(self, root: str, shared: SharedStore, told: Callable[[str], None]) -> None:
        """`told` is called with a name once what it left is here."""
        self._root = root
        self._shared = shared
        self._told = told
        self._lock = threading.Lock()
        self._records: dict[str, Record] = {}
        self._fetching: set[str] = set()
        self._failed: dict[str, ArlError] = {}
        self._logs: dict[str, list[Piece]] = {}
        with disk_errors(f"making {root}"):
            os.makedirs(root, mode=0o700, exist_ok=True)
        for draft in Path(root).glob(".*"):
            with suppress(FileNotFoundError):  # another process deletes it too
                if time.time() - draft.lstat().st_mtime > _DRAFT_AGE_S:
                    remove_tree(str(draft))

    def record(self, name: str) -> Record | None:
        """Its record, if what it left is here too; else fetching it begins, or ends right now
        where it is small. Raises DiskFull, TargetUnavailable."""
        with self._lock:
            if name in self._records:
                return self._records[name]
            if name in self._fetching:
                return None
            if name in self._failed:
                raise self._failed.pop(name)
        record = self._read(name)
        if record is None:
            return None
        if record.output_bytes <= _AT_ONCE_BYTES:
            return self._bring(name, record)
        with self._lock:
            self._fetching.add(name)
        threading.Thread(
            target=self._bring_beside, args=(name, record), name="arl-ray-fetch", daemon=True
        ).start()
        return None

    def known(self, name: str) -> Record | None:
        """Its record, if what it left is here; asks nobody."""
        with self._lock:
            return self._records.get(name)

    def is_fetching(self, name: str) -> bool:
        with self._lock:
            return name in self._fetching

    def directory(self, name: str) -> str | None:
        """Where what it left is, fetched now if need be; None while there is no record."""
        path = f"{self._root}/{name}"
        if os.path.isdir(path):
            return path
        with self._lock:
            record = self._records.get(name)
        record = record or self._read(name)
        if record is None:
            return None
        self._fetch(name, record)
        return path

    def observe(self, name: str, record: Record, cursor: str) -> Observation:
        offset, size = int(cursor or 0), record.journal_bytes
        data = b""
        if offset < size:
            data = self._shared.read_range(attempt_path(name, JOURNAL), offset, JOURNAL_PIECE)
            if not data:
                raise TargetUnavailable(f"the journal of {name} is missing in {self._shared.url}")
        try:
            seen = read_journal(data, offset, size=size)
        except (ValueError, TypeError) as error:
            raise TargetUnavailable(f"the journal of {name} is damaged: {error}") from error
        return seen if seen.more else replace(seen, exit=record.exit)

    def read_log(self, name: str, offset: int, limit: int) -> LogChunk:
        pieces = self._pieces(name)
        size = sum(pieces[-1]) if pieces else 0
        kept_to = 0
        for start, length in pieces:
            if start > max(offset, kept_to):
                return _gap(kept_to, start, offset, limit, size)
            if offset < start + length and limit > 0:
                path = log_path(name, (start, length))
                data = self._shared.read_range(path, max(0, offset - start), limit)
                return LogChunk(data, max(offset, start), size)
            kept_to = start + length
        return LogChunk(b"", min(offset, size), size)

    def forget(self, name: str) -> None:
        """Delete what is here of a released attempt."""
        with self._lock:
            self._records.pop(name, None)
            self._failed.pop(name, None)
        remove_tree(f"{self._root}/{name}")

    def names(self) -> list[str]:
        """Of the attempts of which something is here."""
        return [name for name in os.listdir(self._root) if not name.startswith(".")]

    def _read(self, name: str) -> Record | None:
        data = self._shared.read(attempt_path(name, RECORD))
        if data is None:
            return None
        try:
            return Record.parse(data)
        except ValueError as error:
            raise TargetUnavailable(f"the record of {name} is damaged: {error}") from error

    def _bring_beside(self, name: str, record: Record) -> None:
        try:
            self._bring(name, record)
        except ArlError as error:
            with self._lock:
                self._failed[name] = error
        finally:
            with self._lock:
                self._fetching.discard(name)
            self._told(name)

    def _bring(self, name: str, record: Record) -> Record:
        try:
            self._fetch(name, record)
        except Damaged as error:
            ended = replace(record.exit, cause=ExitCause.LOST, detail=str(error))
            record = Record(exit=ended, node=record.node, journal_bytes=record.journal_bytes)
            self._fetch(name, record)
        with self._lock:
            self._records[name] = record
        return record

    def _fetch(self, name: str, record: Record) -> None:
        """Make its directory here, unless it was made. Raises Damaged, and what the shared store
        raises."""
        final = f"{self._root}/{name}"
        if os.path.isdir(final):
            return
        draft = f"{self._root}/.{secrets.token_hex(8)}"
        try:
            if record.output is not None:
                path = attempt_path(name, OUTPUT)
                fetch_output(self._shared, path, record.output, draft)
            with disk_errors(f"fetching what {name} left"):
                os.makedirs(f"{draft}/output", mode=0o700, exist_ok=True)
                Path(draft, SCORE).write_bytes(self._score(name, record))
                put_here(draft, final)
        finally:
            remove_tree(draft)

    def _score(self, name: str, record: Record) -> bytes:
        if record.score_sha256 is None:
            return b""
        data = self._shared.read(attempt_path(name, SCORE)) or b""
        if hashlib.sha256(data).hexdigest() != record.score_sha256:
            raise Damaged(f"the score of {name} is damaged in {self._shared.url}")
        return data

    def _pieces(self, name: str) -> list[Piece]:
        with self._lock:
            if name in self._logs:
                return self._logs[name]
        found = []
        for text in self._shared.names(log_path(name)):
            start, _, length = text.partition("-")
            if start.isdecimal() and length.isdecimal():
                found.append((int(start), int(length)))
        pieces = sorted(found)
        with self._lock:
            if name in self._records:
                if len(self._logs) >= _LOGS_KNOWN:
                    self._logs.clear()
                self._logs[name] = pieces
        return pieces


def put_here(draft: str, final: str) -> None:
    """Under its name, unless another thread or process was faster."""
    try:
        os.rename(draft, final)
    except OSError as error:
        if error.errno not in NOT_EMPTY:
            raise


def _gap(dropped_from: int, dropped_to: int, offset: int, limit: int, size: int) -> LogChunk:
    """One line in place of what was dropped, at the offsets of the last of it."""
    dropped = dropped_to - dropped_from
    line = f"\n[... {dropped} bytes of output dropped ...]\n".encode()[-dropped:]
    start = dropped_to - len(line)
    if offset > start:
        line, start = line[offset - start :], offset
    return LogChunk(line[:limit], start, size)
