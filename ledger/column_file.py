"""A file beside the ledger that keeps what was computed from finished trials, until it is needed
again: sorted columns and plots' sums.

Everything in it follows from the ledger and may be deleted at any time. What it keeps of a study
names the head of the study's chain that it was computed at, and counts only while the ledger has
that very entry: a ledger that was put back to an older point, and went another way, starts anew.
"""

import contextlib
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from sqlalchemy import select

from ledger.column_tables import LAYOUT, forget, is_damage, transaction
from ledger.database import ReadSession
from ledger.records import Study
from ledger.rows import ENTRIES

Key: TypeAlias = float | str
Place: TypeAlias = tuple[Key, int]
"""A key and the number of its trial: what lists are ordered by."""

FORMAT: Final = 1
"""Raise it whenever what is kept, or how it is computed, changes."""
LEAST_FREE_BYTES: Final = 1 << 30
"""On a disk with less room nothing is kept."""
_BUSY_S: Final = 5.0
_IDLE: Final = 8
"""Connections that wait for the next request, at most."""
_ASKED_EVERY_S: Final = 3600.0
_SETTLED_S: Final = 60.0
"""No session lasts so long: what was kept that long ago and lies ahead of one, the ledger lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is kept of a study under one name, and up to where."""

    id: int
    last: int
    """`finish_seq` of the latest trial in it."""
    head_seq: int
    head_digest: str
    """Of the study's chain when that trial was read."""


class ColumnsLost(OSError):
    """They were let go of meanwhile, or are kept as of a moment that this session cannot see."""


UNUSABLE: Final = (sqlite3.Error, OSError)
"""What every call of a ColumnFile may raise; whoever asked then does without."""


