"""Sends what a study names: each file by its digest, in pieces, and only what is not there."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import httpx

from controller.client.connection import Connection
from ledger.digests import canonical_json, sha256_hex
from ledger.errors import Conflict, InvalidInput, NotFound
from ledger.manifests import check_manifest, walk_files

PIECE_BYTES: Final = 8 * 1024 * 1024
AT_ONCE: Final = 10_000
OCTETS: Final = {"Content-Type": "application/octet-stream"}
_READ_BYTES: Final = 1024 * 1024

Progress = Callable[[str, int, int], None]
"""Called with a file's path, bytes sent of it, and its size."""


class Uploader:
    def __init__(self, connection: Connection, progress: Progress | None = None) -> None:
        self._connection = connection
        self._progress = progress or (lambda _path, _sent, _size: None)

    def send(self, path: Path) -> str:
        """Send a file or directory; what names it in a study: `blob:TREE` or `blob:TREE/FILE`.
        Raises NotFound, InvalidInput (a symlink, a special file)."""
        if path.is_dir():
            return f"blob:{self.send_tree(path, list(walk_files(path)))}"
        if not path.exists():
            raise NotFound(f"{path}: there is no such file or directory")
        return f"blob:{self.send_tree(path.parent, [path.name])}/{path.name}"

    def send_tree(self, root: Path, names: Sequence[str]) -> str:
        """Send these files below `root` as one tree; its digest."""
        if not names:
            raise InvalidInput(f"{root}: the directory is empty")
        files = check_manifest(_described(root, name) for name in names)
        tree = sha256_hex(canonical_json([list(file) for file in files]).encode())
        wanted = {digest: path for path, _, _, digest in files}
        if not self._missing([tree]):
            return tree
        for digest in self._missing(sorted(wanted)):
            self._send_file(root / wanted[digest], digest)
        body = [
            {"path": path, "executable": bool(mode & 0o111), "size": size, "digest": digest}
            for path, mode, size, digest in files
        ]
        self._connection.send("PUT", f"/trees/{tree}", json={"files": body})
        return tree

    def _missing(self, digests: Sequence[str]) -> list[str]:
        missing: list[str] = []
        for at in range(0, len(digests), AT_ONCE):
            asked = {"digests": list(digests[at : at + AT_ONCE])}
            missing += self._connection.post("/blobs/missing", asked, is_repeatable=True).json()[
                "missing"
            ]
        return missing

    def _send_file(self, path: Path, digest: str) -> None:
        size = path.stat().st_size
        address = f"/blobs/{digest}"
        if size == 0:
            self._connection.send("PUT", address, content=b"", headers=OCTETS)
            return
        state = self._connection.send("HEAD", address)
        if state.status_code == 200:
            return
        at = _next_piece(state, size)
        with path.open("rb") as file:
            while at < size:
                file.seek(at)
                at = self._send_piece(address, file.read(PIECE_BYTES), at, size)
                self._progress(str(path), at, size)

    def _send_piece(self, address: str, piece: bytes, at: int, size: int) -> int:
        """Where the next piece starts; as the server says, when an answer was lost."""
        if not piece:
            raise InvalidInput(f"{address}: the file became shorter while it was sent")
        headers = {**OCTETS, "Content-Range": f"bytes {at}-{at + len(piece) - 1}/{size}"}
        try:
            self._connection.send("PUT", address, content=piece, headers=headers)
        except Conflict:
            state = self._connection.send("HEAD", address)
            if state.status_code == 200:
                return size
            here = _next_piece(state, size)
            if here == at:
                raise
            return here
        return at + len(piece)


def _next_piece(state: httpx.Response, size: int) -> int:
    """Where to go on, as the server says; where it has all and did not come to check it, with the
    last piece again."""
    here = int(state.headers.get("upload-offset", "0"))
    return here if here < size else (size - 1) // PIECE_BYTES * PIECE_BYTES


def _described(root: Path, name: str) -> tuple[str, int, int, str]:
    path = root / name
    if path.is_symlink() or not path.is_file():
        raise InvalidInput(f"{path} is not a regular file: copy what it points to")
    mode = 0o755 if path.stat().st_mode & 0o111 else 0o644
    hasher, size = hashlib.sha256(), 0
    for piece in _pieces(path):
        hasher.update(piece)
        size += len(piece)
    return name, mode, size, hasher.hexdigest()


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while piece := file.read(_READ_BYTES):
            yield piece
