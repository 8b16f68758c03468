"""Turns what a database driver raises into ARL's own errors, in one place."""

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy.exc import DBAPIError, OperationalError, TimeoutError

from ledger.errors import (
    ArlError,
    BudgetExceeded,
    Conflict,
    DiskFull,
    InvalidInput,
    LedgerUnavailable,
)

_CODE_MASK: Final = 0xFF  # SQLite's extended codes carry the primary one in the low byte.
_POSTGRES_DISK_FULL: Final = "53100"
_POSTGRES_INTEGRITY: Final = "23"
_POSTGRES_DATA: Final = "22"
_LITTLE_SPACE_BYTES: Final = 1 << 20


@contextmanager
def translated_errors(where: str, driver_error: type[Exception]) -> Iterator[None]:
    """Raise ARL's errors for the driver's. `where` names the database for people."""
    try:
        yield
    except (DBAPIError, driver_error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if cause is None or _is_our_mistake(cause):
            raise
        raise _translate(cause, where) from error
    except (OperationalError, TimeoutError) as error:
        raise LedgerUnavailable(f"the ledger {where} does not answer: {error}") from error
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{error.object!r} is not text that UTF-8 can hold") from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise _disk_full(where) from error


def _is_our_mistake(error: BaseException) -> bool:
    """A statement that is wrong is a bug, and must not look like a database that is away."""
    return type(error).__name__ in ("ProgrammingError", "InterfaceError") and isinstance(
        error, sqlite3.Error
    )


def _translate(error: BaseException, where: str) -> ArlError:
    if isinstance(error, sqlite3.Error):
        return _translate_sqlite(error, where)
    return _translate_postgres(error, where)


def _disk_full(where: str) -> DiskFull:
    return DiskFull(f"no space is left for the ledger {where}: free some and it goes on")


def _translate_sqlite(error: sqlite3.Error, where: str) -> ArlError:
    code = getattr(error, "sqlite_errorcode", 0) & _CODE_MASK
    text = str(error)
    if code == sqlite3.SQLITE_CONSTRAINT:
        return _broken_constraint(text)
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(where)):
        return _disk_full(where)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return LedgerUnavailable(
            f"{where} is damaged or not an ARL ledger ({text}): run `arl verify` on it, and "
            "restore it from a backup (a copy of the file and its -wal)"
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LedgerUnavailable(f"another process holds the ledger {where} for too long")
    return LedgerUnavailable(f"the ledger {where} cannot be used: {text}")


def _is_full(where: str) -> bool:
    """Some writes (the -shm file) fail with a bare I/O error on a full disk."""
    try:
        status = os.statvfs(os.path.dirname(where) or ".")
    except OSError:
        return False
    return status.f_bavail * status.f_frsize < _LITTLE_SPACE_BYTES


def _translate_postgres(error: BaseException, where: str) -> ArlError:
    state = str(getattr(error, "sqlstate", None) or "")
    if state == _POSTGRES_DISK_FULL:
        return _disk_full(where)
    if state.startswith(_POSTGRES_INTEGRITY) or state == "P0001":
        return _broken_constraint(str(error))
    if state.startswith(_POSTGRES_DATA) or _is_data_error(error):
        return InvalidInput(f"the ledger cannot hold it: {str(error).splitlines()[0]}")
    return LedgerUnavailable(f"the ledger {where} does not answer: {error}")


def _is_data_error(error: BaseException) -> bool:
    """The driver itself refused a value (NUL in a text); it gives no state then."""
    return any(cls.__name__ == "DataError" for cls in type(error).__mro__)


def _broken_constraint(text: str) -> ArlError:
    line = text.splitlines()[0]
    if "within_limit" in text:
        return BudgetExceeded(f"a budget would be passed: {line}")
    return Conflict(f"the ledger refuses it: {line}")
