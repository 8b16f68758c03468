"""Read-only directories holding stored trees, shared by every attempt that mounts them."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ledger.errors import ArtifactCorrupt
from ledger.files import disk_full_at, hash_file, remove_tree
from ledger.manifests import Manifest
from ledger.objects import STORED_MTIME_NS, ObjectStore

LINK_FROM_BYTES: Final = 8 << 20
"""Smaller files are copied, so that whoever damages a checkout leaves the store whole; larger
ones are hard links where the file system allows it."""

_NO_LINKS: Final = frozenset({errno.EXDEV, errno.EMLINK, errno.EPERM, errno.ENOTSUP})


class Checkouts:
    """`trees/<digest>/`, each made beside and renamed into place."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._trees = objects.root / "trees"
        self._trees.mkdir(exist_ok=True)

    def make(self, tree: str, manifest: Manifest) -> Path:
        """The checkout, made now unless it is there and whole."""
        final = self._trees / tree
        if final.is_dir():
            if all(_is_whole(final / path, size, sha) for path, _, size, sha in manifest):
                _remove_strays(final, manifest)
                return final
            self._discard(final)
        temporary = self._objects.new_incoming()
        try:
            with disk_full_at(self._objects.root):
                self._fill(temporary, manifest)
                _publish(temporary, final)
        finally:
            remove_tree(temporary)
        return final

    def each(self) -> Iterator[tuple[str, os.stat_result]]:
        """The tree of every checkout, with its directory's status."""
        for entry in os.scandir(self._trees):
            with contextlib.suppress(FileNotFoundError):  # somebody else took it away
                yield entry.name, entry.stat(follow_symlinks=False)

    def size_of(self, tree: str) -> int:
        """Bytes of a checkout that are in no other file: large ones are links to the store's."""
        size = 0
        for directory, _, names in os.walk(self._trees / tree):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    status = os.lstat(os.path.join(directory, name))
                    size += status.st_size if status.st_nlink == 1 else 0
        return size

    def discard(self, tree: str) -> None:
        self._discard(self._trees / tree)

    def _fill(self, directory: Path, manifest: Manifest) -> None:
        directory.mkdir()
        made = {directory}
        for path, mode, size, digest in manifest:
            target = directory / path
            if target.parent not in made:
                target.parent.mkdir(parents=True, exist_ok=True)
                made.update(p for p in target.parents if p.is_relative_to(directory))
            self._place(digest, target, 0o555 if mode & 0o111 else 0o444, size)
        # Not yet the top: a directory that moves has its `..` rewritten.
        for parent in made - {directory}:
            _seal(parent)

    def _place(self, digest: str, target: Path, mode: int, size: int) -> None:
        if size >= LINK_FROM_BYTES and mode == 0o444 and self._link(digest, target):
            return
        self._objects.copy_out(digest, target, mode)
        os.utime(target, ns=(STORED_MTIME_NS, STORED_MTIME_NS))

    def _link(self, digest: str, target: Path) -> bool:
        source = self._objects.path(digest)
        found, _ = hash_file(source, f"artifact {digest}")
        if found != digest:
            raise ArtifactCorrupt(f"artifact {digest}: the bytes of {source} changed")
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return False
        return True

    def _discard(self, checkout: Path) -> None:
        """Take a damaged checkout out of the way in one step, then delete it."""
        away = self._objects.new_incoming()
        try:
            checkout.chmod(0o755)
            os.rename(checkout, away)
        except FileNotFoundError:
            return
        remove_tree(away)


def _publish(temporary: Path, final: Path) -> None:
    try:
        os.rename(temporary, final)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return  # Another process made the same checkout meanwhile.
    _seal(final)


def _seal(directory: Path) -> None:
    directory.chmod(0o555)
    os.utime(directory, ns=(STORED_MTIME_NS, STORED_MTIME_NS))


def _remove_strays(checkout: Path, manifest: Manifest) -> None:
    """Delete what was added since: a planted `.pyc` would run in place of its source."""
    expected: dict[str, set[str]] = {"": set()}
    for path, _, _, _ in manifest:
        while path:
            parent, _, name = path.rpartition("/")
            expected.setdefault(parent, set()).add(name)
            path = parent
    for name, children in expected.items():
        directory = checkout / name
        if directory.stat().st_mtime_ns == STORED_MTIME_NS:
            continue
        directory.chmod(0o755)
        for child in list(directory.iterdir()):
            if child.name not in children:
                remove_tree(child)
        _seal(directory)


def _is_whole(path: Path, size: int, digest: str) -> bool:
    """Unchanged by its size and time, or else by its bytes."""
    try:
        status = path.lstat()
    except OSError:
        return False
    if status.st_size != size:
        return False
    if status.st_mtime_ns == STORED_MTIME_NS:
        return True
    return hash_file(path, str(path))[0] == digest
