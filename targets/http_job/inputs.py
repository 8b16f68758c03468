"""Sends the trees that an attempt needs to a job service: each file once, cut off or not."""

import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from ledger.errors import ArtifactCorrupt
from targets.attempt_files import Store
from targets.http_job.client import JobClient
from targets.http_job.documents import BlobsAsked, BlobsMissing, BlobState

PIECE_BYTES: Final = 1024 * 1024
PIECE_S: Final = 20.0
"""What one piece may take beyond the time of a small request."""
_ASKED_AT_ONCE: Final = 5000
_TRIES: Final = 3
"""Of a file that the service has not taken whole after all of it was sent."""


class Uploads:
    """What one service has of our trees. Thread-safe."""

    def __init__(self, client: JobClient, store: Store) -> None:
        self._client = client
        self._store = store
        self._lock = threading.Lock()
        self._sent: set[str] = set()

    def has(self, trees: Iterable[str]) -> bool:
        with self._lock:
            return self._sent.issuperset(trees)

    def forget(self) -> None:
        """The service lacks something that it had: ask about everything again."""
        with self._lock:
            self._sent.clear()

    def send(self, trees: Iterable[str], tell: Callable[[str], None]) -> None:
        """Until the service has all of them; `tell` is told how far it is, for a person. Repeat
        it after any error: what has arrived is not sent again.

        Raises TargetUnavailable, and what the store raises.
        """
        for tree in trees:
            if self.has((tree,)):
                continue
            manifest = self._store.read_bytes(tree)
            files = _files_of(tree, manifest)
            missing = self._missing([*files, tree])
            if missing.keys() - {tree}:
                self._send_files(self._store.checkout(tree), files, missing, tell)
            if tree in missing:
                self._send_bytes(tree, manifest)
            with self._lock:
                self._sent.add(tree)

    def _missing(self, digests: list[str]) -> dict[str, int]:
        missing: dict[str, int] = {}
        for start in range(0, len(digests), _ASKED_AT_ONCE):
            asked = BlobsAsked(digests=digests[start : start + _ASKED_AT_ONCE])
            answer = self._client.ask("POST", "/v1/blobs/missing", BlobsMissing, content=asked)
            missing.update(answer.missing)
        return {digest: missing[digest] for digest in digests if digest in missing}

    def _send_files(
        self,
        root: Path,
        files: Mapping[str, tuple[str, int]],
        missing: Mapping[str, int],
        tell: Callable[[str], None],
    ) -> None:
        wanted = {digest: file for digest, file in files.items() if digest in missing}
        total = sum(size for _, size in wanted.values())
        done = 0
        for digest, (path, size) in wanted.items():
            tell(f"sending its inputs, {done >> 20} of {total >> 20} MiB")
            descriptor = os.open(root / path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                self._send(digest, size, missing[digest], _reader(descriptor))
            finally:
                os.close(descriptor)
            done += size

    def _send_bytes(self, digest: str, data: bytes) -> None:
        self._send(digest, len(data), 0, lambda at: data[at : at + PIECE_BYTES])

    def _send(self, digest: str, size: int, at: int, read: Callable[[int], bytes]) -> None:
        """Piece by piece from where the service says it is."""
        tries = _TRIES
        while True:
            state = self._client.ask(
                "PUT",
                f"/v1/blobs/{digest}",
                BlobState,
                query={"offset": at, "size": size},
                content=read(at),
                wait_s=PIECE_S,
            )
            if state.complete:
                return
            if state.received <= at:  # it lost some, or does not take any
                tries -= 1
            if tries <= 0 or state.received > size:
                raise self._client.broken(f"it does not take blob {digest} of {size} bytes")
            at = state.received


def _reader(descriptor: int) -> Callable[[int], bytes]:
    return lambda at: os.pread(descriptor, PIECE_BYTES, at)


def _files_of(tree: str, manifest: bytes) -> dict[str, tuple[str, int]]:
    """Path and size of every file by digest. Raises ArtifactCorrupt."""
    try:
        return {
            str(digest): (str(path), int(size)) for path, _, size, digest in json.loads(manifest)
        }
    except (ValueError, TypeError) as error:
        raise ArtifactCorrupt(f"artifact {tree} is not a tree: {error}") from error
