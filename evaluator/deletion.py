"""Deletes a directory that something hostile may have filled."""

import errno
import os
import stat
from itertools import islice
from typing import Final

_BATCH: Final = 4096
"""Names read at a time: a directory may hold more than memory does."""


def delete_tree(path: str) -> None:
    """Delete a directory whatever its depth, size and permissions. Idempotent.

    Never follows a link. Directories inside directories are first moved up to the top, so that
    neither the recursion limit, nor PATH_MAX, nor the number of open files matters.

    Raises:
        OSError: something could not be deleted (an immutable file, a mount, another owner's).
    """
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)
            return
    except FileNotFoundError:
        return
    top = _open_writable(path, None)
    try:
        _empty_top(top)
    finally:
        os.close(top)
    os.rmdir(path)


def _open_writable(name: str, parent: int | None) -> int:
    """Open a directory after giving its owner all rights on it, without following links."""
    handle = os.open(
        name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent
    )
    try:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(handle)


def _empty_top(top: int) -> None:
    moved = 0
    while names := _batch(top):
        for name, is_directory in names:
            if not is_directory:
                os.unlink(name, dir_fd=top)
                continue
            inner = _open_writable(name, top)
            try:
                moved = _empty_inner(inner, top, moved)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)


def _empty_inner(inner: int, top: int, moved: int) -> int:
    """Unlink the files of a directory and move its directories to the top."""
    while names := _batch(inner):
        for name, is_directory in names:
            if not is_directory:
                os.unlink(name, dir_fd=inner)
                continue
            # Moving a directory rewrites its "..", which takes the right to write it.
            os.close(_open_writable(name, inner))
            moved = _move_up(name, inner, top, moved)
    return moved


def _move_up(name: str, inner: int, top: int, moved: int) -> int:
    while True:
        moved += 1
        try:
            os.rename(name, f".arl-moved-{moved}", src_dir_fd=inner, dst_dir_fd=top)
        except OSError as error:
            # Taken by something hostile: rename replaces an empty directory, nothing else.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        else:
            return moved


def _batch(directory: int) -> list[tuple[str, bool]]:
    with os.scandir(directory) as listing:
        return [
            (entry.name, entry.is_dir(follow_symlinks=False)) for entry in islice(listing, _BATCH)
        ]
