"""Brings what an attempt left on a job service here, for the collector, as it was and no more.

Neither the program's nor the service's word is trusted: paths are plain parts below one
directory, made and opened without following links; what is no file or directory becomes a
stand-in that the collector refuses; and what is too much is not fetched at all.
"""

import errno
import hashlib
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from ledger.errors import DiskFull, TargetUnavailable
from targets import layout
from targets.disk_errors import disk_errors
from targets.http_job.client import JobClient
from targets.http_job.documents import OutputEntry, OutputsDoc

PIECE_BYTES: Final = 1024 * 1024
PIECE_S: Final = 20.0
MAX_ENTRIES: Final = 20_000
"""More than the collector takes, so that it refuses what was cut off here."""
MAX_BYTES: Final = 64 * 1024**3
"""Where an attempt has no limit of its own."""
_PATH_BYTES: Final = 8192
_PART_BYTES: Final = 255
_DEPTH: Final = 128
_LINK_TEXT: Final = "a-link-that-was-not-followed"
_OPEN_DIR: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_HOSTILE: Final = frozenset(
    {errno.EEXIST, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL}
)
"""What the operating system says to a listing that contradicts itself."""


@dataclass(frozen=True, slots=True)
class Entry:
    parts: tuple[bytes, ...]
    said: OutputEntry


class OutputStore:
    """Fetched outputs below one directory of this machine. Thread-safe.

    What was fetched before this machine restarted may not have reached the disk: it is not used.
    """

    def __init__(self, root: str) -> None:
        self._root = f"{root}/outputs"
        self._boot = layout.boot_id()[:8] or "boot"
        with disk_errors(f"making {self._root}"):
            os.makedirs(f"{self._root}/{self._boot}", mode=0o700, exist_ok=True)
        for name in os.listdir(self._root):
            if name != self._boot:
                shutil.rmtree(f"{self._root}/{name}", ignore_errors=True)
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()

    def whole(self, name: str) -> str:
        """Where the outputs are once they are here whole."""
        return f"{self._root}/{self._boot}/whole-{name}"

    def fetch(self, name: str, client: JobClient, limit_bytes: int | None) -> str:
        """Bring them here, or go on with it, and return where they are.

        Raises TargetUnavailable, DiskFull, Conflict while the attempt runs, NotFound.
        """
        with self._lock_of(name):
            if not os.path.isdir(self.whole(name)):
                part = f"{self._root}/{self._boot}/part-{name}"
                with _as_errors(client, part):
                    _fetch(part, name, client, limit_bytes)
                    os.rename(part, self.whole(name))
            return self.whole(name)

    def discard(self, name: str) -> None:
        with self._lock_of(name):
            for path in (self.whole(name), f"{self._root}/{self._boot}/part-{name}"):
                shutil.rmtree(path, ignore_errors=True)
        with self._guard:
            self._locks.pop(name, None)

    def _lock_of(self, name: str) -> threading.Lock:
        with self._guard:
            return self._locks.setdefault(name, threading.Lock())


class HttpOutputs:
    """The directory, fetched when it is first asked for."""

    def __init__(
        self, store: OutputStore, name: str, client: JobClient, limit_bytes: int | None
    ) -> None:
        self._store = store
        self._name = name
        self._client = client
        self._limit_bytes = limit_bytes

    @property
    def root(self) -> str:
        """Blocks until everything is here. Raises TargetUnavailable, DiskFull; go on with it by
        asking again."""
        return self._store.fetch(self._name, self._client, self._limit_bytes)


def first_page(client: JobClient, name: str, after: str = "") -> OutputsDoc:
    """Raises Conflict while the attempt runs, NotFound, TargetUnavailable."""
    return client.ask(
        "GET", f"/v1/attempts/{name}/outputs", OutputsDoc, query={"after": after}, wait_s=PIECE_S
    )


def _fetch(part: str, name: str, client: JobClient, limit_bytes: int | None) -> None:
    limit = MAX_BYTES if limit_bytes is None else limit_bytes
    entries = _listing(client, name)
    total = sum(entry.said.size for entry in entries if entry.said.kind == "file")
    if len(entries) > MAX_ENTRIES or total > limit:
        _stand_in(part, limit if total > limit else None)
        return
    os.makedirs(part, mode=0o700, exist_ok=True)
    top = os.open(part, _OPEN_DIR)
    try:
        for entry in entries:
            with _parent(top, entry.parts) as directory:
                _make(directory, entry, name, client)
    finally:
        os.close(top)


