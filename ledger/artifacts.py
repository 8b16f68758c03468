"""The content-addressed artifact store: files by sha256, trees by the digest of their manifest."""

import errno
import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final

from ledger.checkouts import Checkouts
from ledger.digests import canonical_json
from ledger.errors import ArtifactCorrupt, ArtifactLetGo, InvalidInput, NotFound
from ledger.files import disk_full_at, hash_file
from ledger.manifests import Manifest, check_manifest, parse_manifest, walk_files
from ledger.objects import ObjectStore

_MANIFESTS_KEPT: Final = 64
_MANIFEST_FILES_KEPT: Final = 1000
"""Larger manifests are read anew each time."""


class ArtifactStore:
    """Write beside, fsync, rename: a file is in the store whole or not at all.

    Layout below `root`: `objects/ab/cdef…` one file per content; a tree is an object holding
    the canonical JSON list of `[path, mode, size, sha256]`, its digest the tree's digest;
    `trees/<digest>/` read-only checkouts; `incoming/` files being written, swept at start.

    Safe to use from several threads and processes at once. Every method that writes raises
    DiskFull when there is no space left, and then leaves nothing behind.
    """

    def __init__(self, root: Path) -> None:
        with disk_full_at(root):
            self._objects = ObjectStore(root)
            self._checkouts = Checkouts(self._objects)
        self._manifests: dict[str, Manifest] = {}
        self.why_gone: Callable[[str], str | None] = lambda _digest: None
        """Says why a tree that is not here (any more) was let go; None where nobody let it go.
        Its readers then raise ArtifactLetGo, which is a NotFound, with these words."""

    @property
    def objects(self) -> ObjectStore:
        """The files below, for who takes away what nothing needs."""
        return self._objects

    @property
    def checkouts(self) -> Checkouts:
        """The directories made of trees, for the same."""
        return self._checkouts

    def put_bytes(self, data: bytes) -> str:
        """Store `data` durably and return its digest. Storing it again writes nothing."""
        return self._objects.put_bytes(data)

    def put_file(self, path: Path) -> str:
        """Store a copy of a regular file; hashes while copying, so it is consistent.

        Raises:
            NotFound: there is no such file.
            InvalidInput: it is a symlink, or not a regular file.
        """
        return self._put_path(path)[0]

    def put_open_file(self, fd: int, *, limit_bytes: int) -> tuple[str, int]:
        """Store a copy of what an open regular file holds from its start; digest and size.
        Hashes while copying. Raises InvalidInput when it holds more than `limit_bytes`: the
        collector's way in, since a hostile file may grow while it is read."""
        return self._objects.put_open_file(fd, limit_bytes)

    def put_tree(self, root: Path, files: Iterable[str] | None = None) -> str:
        """Store the regular files below a trusted directory (symlinks refused, `__pycache__`
        and `.git` skipped), or only `files` (relative POSIX paths), and return the tree digest.

        Raises:
            NotFound: the directory or one of `files` does not exist.
            InvalidInput: a symlink, a special file, or a name that is not UTF-8 is among them.
        """
        names = list(walk_files(root)) if files is None else sorted(set(files))
        manifest: Manifest = []
        for name in names:
            if files is not None:
                _refuse_linked_parents(root, name)
            digest, size, mode = self._put_path(root / name)
            manifest.append((name, mode, size, digest))
        return self._put_checked(check_manifest(manifest))

    def put_manifest(self, manifest: Iterable[tuple[str, int, int, str]]) -> str:
        """Store a tree whose files are in the store already: (path, mode, size, sha256) each.

        Of the mode only "executable or not" is kept. Raises NotFound when a file is not in the
        store, InvalidInput for a path that could leave the tree or occurs twice.
        """
        checked = check_manifest(manifest)
        for path, _, _, digest in checked:
            if not self._objects.has(digest):
                raise NotFound(f"file {path} of a tree: its content {digest} is not in the store")
        return self._put_checked(checked)

    def manifest(self, tree: str) -> list[tuple[str, int, int, str]]:
        """(path, mode, size, sha256) of every file, by path. Raises NotFound, ArtifactCorrupt."""
        with self._let_go(tree):
            return parse_manifest(tree, self._objects.read_bytes(tree))

    def read_bytes(self, digest: str) -> bytes:
        """Verified content. Raises NotFound, ArtifactCorrupt."""
        return self._objects.read_bytes(digest)

    def stream(self, digest: str) -> Generator[bytes, None, None]:
        """A file's content in pieces, checked on the way: the last piece comes only when all were
        right. Raises NotFound at once, ArtifactCorrupt on the way."""
        return self._objects.stream(digest)

    def has(self, digest: str) -> bool:
        return self._objects.has(digest)

    def checkout(self, tree: str) -> Path:
        """A read-only directory holding the tree, shared and cached; made whole or not at all.
        Raises NotFound, ArtifactCorrupt (each file's digest is checked when it is made, and
        again once its size or time differ from then; a damaged checkout is made anew)."""
        manifest = self._manifests.get(tree)
        if manifest is None:
            manifest = self.manifest(tree)
            if len(self._manifests) >= _MANIFESTS_KEPT:
                self._manifests.clear()
            if len(manifest) <= _MANIFEST_FILES_KEPT:
                self._manifests[tree] = manifest
        with self._let_go(tree):
            return self._checkouts.make(tree, manifest)

    def copy_tree(self, tree: str, destination: Path) -> None:
        """A private writable copy below `destination`, which is made if missing.
        Raises NotFound, ArtifactCorrupt."""
        with self._let_go(tree), disk_full_at(destination):
            destination.mkdir(parents=True, exist_ok=True)
            for path, mode, _, digest in self.manifest(tree):
                target = destination / path
                target.parent.mkdir(parents=True, exist_ok=True)
                self._objects.copy_out(digest, target, mode)

    def verify(self, digest: str) -> None:
        """Recompute a tree's digests from the bytes on disk. Raises ArtifactCorrupt, NotFound."""
        for path, _, size, content in self.manifest(digest):
            with self._let_go(digest):
                found = hash_file(self._objects.path(content), f"{path} of tree {digest}")
            if found != (content, size):
                raise ArtifactCorrupt(
                    f"tree {digest}: the bytes of {path} ({self._objects.path(content)}) changed"
                )

    @contextmanager
    def _let_go(self, tree: str) -> Iterator[None]:
        """What is missing of a tree was perhaps let go on purpose: its readers say so."""
        try:
            yield
        except NotFound as error:
            reason = None if isinstance(error, ArtifactLetGo) else self.why_gone(tree)
            if reason is None:
                raise
            raise ArtifactLetGo(reason) from error

    def _put_checked(self, manifest: Manifest) -> str:
        return self._objects.put_bytes(canonical_json([list(file) for file in manifest]).encode())

    def _put_path(self, path: Path) -> tuple[str, int, int]:
        """Digest, size and mode of a trusted file that is now in the store."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"{path}: there is no such file") from None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise InvalidInput(f"{path} is a symlink: name the file it points to") from error
            raise
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise InvalidInput(f"{path} is not a regular file")
            digest, size = self._objects.put_open_file(fd, None)
        finally:
            os.close(fd)
        return digest, size, 0o755 if status.st_mode & 0o111 else 0o644


def _refuse_linked_parents(root: Path, name: str) -> None:
    for parent in PurePosixPath(name).parents:
        if (root / parent).is_symlink() and str(parent) != ".":
            raise InvalidInput(f"{root / parent} is a symlink: name the directory it points to")
