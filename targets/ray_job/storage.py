"""Files that every machine of a cluster reaches, by URL: a bucket through fsspec, or a folder."""

import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from ledger.errors import InvalidInput
from targets.shared_store import INCOMING, FolderStore, SharedStore, storage_errors


def open_store(url: str) -> SharedStore:
    """The storage at `url`: file:///folder, or s3://bucket/folder, gs://… and whatever else
    fsspec has an implementation for. Raises InvalidInput."""
    parts = urlsplit(url)
    if not parts.scheme:
        raise InvalidInput(
            f"target.storage {url!r}: write a URL that every node reaches, like "
            "file:///mnt/shared/arl or s3://bucket/arl"
        )
    if parts.scheme != "file":
        return FsspecStore(url)
    if parts.query or parts.fragment:
        raise InvalidInput(
            f"target.storage {url!r}: write it without ? and #; in a path they are %3F and %23"
        )
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise InvalidInput(
            f"target.storage {url!r}: a folder is written with its whole path and three "
            "slashes, like file:///mnt/shared/arl"
        )
    return FolderStore(url, unquote(parts.path))


class FsspecStore:
    """See SharedStore: through an fsspec implementation, which must be able to create a file
    only if there is none (s3fs, gcsfs and adlfs are)."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        try:
            import fsspec
        except ImportError:
            raise InvalidInput(
                f"target.storage {url!r} needs the package fsspec and the one for its kind of "
                "URL: pip install 'arl[ray]' s3fs (or gcsfs, adlfs …)"
            ) from None
        try:
            self._files: Any
            self._files, self._root = fsspec.core.url_to_fs(self.url, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            raise InvalidInput(f"target.storage {url!r} cannot be used: {error}") from error

    def prepare(self) -> None:
        with storage_errors(f"preparing {self.url}"):
            self._check_creates()

    def create(self, path: str, data: bytes) -> bool:
        with storage_errors(f"creating {path} in {self.url}"):
            return self._create(self._at(path), data)

    def write(self, path: str, data: bytes) -> None:
        with storage_errors(f"writing {path} to {self.url}"):
            self._make_parent(path)
            self._files.pipe_file(self._at(path), data)

    @contextmanager
    def writer(self, path: str) -> Iterator[IO[bytes]]:
        """Through a file here: what an implementation makes of a writer that is left in the
        middle differs, and some keep what was written."""
        with storage_errors(f"writing {path} to {self.url}"):
            self._make_parent(path)
            with tempfile.NamedTemporaryFile(prefix="arl-") as draft:
                yield draft
                draft.flush()
                self._files.put_file(draft.name, self._at(path))

    def read(self, path: str) -> bytes | None:
        with storage_errors(f"reading {path} of {self.url}"):
            try:
                data: bytes = self._files.cat_file(self._at(path))
            except FileNotFoundError:
                return None
            return data

    def read_range(self, path: str, offset: int, limit: int) -> bytes:
        if limit <= 0:
            return b""
        with storage_errors(f"reading {path} of {self.url}"):
            try:
                size = self._files.size(self._at(path)) or 0
                if offset >= size:  # some services refuse a range past the end
                    return b""
                end = min(offset + limit, size)
                data: bytes = self._files.cat_file(self._at(path), start=offset, end=end)
            except FileNotFoundError:
                return b""
            return data

    @contextmanager
    def reader(self, path: str) -> Iterator[IO[bytes] | None]:
        with storage_errors(f"reading {path} of {self.url}"):
            try:
                file = self._files.open(self._at(path), "rb")
            except FileNotFoundError:
                yield None
                return
            with file:
                yield file

    def age_s(self, path: str) -> float | None:
        with storage_errors(f"looking for {path} in {self.url}"):
            try:
                written = self._files.modified(self._at(path))
            except FileNotFoundError:
                return None
            return max(0.0, time.time() - float(written.timestamp()))

    def names(self, folder: str) -> list[str]:
        with storage_errors(f"listing {folder} of {self.url}"):
            try:
                found = self._files.ls(self._at(folder), detail=False)
            except FileNotFoundError:
                return []
            names = {str(path).rstrip("/").rpartition("/")[2] for path in found}
            return sorted(names - {"", folder.rpartition("/")[2]})

    def remove(self, path: str) -> None:
        with storage_errors(f"deleting {path} of {self.url}"):
            try:
                self._files.rm(self._at(path), recursive=True)
            except FileNotFoundError:
                pass

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _make_parent(self, path: str) -> None:
        self._files.makedirs(self._at(path).rpartition("/")[0], exist_ok=True)

    def _create(self, place: str, data: bytes) -> bool:
        self._files.makedirs(place.rpartition("/")[0], exist_ok=True)
        try:
            self._files.pipe_file(place, data, mode="create")
        except FileExistsError:
            return False
        return True

    def _check_creates(self) -> None:
        """That of two tries the second fails: no attempt must ever be started twice."""
        probe = self._at(f"{INCOMING}/{secrets.token_hex(12)}")
        try:
            is_sure = self._create(probe, b"1") and not self._create(probe, b"2")
        except (TypeError, NotImplementedError):
            is_sure = False
        self._files.rm(probe)
        if not is_sure:
            raise InvalidInput(
                f"target.storage {self.url!r}: this kind of storage cannot create a file only "
                "if there is none, so that an attempt could be started twice; use s3://, gs:// "
                "or a shared folder"
            )
