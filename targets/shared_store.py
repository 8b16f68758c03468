"""Files that every machine of a cluster reaches; here as a folder that all of them mount."""

import errno
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Protocol

from ledger.errors import ArlError, DiskFull, InvalidInput, TargetUnavailable

INCOMING: Final = "incoming"
_SWEEP_AGE_S: Final = 7 * 86_400.0


class SharedStore(Protocol):
    """Named files. A path is relative, with `/`. Thread-safe.

    Every method raises TargetUnavailable when the storage cannot be reached, DiskFull when it
    has no space left.
    """

    url: str

    def prepare(self) -> None:
        """Make sure that files can be written there. Called where attempts are launched; nodes
        expect to find it."""
        ...

    def create(self, path: str, data: bytes) -> bool:
        """Write the file, whole, if there is none of that name; whether this call made it. Of
        several that try at once exactly one gets True."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Write or replace the file, whole or not at all."""
        ...

    def writer(self, path: str) -> AbstractContextManager[IO[bytes]]:
        """The same for what is too long for memory: there is no file if the block raises."""
        ...

    def read(self, path: str) -> bytes | None:
        """The file's content; None when there is no such file."""
        ...

    def read_range(self, path: str, offset: int, limit: int) -> bytes:
        """At most `limit` bytes from `offset`; none past the end, or when there is no file."""
        ...

    def reader(self, path: str) -> AbstractContextManager[IO[bytes] | None]:
        """The open file; None when there is no such file."""
        ...

    def age_s(self, path: str) -> float | None:
        """Seconds since it was written; None when there is no such file."""
        ...

    def names(self, folder: str) -> list[str]:
        """Names of what is in a folder, sorted; none when there is no such folder."""
        ...

    def remove(self, path: str) -> None:
        """Delete a file, or a folder with all that is in it. Idempotent."""
        ...


class storage_errors:
    """Turn whatever a storage raises into DiskFull or TargetUnavailable.

    Not by type: each fsspec implementation lets its own client library's errors through. What
    Python itself raises for a mistake in this program stays what it is.
    """

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, ArlError):
            return
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no space left while {self._doing}") from error
        if isinstance(error, OSError) or type(error).__module__ != "builtins":
            said = " ".join(str(error).split())[:300] or type(error).__name__
            raise TargetUnavailable(f"{self._doing}: {said}") from error


class FolderStore:
    """See SharedStore: a folder that is mounted everywhere. Files appear under their name in
    one step and are on the disk by then."""

    def __init__(self, url: str, root: str) -> None:
        self.url = url
        self._root = root.rstrip("/")
        if not self._root:
            raise InvalidInput(f"target.storage {url!r}: name a folder of its own")

    def prepare(self) -> None:
        """Raises TargetUnavailable unless the folder above is there: it may not be mounted."""
        with storage_errors(f"preparing {self.url}"):
            for folder in (self._root, f"{self._root}/{INCOMING}"):
                if not os.path.isdir(folder):
                    Path(folder).mkdir(mode=0o700, exist_ok=True)
        self._sweep()

    def create(self, path: str, data: bytes) -> bool:
        with storage_errors(f"creating {path} in {self.url}"):
            with self._draft(path) as (file, draft):
                file.write(data)
                _sync(file)
                try:
                    os.link(draft, self._at(path))
                except FileExistsError:
                    return False
        return True

    def write(self, path: str, data: bytes) -> None:
        with self.writer(path) as file:
            file.write(data)

    @contextmanager
    def writer(self, path: str) -> Iterator[IO[bytes]]:
        with storage_errors(f"writing {path} to {self.url}"):
            with self._draft(path) as (file, draft):
                yield file
                _sync(file)
                os.rename(draft, self._at(path))

    def read(self, path: str) -> bytes | None:
        with self.reader(path) as file:
            return None if file is None else file.read()

    def read_range(self, path: str, offset: int, limit: int) -> bytes:
        with self.reader(path) as file:
            if file is None or limit <= 0:
                return b""
            file.seek(offset)
            return file.read(limit)

    @contextmanager
    def reader(self, path: str) -> Iterator[IO[bytes] | None]:
        with storage_errors(f"reading {path} of {self.url}"):
            try:
                file = open(self._at(path), "rb")
            except (FileNotFoundError, NotADirectoryError):
                self._check_there()
                yield None
                return
            with file:
                yield file

    def age_s(self, path: str) -> float | None:
        with storage_errors(f"looking for {path} in {self.url}"):
            try:
                return max(0.0, time.time() - os.stat(self._at(path)).st_mtime)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def names(self, folder: str) -> list[str]:
        with storage_errors(f"listing {folder} of {self.url}"):
            try:
                return sorted(os.listdir(self._at(folder)))
            except (FileNotFoundError, NotADirectoryError):
                self._check_there()
                return []

    def remove(self, path: str) -> None:
        with storage_errors(f"deleting {path} of {self.url}"):
            try:
                os.unlink(self._at(path))
            except FileNotFoundError:
                pass
            except (IsADirectoryError, PermissionError):
                shutil.rmtree(self._at(path), ignore_errors=True)

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _check_there(self) -> None:
        """A folder that is not mounted must not look like one that is empty."""
        if not os.path.isdir(f"{self._root}/{INCOMING}"):
            raise FileNotFoundError(
                errno.ENOENT, "the folder is not there: is it mounted on this machine?", self._root
            )

    @contextmanager
    def _draft(self, path: str) -> Iterator[tuple[IO[bytes], str]]:
        """A new file beside; gone afterwards unless it was renamed."""
        self._check_there()
        os.makedirs(os.path.dirname(self._at(path)), mode=0o700, exist_ok=True)
        draft = f"{self._root}/{INCOMING}/{secrets.token_hex(12)}"
        try:
            with open(draft, "xb") as file:
                yield file, draft
        finally:
            Path(draft).unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Delete what killed processes left half written."""
        for name in self.names(INCOMING):
            age_s = self.age_s(f"{INCOMING}/{name}")
            if age_s is not None and age_s > _SWEEP_AGE_S:
                self.remove(f"{INCOMING}/{name}")


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
