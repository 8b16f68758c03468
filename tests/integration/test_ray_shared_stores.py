"""The shared store, as a folder and through fsspec: whole files, and one winner of every race."""

import os
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger.errors import DiskFull, InvalidInput, TargetUnavailable
from targets.ray_job.storage import open_store
from targets.shared_store import FolderStore, SharedStore, storage_errors


@pytest.fixture(params=["file", "memory"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> SharedStore:
    if request.param == "memory":
        pytest.importorskip("fsspec")
        store = open_store(f"memory://{uuid.uuid4().hex}/arl")
    else:
        store = open_store(f"file://{tmp_path}/a%20folder")
    store.prepare()
    return store


def test_a_file_is_read_as_it_was_written_whole_or_in_part(opened: SharedStore) -> None:
    assert opened.read("a/b") is None
    assert opened.age_s("a/b") is None
    assert opened.read_range("a/b", 0, 10) == b""
    opened.write("a/b", b"0123456789")
    opened.write("a/b", b"abcdefghij")
    assert opened.read("a/b") == b"abcdefghij"
    assert opened.read_range("a/b", 3, 4) == b"defg"
    assert opened.read_range("a/b", 8, 10) == b"ij"
    assert opened.read_range("a/b", 10, 10) == opened.read_range("a/b", 99, 1) == b""
    assert opened.read_range("a/b", 0, 0) == b""
    age_s = opened.age_s("a/b")
    assert age_s is not None
    assert 0 <= age_s < 60
    with opened.reader("a/b") as file:
        assert file is not None
        assert file.read(4) == b"abcd"
    with opened.reader("a/none") as file:
        assert file is None


def test_of_many_that_create_a_file_one_wins_and_its_content_stays(opened: SharedStore) -> None:
    won: list[bytes] = []
    barrier = threading.Barrier(8)

    def create(data: bytes) -> None:
        barrier.wait()
        if opened.create("claims/x", data):
            won.append(data)

    threads = [threading.Thread(target=create, args=(b"%d" % n * 1000,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert opened.read("claims/x") == won[0]
    assert not opened.create("claims/x", b"late")


def test_a_file_whose_writing_failed_is_not_there(opened: SharedStore) -> None:
    def fail() -> None:
        with opened.writer("a/big") as out:
            out.write(b"half")
            raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError):
        fail()
    assert opened.read("a/big") is None
    with opened.writer("a/big") as out:
        out.write(b"first ")
        out.write(b"second")
    assert opened.read("a/big") == b"first second"


def test_folders_are_listed_and_deleted(opened: SharedStore) -> None:
    for name in ("b", "a"):
        opened.write(f"folder/{name}", b"1")
    opened.write("folder/deep/er/x", b"1")
    assert opened.names("folder") == ["a", "b", "deep"]
    assert opened.names("nothing") == []
    opened.remove("folder/b")
    opened.remove("folder/b")
    assert opened.names("folder") == ["a", "deep"]
    opened.remove("folder")
    assert opened.names("folder") == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("/mnt/shared", r"target.storage '/mnt/shared': write a URL"),
        ("file://host/x", "three slashes"),
        ("file:///", "a folder of its own"),
        ("file:///mnt/a#b", "without . and #"),
        ("nonsense://x/y", "cannot be used"),
    ],
)
def test_a_storage_that_cannot_be_is_refused_with_what_to_write(url: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        open_store(url)


def test_a_storage_that_cannot_create_only_once_is_refused() -> None:
    """A plain dictionary of files that overwrites whatever is there."""
    fsspec = pytest.importorskip("fsspec")
    from fsspec.implementations.memory import MemoryFileSystem

    class Careless(MemoryFileSystem):  # type: ignore[misc] - fsspec has no types
        protocol = "careless"
        store: dict[str, object] = {}  # noqa: RUF012 - that is how fsspec's own keeps its files

        def pipe_file(
            self, path: str, value: bytes, mode: str = "overwrite", **more: object
        ) -> None:
            super().pipe_file(path, value, mode="overwrite")

    fsspec.register_implementation("careless", Careless, clobber=True)
    with pytest.raises(InvalidInput, match="could be started twice"):
        open_store("careless://x/arl").prepare()


def test_a_folder_that_is_not_mounted_is_away_and_not_empty(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/shared")
    calls: tuple[Callable[[], object], ...] = (
        lambda: store.names("attempts"),
        lambda: store.read("attempts/x"),
        lambda: store.create("attempts/x", b""),
        lambda: store.write("attempts/x", b""),
    )
    for call in calls:
        with pytest.raises(TargetUnavailable, match="is it mounted"):
            call()
    assert os.listdir(tmp_path) == [], "and nothing was made in its place"
    with pytest.raises(TargetUnavailable):
        open_store(f"file://{tmp_path}/not/there").prepare()


def test_half_written_files_of_killed_processes_are_swept(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/shared")
    assert isinstance(store, FolderStore)
    store.prepare()
    for name, age_s in (("old", 30 * 86_400), ("new", 60)):
        path = tmp_path / "shared" / "incoming" / name
        path.write_bytes(b"half")
        os.utime(path, (path.stat().st_mtime - age_s,) * 2)
    store.prepare()
    assert os.listdir(tmp_path / "shared" / "incoming") == ["new"]


def test_what_a_storage_raises_is_told_from_a_mistake_here() -> None:
    class ClientError(Exception):
        """As the client library of some cloud would have."""

    ClientError.__module__ = "botocore.exceptions"

    def fail(error: Exception) -> None:
        with storage_errors("writing x to s3://b"):
            raise error

    with pytest.raises(TargetUnavailable, match="writing x to s3://b: no such bucket"):
        fail(ClientError("no such\nbucket"))
    with pytest.raises(TargetUnavailable, match="TimeoutError"):
        fail(TimeoutError())
    with pytest.raises(DiskFull):
        fail(OSError(28, "No space left on device"))
    with pytest.raises(KeyError):
        fail(KeyError("x"))