class ColumnFile:
    """Safe to share between threads, and its file between processes."""

    def __init__(self, folder: Path, ledger_id: str) -> None:
        self._path = folder / f"columns-{FORMAT}-{ledger_id}.db"
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._trusted: dict[str, set[tuple[int, str]]] = {}

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """A connection for one use. A damaged file is thrown away."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._connect()
        try:
            yield connection
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
            if isinstance(error, sqlite3.DatabaseError) and is_damage(error):
                self._discard()
            raise
        with self._lock:
            if len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def find(
        self, session: ReadSession, study: Study, name: str, *, is_asked: bool = True
    ) -> Kept | None:
        """What is kept, if the ledger still stands behind it; and that somebody asked for it."""
        with self.open() as file:
            row = file.execute(
                "SELECT id, last, head_seq, head_digest, asked_at, moved_at FROM kept"
                " WHERE study = ? AND name = ?",
                (study.id, name),
            ).fetchone()
            if row is None:
                return None
            found = Kept(id=row[0], last=row[1], head_seq=row[2], head_digest=row[3])
            if not self._is_of(session, study, found):
                if found.head_seq > study.head_seq and row[5] > time.time() - _SETTLED_S:
                    raise ColumnsLost(f"{name} of {study.id} is kept as of a later moment")
                forget(file, found.id)
                return None
            if is_asked and row[4] < time.time() - _ASKED_EVERY_S:
                asked = (time.time(), found.id)
                file.execute("UPDATE kept SET asked_at = ? WHERE id = ?", asked)
        return found

    def _is_of(self, session: ReadSession, study: Study, found: Kept) -> bool:
        """Whether this study's chain went through that head. One that this process saw counts
        for a session that began before it, too."""
        head = (found.head_seq, found.head_digest)
        trusted = self._trusted.setdefault(study.id, set())
        if head in trusted or head == (study.head_seq, study.head_digest):
            return True
        query = select(ENTRIES.c.digest).where(
            ENTRIES.c.chain == study.id, ENTRIES.c.seq == found.head_seq
        )
        if session.connection.execute(query).scalar_one_or_none() != found.head_digest:
            return False
        self._trust(study.id, head)
        return True

    def _trust(self, study_id: str, head: tuple[int, str]) -> None:
        with self._lock:
            trusted = self._trusted.setdefault(study_id, set())
            if len(trusted) > 1000:
                trusted.clear()
            trusted.add(head)

    def extend(
        self,
        study: Study,
        name: str,
        known: Kept | None,
        last: int,
        places: Sequence[Place],
        *,
        is_asked: bool = True,
    ) -> Kept | None:
        """Add what was read between `known` and `last` as the study stands; None where another
        process was there first. A column that nobody asked for is the first to go."""
        self._check_room()
        with self.open() as file, transaction(file):
            kept = self._moved(file, study, name, known, last, is_asked=is_asked)
            if kept is not None:
                rows = ((kept.id, key, number) for key, number in sorted(places))
                file.executemany("INSERT INTO places VALUES (?, ?, ?)", rows)
                added = (len(places), kept.id)
                file.execute("UPDATE kept SET places = places + ? WHERE id = ?", added)
        return kept

    def store(
        self, study: Study, name: str, known: Kept | None, last: int, data: bytes
    ) -> Kept | None:
        """Replace what is kept under a name; None where another process was there first."""
        self._check_room()
        with self.open() as file, transaction(file):
            kept = self._moved(file, study, name, known, last)
            if kept is not None:
                file.execute("UPDATE kept SET data = ? WHERE id = ?", (data, kept.id))
        return kept

    def load(self, kept: Kept) -> bytes | None:
        with self.open() as file:
            row = file.execute("SELECT data FROM kept WHERE id = ?", (kept.id,)).fetchone()
        return None if row is None else row[0]

    def _moved(
        self,
        file: sqlite3.Connection,
        study: Study,
        name: str,
        known: Kept | None,
        last: int,
        *,
        is_asked: bool = True,
    ) -> Kept | None:
        """The row of a name, which now reaches to `last`; None where it was not `known`."""
        now = (last, study.head_seq, study.head_digest, time.time())
        if known is None:
            moved = file.execute(
                "INSERT INTO kept"
                " (study, name, last, head_seq, head_digest, moved_at, places, asked_at)"
                " VALUES (?, ?, ?, ?, ?, ?, 0, ?) ON CONFLICT DO NOTHING",
                (study.id, name, *now, now[-1] if is_asked else 0.0),
            )
        else:
            moved = file.execute(
                "UPDATE kept SET last = ?, head_seq = ?, head_digest = ?, moved_at = ?"
                " WHERE id = ? AND last = ? AND head_digest = ?",
                (*now, known.id, known.last, known.head_digest),
            )
        if not moved.rowcount:
            return None
        row = file.execute(
            "SELECT id FROM kept WHERE study = ? AND name = ?", (study.id, name)
        ).fetchone()
        self._trust(study.id, (study.head_seq, study.head_digest))
        return Kept(id=row[0], last=last, head_seq=study.head_seq, head_digest=study.head_digest)

    def places(self, kept: Kept, which: str, values: Sequence[object], most: int) -> list[Place]:
        """At most so many places of a column, by a clause of this program's own."""
        with self.open() as file:
            query = f"SELECT key, number FROM places WHERE kept = ? {which} LIMIT ?"
            found = file.execute(query, (kept.id, *values, most)).fetchall()
            if file.execute("SELECT 1 FROM kept WHERE id = ?", (kept.id,)).fetchone() is None:
                raise ColumnsLost("a column was let go of")
        return found

    def size(self) -> tuple[int, int]:
        """How many columns there are, and places in all of them."""
        with self.open() as file:
            query = "SELECT count(*), coalesce(sum(places), 0) FROM kept WHERE data IS NULL"
            columns, places = file.execute(query).fetchone()
        return int(columns), int(places)

    def trim(self, columns: int, places: int, but: Kept) -> None:
        """Let go of the columns that were asked for longest ago, beyond so many and so many
        places in all."""
        with self.open() as file:
            rows = file.execute(
                "SELECT id, places FROM kept WHERE data IS NULL ORDER BY id = ? DESC,"
                " asked_at DESC, id DESC",
                (but.id,),
            ).fetchall()
            total = 0
            for count, (found, size) in enumerate(rows, start=1):
                total += size
                if found != but.id and (count > columns or total > places):
                    forget(file, found)

    def _check_room(self) -> None:
        if shutil.disk_usage(self._path.parent).free < LEAST_FREE_BYTES:
            raise OSError(f"{self._path.parent}: too little room to keep columns")

    def _connect(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
        )
        try:
            # NORMAL: a power cut may lose the latest of it, and damages nothing.
            for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "cache_size=-4000"):
                connection.execute(f"PRAGMA {pragma}")
            connection.executescript(LAYOUT)
        except sqlite3.DatabaseError as error:
            connection.close()
            if is_damage(error):
                self._discard()
            raise
        return connection

    def _discard(self) -> None:
        self.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)
