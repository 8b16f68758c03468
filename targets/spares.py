"""Deleting attempt directories, and using an emptied one again: making and removing directories
is the dearest part of a short attempt on a busy disk."""

import errno
import itertools
import os
import stat
from collections.abc import Iterator, Sequence
from typing import Final

NOT_EMPTY: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST})
_KEEP: Final = 32
_MODE: Final = 0o700


class Spares:
    """Directories below `place` that hold the empty subdirectories `parts` and nothing else.

    Only this object knows those it keeps; after a crash they are swept with the rest of `place`.
    """

    def __init__(self, place: str, parts: Sequence[str]) -> None:
        self._place = place
        self._parts = parts
        self._kept: list[str] = []
        self._token = os.urandom(6).hex()
        self._numbers = itertools.count()

    def new_path(self) -> str:
        """A path below `place` that nobody else uses."""
        return f"{self._place}/{self._token}-{next(self._numbers)}"

    def take(self) -> str:
        """A bare directory, private to this user; the caller moves or deletes it."""
        while True:
            try:
                path = self._kept.pop()
            except IndexError:
                break
            if os.path.isdir(path):  # else it was swept as old
                return path
        path = self.new_path()
        os.mkdir(path, _MODE)
        for part in self._parts:
            os.mkdir(f"{path}/{part}", _MODE)
        return path

    def put(self, path: str) -> None:
        """Delete what is in the directory `path` of an ended attempt, and the directory itself
        unless it is bare again and worth keeping."""
        if len(self._kept) < _KEEP and self._is_bare_after_emptying(path):
            self._kept.append(path)
        else:
            remove_tree(path)

    def _is_bare_after_emptying(self, path: str) -> bool:
        """Remove the files of an attempt that left its directories as it found them; False when
        it did not."""
        for part in self._parts:
            if not _is_untouched(f"{path}/{part}"):
                return False
        for name in os.listdir(path):
            if name in self._parts:
                continue
            try:
                os.unlink(f"{path}/{name}")
            except OSError:
                return False
        return True


def _is_untouched(path: str) -> bool:
    """Whether the directory is as it was made; of links, which inputs are, it is emptied."""
    try:
        status = os.lstat(path)
        if status.st_mode != stat.S_IFDIR | _MODE or status.st_uid != os.getuid():
            return False
        for name in os.listdir(path):
            if not stat.S_ISLNK(os.lstat(f"{path}/{name}").st_mode):
                return False
            os.unlink(f"{path}/{name}")
        return not os.listxattr(path)
    except OSError:
        return False


def remove_tree(top: str) -> None:
    """Delete a directory whatever a program made of it: any depth, any permissions, any names.

    A directory found deeper is moved up to the top first, so that neither the stack nor a path
    nor the number of open files grows with the depth.
    """
    try:
        descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except PermissionError:
        os.chmod(top, _MODE)
        descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(descriptor, _MODE)
        numbers = itertools.count()
        while names := os.listdir(descriptor):
            for name in names:
                _remove_entry(descriptor, name, numbers)
    finally:
        os.close(descriptor)
    os.rmdir(top)


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
