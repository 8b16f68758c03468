"""Inputs on their way through the shared store: sent once, by digest, and checked byte by byte
where they are unpacked."""

import hashlib
import json
import os
from typing import IO, Final

from ledger.errors import ArlError
from targets.attempt_files import Store
from targets.shared_store import SharedStore

BIG_BYTES: Final = 8 << 20
"""Larger files of an input are stored apart, by their own digest, and once for all trees."""
TREE_AGE_S: Final = 7 * 86_400.0
"""An input that nothing asked for during so long is deleted."""
_RENEW_S: Final = TREE_AGE_S / 2
OPEN_REGULAR: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PIECE: Final = 1 << 20
_HEADER_BYTES: Final = 256 << 20

InputFile = tuple[str, int, int, str]
"""path, mode (0o644 or 0o755), size, sha256: a file as a tree's manifest lists it."""


class Damaged(ArlError):
    """What the shared store holds is not what its digest says."""

    code = "artifact_corrupt"


def tree_path(digest: str) -> str:
    return f"trees/{digest}"


def blob_path(digest: str) -> str:
    return f"blobs/{digest}"


def send_tree(shared: SharedStore, digest: str, store: Store) -> None:
    """Make sure that the shared store has a tree of this machine's store.

    Raises DiskFull, TargetUnavailable, and what `store` raises.
    """
    if _is_fresh(shared, tree_path(digest)):
        return
    header = store.read_bytes(digest)
    files = parse_manifest(header)
    checkout = store.checkout(digest)
    for path, _, size, sha in files:
        if size >= BIG_BYTES and not _is_fresh(shared, blob_path(sha)):
            with shared.writer(blob_path(sha)) as out:
                copy(f"{checkout}/{path}", out)
    with shared.writer(tree_path(digest)) as out:
        write_header(out, header)
        for path, _, size, _ in files:
            if size < BIG_BYTES:
                copy(f"{checkout}/{path}", out)


def fetch_tree(store: SharedStore, digest: str, directory: str) -> list[InputFile]:
    """Unpack an input into a new directory and return its manifest.

    Raises Damaged, also when it is missing; what was damaged is deleted from the store, so that
    the next launch sends it again.
    """
    try:
        with store.reader(tree_path(digest)) as source:
            if source is None:
                raise Damaged(f"the input {digest} is not in {store.url}")
            header = read_header(source)
            if hashlib.sha256(header).hexdigest() != digest:
                raise Damaged(f"the input {digest} in {store.url} is damaged: its list of files")
            files = parse_manifest(header)
            os.makedirs(directory, mode=0o700)
            for path, mode, size, sha in files:
                os.makedirs(os.path.dirname(f"{directory}/{path}"), exist_ok=True)
                if size < BIG_BYTES:
                    extract(source, f"{directory}/{path}", mode, size, sha)
                else:
                    _fetch_blob(store, f"{directory}/{path}", mode, size, sha)
    except Damaged:
        store.remove(tree_path(digest))
        raise
    return files


def sweep_trees(store: SharedStore) -> None:
    """Delete the inputs that nothing asked for lately."""
    for folder in ("trees", "blobs"):
        for name in store.names(folder):
            age_s = store.age_s(f"{folder}/{name}")
            if age_s is not None and age_s > TREE_AGE_S:
                store.remove(f"{folder}/{name}")


def manifest_bytes(files: list[InputFile]) -> bytes:
    """A tree's manifest as it is hashed: its sha256 is the tree's digest."""
    text = json.dumps(
        [list(file) for file in sorted(files)], separators=(",", ":"), ensure_ascii=False
    )
    return text.encode()


def parse_manifest(header: bytes) -> list[InputFile]:
    """Raises Damaged for one whose paths could leave the tree."""
    try:
        files = [(str(p), int(m), int(n), str(d)) for p, m, n, d in json.loads(header)]
    except (ValueError, TypeError) as error:
        raise Damaged(f"a list of files cannot be read: {error}") from error
    for path, _, _, _ in files:
        check_path(path)
    return files


def check_path(path: str) -> None:
    """Raises Damaged unless it is relative and stays below its root."""
    if any(part in ("", ".", "..") for part in path.split("/")) or "\0" in path:
        raise Damaged(f"a list of files holds {path!r}, which is no plain relative path")


def _is_fresh(store: SharedStore, path: str) -> bool:
    age_s = store.age_s(path)
    return age_s is not None and age_s < _RENEW_S


def _fetch_blob(store: SharedStore, target: str, mode: int, size: int, sha: str) -> None:
    try:
        with store.reader(blob_path(sha)) as source:
            if source is None:
                raise Damaged(f"the file {sha} of an input is not in {store.url}")
            extract(source, target, mode, size, sha)
    except Damaged:
        store.remove(blob_path(sha))
        raise


def write_header(out: IO[bytes], header: bytes) -> None:
    out.write(len(header).to_bytes(8, "big"))
    out.write(header)


def read_header(source: IO[bytes]) -> bytes:
    size = int.from_bytes(source.read(8), "big")
    if size > _HEADER_BYTES:
        raise Damaged("a list of files is too long to be one")
    return source.read(size)


def copy(path: str, out: IO[bytes]) -> None:
    with open(os.open(path, OPEN_REGULAR), "rb", buffering=0) as source:
        while piece := source.read(_PIECE):
            out.write(piece)


def sha_of(path: str) -> str:
    hasher = hashlib.sha256()
    with open(os.open(path, OPEN_REGULAR), "rb", buffering=0) as source:
        while piece := source.read(_PIECE):
            hasher.update(piece)
    return hasher.hexdigest()


def extract(source: IO[bytes], target: str, mode: int, size: int, sha: str) -> None:
    hasher = hashlib.sha256()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    left = size
    with open(os.open(target, flags, mode), "wb") as out:
        while left and (piece := source.read(min(left, _PIECE))):
            hasher.update(piece)
            out.write(piece)
            left -= len(piece)
        os.fchmod(out.fileno(), mode)
    if left or hasher.hexdigest() != sha:
        raise Damaged(f"the file {os.path.basename(target)} is damaged in the shared store")
