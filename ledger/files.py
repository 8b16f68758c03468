"""Small file operations of the artifact store: durable, whole, and without surprises."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ledger.errors import DiskFull, NotFound

BUFFER_BYTES: Final = 1 << 20


@contextmanager
def disk_full_at(place: Path) -> Iterator[None]:
    """Raise DiskFull, naming the place, for an OSError that says there is no space left."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DiskFull(f"no space is left at {place}: free some and it goes on") from error


def write_all(fd: int, data: bytes) -> None:
    """One write may take only part of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def hash_file(path: Path, what: str) -> tuple[str, int]:
    """sha256 and size of a stored file. Raises NotFound, naming `what`."""
    hasher = hashlib.sha256()
    size = 0
    try:
        with path.open("rb", buffering=0) as reader:
            while chunk := reader.read(BUFFER_BYTES):
                hasher.update(chunk)
                size += len(chunk)
    except FileNotFoundError:
        raise NotFound(f"{what} is not in the store: {path} is missing") from None
    return hasher.hexdigest(), size


def remove_tree(path: Path) -> None:
    """Delete a file or directory, read-only ones included; a missing one is fine."""
    try:
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink(missing_ok=True)
            return
        path.chmod(0o700)
        children = list(path.iterdir())
    except FileNotFoundError:
        return
    for child in children:
        remove_tree(child)
    try:
        path.rmdir()
    except FileNotFoundError:
        return
