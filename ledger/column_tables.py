"""How the file of columns is laid out, and how it is changed: whole or not at all."""

import contextlib
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LAYOUT: Final = """
CREATE TABLE IF NOT EXISTS kept (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    study TEXT NOT NULL,
    name TEXT NOT NULL,
    last INTEGER NOT NULL,
    head_seq INTEGER NOT NULL,
    head_digest TEXT NOT NULL,
    places INTEGER NOT NULL,
    asked_at REAL NOT NULL,
    moved_at REAL NOT NULL,
    data BLOB,
    UNIQUE (study, name)
);
CREATE TABLE IF NOT EXISTS places (
    kept INTEGER NOT NULL,
    key NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (kept, key, number)
) WITHOUT ROWID;
"""


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Malformed, or no database at all; not locked, full or of wrong use."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def forget(file: sqlite3.Connection, kept_id: int) -> None:
    with transaction(file):
        file.execute("DELETE FROM places WHERE kept = ?", (kept_id,))
        file.execute("DELETE FROM kept WHERE id = ?", (kept_id,))


@contextmanager
def transaction(file: sqlite3.Connection) -> Iterator[None]:
    """Whole or not at all."""
    file.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            file.execute("ROLLBACK")
        raise
    file.execute("COMMIT")