def _listing(client: JobClient, name: str) -> list[Entry]:
    """Everything the service lists, up to one more than is taken."""
    entries: list[Entry] = []
    after = ""
    while len(entries) <= MAX_ENTRIES:
        page = first_page(client, name, after)
        entries += [Entry(_parts(client, said.path), said) for said in page.entries]
        if page.after is None:
            break
        if page.after == after or not page.entries:
            raise client.broken(f"the listing of {name} does not come to an end")
        after = page.after
    if len({entry.parts for entry in entries}) != len(entries):
        raise client.broken(f"the listing of {name} has a path twice")
    return entries


def _parts(client: JobClient, path: str) -> tuple[bytes, ...]:
    """The plain components of a listed path. Raises TargetUnavailable: only the service writes
    listings, so one that leads elsewhere is its own doing."""
    raw = unquote_to_bytes(path)
    parts = tuple(raw.split(b"/"))
    bad = any(part in (b"", b".", b"..") or len(part) > _PART_BYTES for part in parts)
    if bad or b"\0" in raw or len(parts) > _DEPTH or len(raw) > _PATH_BYTES:
        raise client.broken(f"it lists an output {path[:200]!r}, which is no plain relative path")
    return parts


@contextmanager
def _parent(top: int, parts: Sequence[bytes]) -> Iterator[int]:
    """The directory that holds the last part, made where it is missing, opened part by part."""
    directory = os.dup(top)
    try:
        for part in parts[:-1]:
            _make_directory(directory, part)
            inner = os.open(part, _OPEN_DIR, dir_fd=directory)
            os.dup2(inner, directory, inheritable=False)
            os.close(inner)
        yield directory
    finally:
        os.close(directory)


def _make(directory: int, entry: Entry, name: str, client: JobClient) -> None:
    last, said = entry.parts[-1], entry.said
    if said.kind == "directory":
        _make_directory(directory, last)
    elif said.kind == "link":
        if not _exists(directory, last):
            os.symlink(_LINK_TEXT, last, dir_fd=directory)
    elif said.kind == "other":
        if not _exists(directory, last):
            os.mkfifo(last, 0o600, dir_fd=directory)
    else:
        descriptor = os.open(last, _OPEN_FILE, 0o600, dir_fd=directory)
        try:
            _fill(descriptor, said, name, client)
        finally:
            os.close(descriptor)


def _exists(directory: int, name: bytes) -> bool:
    try:
        os.lstat(name, dir_fd=directory)
    except FileNotFoundError:
        return False
    return True


def _make_directory(directory: int, name: bytes) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=directory)
    except FileExistsError:
        return  # opening it refuses what is no directory


def _fill(descriptor: int, said: OutputEntry, name: str, client: JobClient) -> None:
    """Fetch what is missing at the end of a file, and check the whole against its digest."""
    at = os.fstat(descriptor).st_size
    if at > said.size:
        os.ftruncate(descriptor, 0)
        at = 0
    began_at = at
    while at < said.size:
        limit = min(PIECE_BYTES, said.size - at)
        query = {"path": said.path, "offset": at, "limit": limit}
        piece = client.fetch(
            f"/v1/attempts/{name}/outputs/content", query, limit=limit, wait_s=PIECE_S
        ).body
        if not piece:
            raise client.broken(f"output {said.path[:200]!r} ends before its {said.size} bytes")
        view = memoryview(piece)
        while view:
            view = view[os.pwrite(descriptor, view, at) :]
            at = os.fstat(descriptor).st_size
    if said.digest is not None and _digest(descriptor) != said.digest:
        os.ftruncate(descriptor, 0)
        if began_at:  # what an earlier fetch left was bad
            _fill(descriptor, said, name, client)
            return
        raise client.broken(f"output {said.path[:200]!r} does not have the digest it was given")


def _digest(descriptor: int) -> str:
    hasher = hashlib.sha256()
    at = 0
    while piece := os.pread(descriptor, 1 << 20, at):
        hasher.update(piece)
        at += len(piece)
    return hasher.hexdigest()


def _stand_in(part: str, limit_bytes: int | None) -> None:
    """Empty files in place of an output that is too large, which the collector refuses for the
    same reason: too many of them, or a hole that is too long."""
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(f"{part}/model", mode=0o700)
    if limit_bytes is not None:
        with open(f"{part}/model/not-fetched", "wb") as file:
            file.truncate(limit_bytes + 1)
        return
    for number in range(MAX_ENTRIES + 1):
        os.close(os.open(f"{part}/model/not-fetched-{number}", os.O_CREAT | os.O_WRONLY, 0o600))


@contextmanager
def _as_errors(client: JobClient, part: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no space left to fetch {part}; free some and it goes on") from error
        if error.errno in _HOSTILE:
            raise client.broken(f"it lists outputs that contradict each other: {error}") from error
        raise TargetUnavailable(f"fetching to {part}: {error}") from error
