"""Files by the sha256 of their content: written beside, fsynced, renamed into place.

What nothing needs any more is taken away by `discard`, in whatever process. A file's access time
says when somebody last stored it or relied on its being stored: `has` and every `put` set it, so
that what is about to be named in the ledger is told from what nothing names.
"""

import hashlib
import os
import time
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from ledger.digests import sha256_hex
from ledger.errors import ArtifactCorrupt, InvalidInput, NotFound
from ledger.files import BUFFER_BYTES, disk_full_at, remove_tree, sync_directory, write_all

STORED_MTIME_NS: Final = 10**9
"""Every stored file has this time; a file that was written to since has another one."""
RELIED_ON_S: Final = 60.0
"""How long `has` believes what it found before it looks, and says so, again."""

_KNOWN_LIMIT: Final = 1024
_SWEEP_AGE_S: Final = 86_400.0
"""Of what processes elsewhere left: whether those live cannot be seen from here."""


class ObjectStore:
    """`objects/ab/cdef…`, and `incoming/` for what is still being written."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._objects = root / "objects"
        self.incoming = root / "incoming"
        for directory in (self._objects, self.incoming):
            directory.mkdir(parents=True, exist_ok=True)
        self._known: dict[str, float] = {}
        self._writer = f"{_here()}-{os.getpid()}-{_started(os.getpid())}"
        self._sweep()

    def new_incoming(self) -> Path:
        """A path in `incoming/` that nobody else uses; its name says which process writes it, so
        that what a killed one left is told from what a live one is still writing."""
        return self.incoming / f"{self._writer}-{uuid.uuid4().hex}"

    def path(self, digest: str) -> Path:
        """Where content with this digest is kept. Raises NotFound for what is no digest."""
        if len(digest) != 64 or not digest.isalnum():
            raise NotFound(f"{digest!r} is not the digest of an artifact")
        return self._objects / digest[:2] / digest[2:]

    def has(self, digest: str) -> bool:
        """Whether it is here; if so it will be for a while yet, whatever else is taken away."""
        if time.monotonic() - self._known.get(digest, -RELIED_ON_S) < RELIED_ON_S:
            return True
        path = self.path(digest)
        try:
            changed_ns = path.lstat().st_mtime_ns  # kept: it shows whether the file was damaged
            os.utime(path, ns=(time.time_ns(), changed_ns))
        except FileNotFoundError:
            self._known.pop(digest, None)
            return False
        except PermissionError:  # another user's store: who may not change it takes nothing away
            pass
        self._remember(digest)
        return True

    def put_bytes(self, data: bytes) -> str:
        digest = sha256_hex(data)
        if not self.has(digest):
            with self._incoming_file() as (fd, temporary):
                write_all(fd, data)
                self._keep(fd, temporary, digest)
            self._remember(digest)
        return digest

    def put_open_file(self, source: int, limit_bytes: int | None) -> tuple[str, int]:
        """Digest and size. Raises InvalidInput beyond `limit_bytes`."""
        hasher = hashlib.sha256()
        size = 0
        with self._incoming_file() as (fd, temporary):
            while chunk := os.pread(source, BUFFER_BYTES, size):
                size += len(chunk)
                if limit_bytes is not None and size > limit_bytes:
                    raise InvalidInput(f"the file holds more than {limit_bytes} bytes")
                hasher.update(chunk)
                write_all(fd, chunk)
            digest = hasher.hexdigest()
            if not self.has(digest):
                self._keep(fd, temporary, digest)
                self._remember(digest)
        return digest, size

    def each(self) -> Iterator[tuple[str, os.stat_result]]:
        """Every stored file with its status."""
        for shelf in os.scandir(self._objects):
            if not shelf.is_dir(follow_symlinks=False):
                continue
            for entry in os.scandir(shelf.path):
                try:
                    yield shelf.name + entry.name, entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # somebody else took it away
                    continue

    def status(self, digest: str) -> os.stat_result | None:
        """Of a stored file; None where it is not stored."""
        try:
            return self.path(digest).lstat()
        except FileNotFoundError:
            return None

    def discard(self, digest: str, unused_since: os.stat_result) -> bool:
        """Take a file away, unless somebody relied on it since that status was read."""
        path, away = self.path(digest), self.new_incoming()
        try:
            if path.lstat().st_atime_ns != unused_since.st_atime_ns:
                return False
            os.rename(path, away)
        except FileNotFoundError:
            return False
        # Who relies on it looks at its name: before the name went away that shows here.
        if away.lstat().st_atime_ns != unused_since.st_atime_ns:
            os.rename(away, path)
            return False
        away.unlink()
        return True

    def read_bytes(self, digest: str) -> bytes:
        """Verified content. Raises NotFound, ArtifactCorrupt."""
        try:
            data = self.path(digest).read_bytes()
        except FileNotFoundError:
            raise self._missing(digest) from None
        if sha256_hex(data) != digest:
            raise self._changed(digest)
        return data

    def copy_out(self, digest: str, target: Path, mode: int) -> None:
        """Copy to a new file and check the bytes on the way. Raises NotFound, ArtifactCorrupt."""
        hasher = hashlib.sha256()
        try:
            with self.path(digest).open("rb") as reader, target.open("xb") as writer:
                while chunk := reader.read(BUFFER_BYTES):
                    hasher.update(chunk)
                    writer.write(chunk)
                os.fchmod(writer.fileno(), mode)
        except FileNotFoundError:
            raise self._missing(digest) from None
        if hasher.hexdigest() != digest:
            raise self._changed(digest)

    def stream(self, digest: str) -> Generator[bytes, None, None]:
        """The content in pieces, the last of which is given only once all were the right bytes.
        Raises NotFound at once, ArtifactCorrupt on the way."""
        if not self.path(digest).is_file():
            raise self._missing(digest)
        return self._pieces(digest)

    def _pieces(self, digest: str) -> Generator[bytes, None, None]:
        hasher = hashlib.sha256()
        # Opened with the first piece: nothing is left open where not one is wanted.
        with self.path(digest).open("rb") as reader:
            piece = reader.read(BUFFER_BYTES)
            while piece:
                hasher.update(piece)
                following = reader.read(BUFFER_BYTES)
                if not following and hasher.hexdigest() != digest:
                    raise self._changed(digest)
                yield piece
                piece = following

    def _missing(self, digest: str) -> NotFound:
        return NotFound(f"artifact {digest} is not in the store {self.root}")

    def _changed(self, digest: str) -> ArtifactCorrupt:
        return ArtifactCorrupt(f"artifact {digest}: the bytes of {self.path(digest)} changed")

    @contextmanager
    def _incoming_file(self) -> Iterator[tuple[int, Path]]:
        """A new file beside the store; whatever was not kept is gone afterwards."""
        temporary = self.new_incoming()
        with disk_full_at(self.root):
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                yield fd, temporary
            finally:
                os.close(fd)
                temporary.unlink(missing_ok=True)

    def _keep(self, fd: int, temporary: Path, digest: str) -> None:
        path = self.path(digest)
        if not path.parent.is_dir():
            path.parent.mkdir(exist_ok=True)
            sync_directory(self._objects)
        os.fchmod(fd, 0o444)
        os.utime(fd, ns=(time.time_ns(), STORED_MTIME_NS))
        os.fsync(fd)
        os.replace(temporary, path)
        sync_directory(path.parent)

    def _remember(self, digest: str) -> None:
        """So that what every trial stores again (the empty tree) costs no system call."""
        if len(self._known) >= _KNOWN_LIMIT:
            self._known.clear()
        self._known[digest] = time.monotonic()

    def _sweep(self) -> None:
        """Delete what processes that are gone left half written."""
        oldest = time.time() - _SWEEP_AGE_S
        for path in self.incoming.iterdir():
            place, _, rest = path.name.partition("-")
            pid, _, rest = rest.partition("-")
            try:
                if place == _here():
                    left = _started(pid) != rest.partition("-")[0]
                else:
                    left = path.lstat().st_mtime < oldest
            except FileNotFoundError:
                continue
            if left:
                remove_tree(path)


@cache
def _here() -> str:
    """Names the set of processes among which a pid means something: this boot of this machine,
    and in it this container."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    return sha256_hex((boot + os.readlink("/proc/self/ns/pid")).encode())[:16]


def _started(pid: int | str) -> str:
    """When a live process started, in clock ticks since boot; empty when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]
