"""What the operating system says about the disk, as errors of ours."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from ledger.errors import DiskFull, TargetUnavailable


@contextmanager
def disk_errors(doing: str, *, missing_ok: bool = False) -> Iterator[None]:
    """Turn `no space left` into DiskFull, and any other OSError into TargetUnavailable; with
    `missing_ok` one that says that a file is not there goes on as it is."""
    try:
        yield
    except OSError as error:
        if missing_ok and isinstance(error, FileNotFoundError):
            raise
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no space left while {doing}; free some and it goes on") from error
        # Without the path: clients of the service see this, too.
        raise TargetUnavailable(f"{doing}: {error.strerror or error}") from error
