"""The content-addressed artifact store: files by sha256, trees by the digest of their manifest.

(The interface; the implementation follows.)
"""

from collections.abc import Iterable
from pathlib import Path


class ArtifactStore:
    """Write beside, fsync, rename: a file is in the store whole or not at all.

    Layout below `root`: `objects/ab/cdef…` one file per content; a tree is an object holding
    the canonical JSON list of `[path, mode, size, sha256]`, its digest the tree's digest;
    `trees/<digest>/` read-only checkouts; `incoming/` files being written, swept at start.
    """

    def __init__(self, root: Path) -> None: ...

    def put_bytes(self, data: bytes) -> str:
        """Store `data` durably and return its digest. Storing it again writes nothing."""
        raise NotImplementedError

    def put_file(self, path: Path) -> str:
        """Store a copy of a regular file; hashes while copying, so it is consistent."""
        raise NotImplementedError

    def put_open_file(self, fd: int, *, limit_bytes: int) -> tuple[str, int]:
        """Store a copy of what an open regular file holds from its start; digest and size.
        Hashes while copying. Raises InvalidInput when it holds more than `limit_bytes`: the
        collector's way in, since a hostile file may grow while it is read."""
        raise NotImplementedError

    def put_tree(self, root: Path, files: Iterable[str] | None = None) -> str:
        """Store the regular files below a trusted directory (symlinks refused, `__pycache__`
        and `.git` skipped), or only `files` (relative POSIX paths), and return the tree digest."""
        raise NotImplementedError

    def put_manifest(self, manifest: Iterable[tuple[str, int, int, str]]) -> str:
        """Store a tree whose files are in the store already: (path, mode, size, sha256) each."""
        raise NotImplementedError

    def manifest(self, tree: str) -> list[tuple[str, int, int, str]]:
        raise NotImplementedError

    def read_bytes(self, digest: str) -> bytes:
        """Verified content. Raises NotFound, ArtifactCorrupt."""
        raise NotImplementedError

    def has(self, digest: str) -> bool:
        raise NotImplementedError

    def checkout(self, tree: str) -> Path:
        """A read-only directory holding the tree, shared and cached; made whole or not at all.
        Raises NotFound, ArtifactCorrupt (each file's digest is checked when it is made)."""
        raise NotImplementedError

    def copy_tree(self, tree: str, destination: Path) -> None:
        """A private writable copy."""
        raise NotImplementedError

    def verify(self, digest: str) -> None:
        """Recompute a tree's digests from the bytes on disk. Raises ArtifactCorrupt, NotFound."""
        raise NotImplementedError
