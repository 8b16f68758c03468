"""Tells cheaply whether anything was committed since the last time."""

import sqlite3
import threading
from pathlib import Path

from sqlalchemy import make_url

from ledger.database import Ledger


class CommitWatch:
    """Safe to share between threads: who closes it waits for a look under way, since a connection
    that is closed while it is used takes the process down. Where the database cannot tell,
    something always may have been."""

    def __init__(self, ledger: Ledger) -> None:
        self._connection: sqlite3.Connection | None = None
        self._version: int | None = None
        self._lock = threading.Lock()
        url = make_url(ledger.address)
        if url.get_backend_name() == "sqlite" and url.database:
            path = Path(url.database).absolute().as_uri()
            self._connection = sqlite3.connect(
                f"{path}?mode=ro", uri=True, check_same_thread=False, timeout=1.0
            )

    def has_news(self) -> bool:
        """Whether a transaction was committed since the last call; True at the first."""
        with self._lock:
            if self._connection is None:
                return True
            try:
                version = int(self._connection.execute("PRAGMA data_version").fetchone()[0])
            except sqlite3.Error:  # the next read of the ledger says what is wrong, in its words
                return True
            changed = version != self._version
            self._version = version
            return changed

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
