"""What the operating system says about the disk, as errors of ours."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from ledger.errors import DiskFull, TargetUnavailable


@contextmanager
def disk_errors(doing: str) -> Iterator[None]:
    """Turn `no space left` into DiskFull, and any other OSError into TargetUnavailable."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no space left while {doing}; free some and it goes on") from error
        raise TargetUnavailable(f"{doing}: {error}") from error
