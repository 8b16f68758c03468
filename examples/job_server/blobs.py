"""Files by digest, received in pieces that survive a restart, and checked before they count."""

import hashlib
import os
import threading
from pathlib import Path

from examples.job_server.refusals import TooLarge
from ledger.artifacts import ArtifactStore
from ledger.errors import InvalidInput
from targets.http_job.documents import BlobState


class Blobs:
    """Thread-safe. What is half received lies in `partial/`, under its digest."""

    def __init__(self, root: Path, store: ArtifactStore, *, limit_bytes: int) -> None:
        self._partial = root / "partial"
        self._partial.mkdir(exist_ok=True)
        self._store = store
        self._limit_bytes = limit_bytes
        self._guard = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}

    def received(self, digest: str) -> int | None:
        """Bytes that are here of a file that is not here whole; None when it is."""
        if self._store.has(digest):
            return None
        try:
            return (self._partial / digest).stat().st_size
        except FileNotFoundError:
            return 0

    def put(self, digest: str, offset: int, size: int, data: bytes) -> BlobState:
        """Add a piece. One that begins beyond what is here is not taken; the answer says where
        to go on. Raises InvalidInput when the whole does not have its digest."""
        if size > self._limit_bytes:
            raise TooLarge(
                f"size {size}: this service takes files up to {self._limit_bytes} bytes"
            )
        with self._lock_of(digest):
            here = self.received(digest)
            if here is None:
                return BlobState(received=size, complete=True)
            if offset > here or offset + len(data) > size:
                return BlobState(received=here, complete=False)
            descriptor = os.open(
                self._partial / digest,
                os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
            )
            try:
                _write(descriptor, data, offset)
                here = os.fstat(descriptor).st_size
                if here < size:
                    return BlobState(received=here, complete=False)
                self._keep(descriptor, digest, size)
            finally:
                os.close(descriptor)
            return BlobState(received=size, complete=True)

    def missing(self, digests: list[str]) -> dict[str, int]:
        """How much is here of each that is not here whole."""
        here = {digest: self.received(digest) for digest in digests}
        return {digest: size for digest, size in here.items() if size is not None}

    def missing_of_trees(self, trees: set[str]) -> list[str]:
        """Everything that the trees lack. Raises ArtifactCorrupt for one that is no tree."""
        lacking: list[str] = []
        for tree in sorted(trees):
            if not self._store.has(tree):
                lacking.append(tree)
                continue
            files = {digest for _, _, _, digest in self._store.manifest(tree)}
            lacking += [digest for digest in sorted(files) if not self._store.has(digest)]
        return lacking

    def _keep(self, descriptor: int, digest: str, size: int) -> None:
        path = self._partial / digest
        if os.fstat(descriptor).st_size == size and _digest(descriptor) == digest:
            self._store.put_open_file(descriptor, limit_bytes=size)
            path.unlink()
            return
        path.unlink()
        raise InvalidInput(f"the bytes received for {digest} do not have that digest: send again")

    def _lock_of(self, digest: str) -> threading.Lock:
        with self._guard:
            if len(self._locks) > 10_000:
                self._locks = {d: lock for d, lock in self._locks.items() if lock.locked()}
            return self._locks.setdefault(digest, threading.Lock())


def _write(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def _digest(descriptor: int) -> str:
    hasher = hashlib.sha256()
    at = 0
    while piece := os.pread(descriptor, 1 << 20, at):
        hasher.update(piece)
        at += len(piece)
    return hasher.hexdigest()
