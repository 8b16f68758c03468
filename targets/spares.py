"""Deleting attempt directories, and using an emptied one again: making and removing directories
is the dearest part of a short attempt on a busy disk."""

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Iterator, Sequence
from typing import Final

from targets import layout

NOT_EMPTY: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST})
_KEEP: Final = 32
_MODE: Final = 0o700


class Spares:
    """Directories below `place` that hold the empty subdirectories `parts` and nothing else.

    Their names say which process they belong to, so that what a dead one left can be swept.
    """

    def __init__(self, place: str, parts: Sequence[str]) -> None:
        self._place = place
        self._parts = parts
        self._kept: list[str] = []
        self._owner = f"{os.getpid()}-{layout.process_start(os.getpid())}"
        self._numbers = itertools.count()
        self._token = os.urandom(4).hex()

    def sweep(self) -> None:
        """Delete what processes that are gone left below `place`."""
        for name in os.listdir(self._place):
            pid, _, rest = name.partition("-")
            if str(layout.process_start(pid)) != rest.partition("-")[0]:
                with contextlib.suppress(OSError):  # another one sweeps too; else the next time
                    remove_tree(f"{self._place}/{name}")

    def new_path(self) -> str:
        """A path below `place` that nobody else uses."""
        return f"{self._place}/{self._owner}-{self._token}-{next(self._numbers)}"

    def take(self) -> str:
        """A bare directory, private to this user; the caller moves or deletes it."""
        try:
            return self._kept.pop()
        except IndexError:
            path = self.new_path()
        os.mkdir(path, _MODE)
        for part in self._parts:
            os.mkdir(f"{path}/{part}", _MODE)
        return path

    def put(self, path: str) -> None:
        """Delete all that is in the directory `path` of an ended attempt, and the directory
        itself unless it is worth keeping as a bare one."""
        if len(self._kept) < _KEEP and self._make_bare(path):
            self._kept.append(path)
        else:
            remove_tree(path)

    def clear(self) -> None:
        while self._kept:
            remove_tree(self._kept.pop())

    def _make_bare(self, path: str) -> bool:
        """Empty an attempt's directories; False when it changed them in other ways too."""
        for part in self._parts:
            if not _is_as_made(f"{path}/{part}"):
                return False
            _empty(f"{path}/{part}")
        for name in os.listdir(path):
            if name not in self._parts:
                try:
                    os.unlink(f"{path}/{name}")
                except OSError:
                    return False  # a directory, say the answerer's
        return True


def _is_as_made(path: str) -> bool:
    """Whether it is a directory with the owner, mode and attributes it was made with."""
    try:
        status = os.lstat(path)
        if status.st_mode != stat.S_IFDIR | _MODE or status.st_uid != os.geteuid():
            return False
        return not os.listxattr(path)
    except OSError:
        return False


def remove_tree(top: str) -> None:
    """Delete a directory whatever a program made of it; none there is no error."""
    try:
        os.chmod(top, _MODE)
        _empty(top)
        os.rmdir(top)
    except FileNotFoundError:
        pass  # another one deletes it too, and is ahead


def _empty(top: str) -> None:
    """Delete all that is below a directory: any depth, any permissions, any names.

    A directory found deeper is moved up to the top first, so that neither the stack nor a path
    nor the number of open files grows with the depth.
    """
    descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        numbers = itertools.count()
        while names := os.listdir(descriptor):
            for name in names:
                _remove_entry(descriptor, name, numbers)
    finally:
        os.close(descriptor)


def _remove_entry(top: int, name: str, numbers: Iterator[int]) -> None:
    if not stat.S_ISDIR(os.lstat(name, dir_fd=top).st_mode):
        os.unlink(name, dir_fd=top)
        return
    os.chmod(name, _MODE, dir_fd=top)
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
    try:
        for child in os.listdir(inner):
            _empty_out(inner, child, top, numbers)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def _empty_out(inner: int, child: str, top: int, numbers: Iterator[int]) -> None:
    """Delete a file; move a directory up to `top`, whose turn it is later."""
    if not stat.S_ISDIR(os.lstat(child, dir_fd=inner).st_mode):
        os.unlink(child, dir_fd=inner)
        return
    os.chmod(child, _MODE, dir_fd=inner)
    while True:
        try:
            os.rename(child, f".arl-{next(numbers)}", src_dir_fd=inner, dst_dir_fd=top)
            return
        except OSError as error:
            if error.errno not in NOT_EMPTY | {errno.ENOTDIR}:
                raise
