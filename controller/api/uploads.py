"""Files that clients send, by digest: in pieces that survive a restart, checked before they count.

What a client may name in a study is what it sent itself: a digest alone, which it may have read
somewhere, gives nobody the content (an evaluator's holdout, say).
"""

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.api.problems import Refused
from ledger.artifacts import ArtifactStore
from ledger.errors import DiskFull, InvalidInput, NotFound
from ledger.files import disk_full_at

DIGEST: Final = re.compile(r"[0-9a-f]{64}\Z")
PART: Final = ".part"
_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Received:
    """How much of a file is here."""

    bytes: int
    is_complete: bool


class Uploads:
    """What one owner has sent: below `root/<owner>/` an empty file per content that is whole, and
    `<digest>.part` of one that is not. Safe for several threads and processes."""

    def __init__(
        self, root: Path, owner: str, store: ArtifactStore, *, keep_free_bytes: int = 0
    ) -> None:
        """What is sent leaves so much of the disk free, for the ledger and what runs."""
        self._root = root / owner
        self._store = store
        self._keep_free_bytes = keep_free_bytes

    def has(self, digest: str) -> bool:
        """Whether this owner sent all of it, and it is still stored."""
        return (self._root / digest).exists() and self._store.has(digest)

    def received(self, digest: str) -> Received:
        """How far an upload has come; 0 bytes of one that was not begun."""
        if self.has(digest):
            return Received(0, is_complete=True)
        try:
            return Received(self._part(digest).stat().st_size, is_complete=False)
        except FileNotFoundError:
            return Received(0, is_complete=False)

    def missing(self, digests: Sequence[str]) -> list[str]:
        return [digest for digest in digests if not self.has(digest)]

    def add(self, digest: str, offset: int, total: int, piece: bytes) -> Received:
        """Append a piece that begins where the last one ended.

        Raises:
            Refused: it begins elsewhere (409, says where to go on), or is longer than `total`.
            InvalidInput: the whole does not have its digest; what came of it is thrown away.
            DiskFull.
        """
        with disk_full_at(self._root):
            self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._check_room(total - offset)
            with self._locked(digest) as fd:
                if self.has(digest):
                    return Received(total, is_complete=True)
                here = os.fstat(fd).st_size
                if here == total == offset + len(piece):
                    # The last one again: who took it first did not come to check the whole.
                    self._keep(fd, digest, total)
                    return Received(total, is_complete=True)
                if offset != here or offset + len(piece) > total:
                    raise Refused(
                        "conflict",
                        f"blob {digest}: {here} bytes are here, so the next piece starts there",
                        {"Upload-Offset": str(here)},
                    )
                _append(fd, piece)
                if here + len(piece) < total:
                    return Received(here + len(piece), is_complete=False)
                self._keep(fd, digest, total)
                return Received(total, is_complete=True)

    def _check_room(self, wanted_bytes: int) -> None:
        """For the rest of the file, and for its copy in the store."""
        free = shutil.disk_usage(self._root).free
        if free - 2 * wanted_bytes < self._keep_free_bytes:
            raise DiskFull(f"no room for {wanted_bytes} bytes more: free some on the server")

    def add_tree(self, digest: str, files: Sequence[tuple[str, int, int, str]]) -> None:
        """Store a tree of files that this owner sent.

        Raises:
            NotFound: it did not send one of them.
            InvalidInput: a path is none, or the tree has another digest.
        """
        for path, _, _, content in files:
            if not self.has(content):
                raise NotFound(f"tree {digest}: {path!r}: send its content {content} first")
        made = self._store.put_manifest(files)
        if made != digest:
            raise InvalidInput(f"tree {digest}: these files make up tree {made}")
        with disk_full_at(self._root):
            self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
            (self._root / digest).touch()

    def _keep(self, fd: int, digest: str, total: int) -> None:
        part = self._part(digest)
        if _digest(fd) != digest:
            part.unlink()
            raise InvalidInput(f"blob {digest}: the {total} bytes have another sha256: send again")
        self._store.put_open_file(fd, limit_bytes=total)
        (self._root / digest).touch()
        part.unlink()

    @contextmanager
    def _locked(self, digest: str) -> Iterator[int]:
        """The open partial file, which nobody else adds to meanwhile."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        part = self._part(digest)
        while True:
            fd = os.open(part, flags, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                if not _is_at(fd, part):
                    continue  # it was swept, or became whole, while this one waited
                yield fd
                return
            finally:
                os.close(fd)

    def _part(self, digest: str) -> Path:
        return self._root / f"{digest}{PART}"


def drop_part(part: Path, *, before: float) -> bool:
    """Delete a partial file that nobody has added to since `before` (seconds since the epoch) or
    adds to now; whether it did."""
    try:
        fd = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_mtime >= before or not _is_at(fd, part):
            return False
        part.unlink()
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(fd)


def _is_at(fd: int, path: Path) -> bool:
    """Whether the open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def check_digest(digest: str) -> str:
    """Raises NotFound for what is no digest, so that no path is ever made of it."""
    if DIGEST.match(digest) is None:
        raise NotFound(f"{digest[:100]!r} is no digest: write 64 hexadecimal digits")
    return digest


def _append(fd: int, piece: bytes) -> None:
    view, at = memoryview(piece), os.fstat(fd).st_size
    while view:
        written = os.pwrite(fd, view, at)
        view, at = view[written:], at + written


def _digest(fd: int) -> str:
    hasher, at = hashlib.sha256(), 0
    while piece := os.pread(fd, _PIECE, at):
        hasher.update(piece)
        at += len(piece)
    return hasher.hexdigest()
