"""Adds up what directories and deleted files occupy, an entry at a time, following no link.

Standard library only.
"""

import os
import stat
from collections.abc import Iterator
from typing import Final, NamedTuple

from targets import linux

ENTRY_BYTES: Final = 4096
"""What a file or directory counts at least: a file system runs out of inodes too."""
MAX_DEPTH: Final = 200
"""Of directories: each one is open while it is walked. No program needs so many."""

_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class TooDeep(Exception):
    """Directories are nested deeper than anybody needs."""


class _Level:
    """An open directory on the way down."""

    __slots__ = ("descriptor", "entries")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.entries = os.scandir(descriptor)

    def close(self) -> None:
        self.entries.close()
        os.close(self.descriptor)


def walk_entries(place: str, *, by_length: bool) -> Iterator[int]:
    """The bytes of each thing at and below `place`, never following a link. Raises TooDeep."""
    try:
        status = os.lstat(place)
    except OSError:
        return
    yield _bytes_of(status, by_length=by_length)
    if not stat.S_ISDIR(status.st_mode):
        return
    levels: list[_Level] = []
    try:
        _descend(levels, place, None)
        while levels:
            level = levels[-1]
            entry = next(level.entries, None)
            if entry is None:
                levels.pop().close()
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # it is gone
            yield _bytes_of(status, by_length=by_length)
            if stat.S_ISDIR(status.st_mode):
                _descend(levels, entry.name, level.descriptor)
    finally:
        for level in levels:
            level.close()


def _descend(levels: list[_Level], name: str, parent: int | None) -> None:
    if len(levels) >= MAX_DEPTH:
        raise TooDeep
    try:
        descriptor = _open_directory(name, parent)
    except OSError:
        return  # it is gone, or something else by now
    levels.append(_Level(descriptor))


def _open_directory(name: str, parent: int | None) -> int:
    """One that its owner made unreadable is made readable first: it would hide what it holds."""
    try:
        return os.open(name, _OPEN, dir_fd=parent)
    except PermissionError:
        handle = os.open(name, _OPEN | os.O_PATH, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
        finally:
            os.close(handle)
        return os.open(name, _OPEN, dir_fd=parent)


def _bytes_of(status: os.stat_result, *, by_length: bool) -> int:
    """What it occupies, shared among its names, so that together they count once."""
    size = max(status.st_blocks * 512, ENTRY_BYTES)
    if stat.S_ISDIR(status.st_mode):
        return size
    if by_length:
        size = max(size, status.st_size)
    return -(-size // max(status.st_nlink, 1))


def walk_deleted(directory: str) -> Iterator[int]:
    """The bytes of each file without a name, in the file system of `directory`, that a process
    below this one has open or mapped; 0 in between."""
    device = os.stat(directory).st_dev
    seen: set[int] = set()
    for pid in linux.descendants_of(os.getpid()):
        yield 0
        for number in _names(f"/proc/{pid}/fd"):
            try:
                status = os.stat(f"/proc/{pid}/fd/{number}")
            except OSError:
                continue
            if status.st_nlink or status.st_dev != device or status.st_ino in seen:
                continue
            seen.add(status.st_ino)
            yield status.st_blocks * 512
        yield from _mapped(pid, device, seen)


def _mapped(pid: int, device: int, seen: set[int]) -> Iterator[int]:
    """As far as it is mapped: how much of it there is cannot be asked."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            lines = [line for line in file if line.endswith(b" (deleted)\n")]
    except OSError:
        return
    own = b"%02x:%02x" % (os.major(device), os.minor(device))
    for line in lines:
        places, _, _, where, inode = line.split()[:5]
        if where == own and int(inode) not in seen:
            seen.add(int(inode))
            start, _, end = places.partition(b"-")
            yield int(end, 16) - int(start, 16)


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


class Free(NamedTuple):
    """Of a file system."""

    size_bytes: int
    inodes: int

    def lost_since(self, now: "Free") -> int:
        """How many bytes it has less; each inode counts as ENTRY_BYTES."""
        inodes = (self.inodes - now.inodes) * ENTRY_BYTES
        return max(self.size_bytes - now.size_bytes, inodes)


def free_of(directory: str) -> Free:
    try:
        found = os.statvfs(directory)
    except OSError:
        return Free(0, 0)  # it was deleted, which the watchdog notices by itself
    return Free(found.f_bfree * found.f_frsize, found.f_ffree)
