"""What the service remembers, in one SQLite file: `kill -9` loses nothing that was answered."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

_SCHEMA = """
CREATE TABLE IF NOT EXISTS attempts (
    name TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    doc TEXT NOT NULL,           -- the canonical AttemptDoc
    state TEXT NOT NULL,         -- queued, running, ended
    handle TEXT,                 -- of the target, once it runs
    gpu_ids TEXT NOT NULL DEFAULT '',
    exit TEXT,                   -- ExitDoc of one that ended without running
    seq INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS released (name TEXT PRIMARY KEY, handle TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS machines (
    name TEXT PRIMARY KEY,
    asked TEXT NOT NULL,         -- MachineAsked
    state TEXT NOT NULL,         -- creating, ready, deleting, failed
    pid INTEGER NOT NULL DEFAULT 0,
    started INTEGER NOT NULL DEFAULT 0,
    url TEXT,
    detail TEXT NOT NULL DEFAULT '',
    heard_at REAL NOT NULL
);
"""


class AttemptRow(NamedTuple):
    name: str
    owner: str
    doc: str
    state: str
    handle: str | None
    gpu_ids: str
    exit: str | None


class MachineRow(NamedTuple):
    name: str
    asked: str
    state: str
    pid: int
    started: int
    url: str | None
    detail: str
    heard_at: float


_ATTEMPT = ", ".join(AttemptRow._fields)
_MACHINE = ", ".join(MachineRow._fields)


class State:
    """Thread-safe: one statement or one `changing` block at a time."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Several statements as one."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def attempt(self, name: str) -> AttemptRow | None:
        rows = self._read(f"SELECT {_ATTEMPT} FROM attempts WHERE name = ?", name)
        return AttemptRow(*rows[0]) if rows else None

    def attempts(self, state: str) -> list[AttemptRow]:
        """Those in that state, the oldest first."""
        found = self._read(f"SELECT {_ATTEMPT} FROM attempts WHERE state = ? ORDER BY seq", state)
        return [AttemptRow(*row) for row in found]

    def owned(self, owner: str, after: str, limit: int) -> list[AttemptRow]:
        sql = f"SELECT {_ATTEMPT} FROM attempts WHERE owner = ? AND name > ? ORDER BY name LIMIT ?"
        return [AttemptRow(*row) for row in self._read(sql, owner, after, limit)]

    def count_attempts(self) -> int:
        return int(self._read("SELECT count(*) FROM attempts")[0][0])

    def add_attempt(self, name: str, owner: str, doc: str) -> None:
        self.change(
            "INSERT INTO attempts (name, owner, doc, state, seq) VALUES (?, ?, ?, 'queued', "
            "(SELECT coalesce(max(seq), 0) + 1 FROM attempts))",
            *(name, owner, doc),
        )

    def released_handle(self, name: str) -> str | None:
        """Of an attempt whose log is still here."""
        rows = self._read("SELECT handle FROM released WHERE name = ?", name)
        return str(rows[0][0]) if rows else None

    def machine(self, name: str) -> MachineRow | None:
        rows = self._read(f"SELECT {_MACHINE} FROM machines WHERE name = ?", name)
        return MachineRow(*rows[0]) if rows else None

    def machines(self) -> list[MachineRow]:
        found = self._read(f"SELECT {_MACHINE} FROM machines ORDER BY name")
        return [MachineRow(*row) for row in found]

    def change(self, sql: str, *values: object) -> int:
        """How many rows it changed."""
        with self._lock:
            return self._db.execute(sql, values).rowcount

    def _read(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(sql, values).fetchall()
