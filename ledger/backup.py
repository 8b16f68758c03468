"""A whole copy of a SQLite ledger, made while it is used."""

import errno
import os
import secrets
import sqlite3
from pathlib import Path
from typing import Final

from ledger.errors import Conflict, DiskFull, InvalidInput, LedgerUnavailable
from ledger.files import disk_full_at, sync_directory

_PAGES: Final = 4096
"""Copied at a time: who writes meanwhile waits no longer than that takes."""
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})
"""What file systems without hard links say: exFAT, some network shares."""


def back_up(ledger_file: Path, to: Path) -> int:
    """Copy the ledger, as it is at one moment, to a new file, which is there whole or not at all;
    its size in bytes.

    Raises:
        Conflict: there is such a file.
        InvalidInput: there is no such directory.
        LedgerUnavailable: it cannot be read, or the copy is damaged.
        DiskFull
    """
    if to.exists():
        raise Conflict(f"{to} is there already: name a new file")
    if not to.parent.is_dir():
        raise InvalidInput(f"{to.parent}: there is no such directory")
    draft = to.with_name(f"{to.name}.{secrets.token_hex(4)}")
    try:
        with disk_full_at(to.parent):
            _copy(ledger_file, draft)
            _sync(draft)
            _name(draft, to)
            sync_directory(to.parent)
    except FileExistsError:
        raise Conflict(f"{to} is there already: name a new file") from None
    finally:
        draft.unlink(missing_ok=True)
    return to.stat().st_size


def _name(draft: Path, to: Path) -> None:
    """Never over a file that came to be there meanwhile, where the file system can see to that.
    Raises FileExistsError."""
    try:
        os.link(draft, to)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if to.exists():
            raise FileExistsError(to) from None
        os.rename(draft, to)


def _copy(ledger_file: Path, draft: Path) -> None:
    source = sqlite3.connect(f"{ledger_file.absolute().as_uri()}?mode=ro", uri=True)
    target = sqlite3.connect(draft)
    try:
        source.backup(target, pages=_PAGES)
        target.execute("PRAGMA journal_mode=DELETE")  # one file, and nothing beside it
        problem = target.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.OperationalError as error:
        if "full" in str(error):
            raise DiskFull(f"no space is left at {draft.parent}") from error
        raise LedgerUnavailable(f"{ledger_file} cannot be copied: {error}") from error
    except sqlite3.DatabaseError as error:
        raise LedgerUnavailable(f"{ledger_file} cannot be copied: {error}") from error
    finally:
        target.close()
        source.close()
    if problem != "ok":
        raise LedgerUnavailable(f"the copy of {ledger_file} is damaged: {problem}")


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
