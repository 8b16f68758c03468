"""The artifact store on a real file system: whole or not at all, and damage is noticed."""

import hashlib
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ledger.artifacts import ArtifactStore
from ledger.checkouts import LINK_FROM_BYTES
from ledger.errors import ArtifactCorrupt, DiskFull, InvalidInput, NotFound


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    (root / "sub" / "run.sh").write_text("#!/bin/sh\n")
    (root / "sub" / "run.sh").chmod(0o755)
    (root / "sub" / "deep" / "b.bin").write_bytes(b"\x00" * 1000)
    return root


def object_path(store_root: Path, digest: str) -> Path:
    return store_root / "objects" / digest[:2] / digest[2:]


def damage(path: Path) -> None:
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(bytes(data))


def leftovers(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "store" / "incoming").iterdir())


def test_bytes_come_back_by_their_digest(store: ArtifactStore, tmp_path: Path) -> None:
    digest = store.put_bytes(b"hello")
    assert digest == hashlib.sha256(b"hello").hexdigest()
    assert store.read_bytes(digest) == b"hello"
    assert store.has(digest)
    assert object_path(tmp_path / "store", digest).stat().st_mode & 0o777 == 0o444
    assert leftovers(tmp_path) == []


def test_storing_again_writes_nothing(store: ArtifactStore, tmp_path: Path) -> None:
    digest = store.put_bytes(b"hello")
    before = object_path(tmp_path / "store", digest).stat()
    assert ArtifactStore(tmp_path / "store").put_bytes(b"hello") == digest
    after = object_path(tmp_path / "store", digest).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert after.st_atime_ns > before.st_atime_ns, "it shows that somebody relies on it"


def test_what_is_relied_on_again_is_not_taken_away(store: ArtifactStore, tmp_path: Path) -> None:
    digest = store.put_bytes(b"hello")
    seen = store.objects.status(digest)
    assert seen is not None
    ArtifactStore(tmp_path / "store").put_bytes(b"hello")  # as another process does
    assert store.objects.discard(digest, seen) is False
    assert store.read_bytes(digest) == b"hello"
    found = store.objects.status(digest)
    assert found is not None
    assert store.objects.discard(digest, found) is True
    assert ArtifactStore(tmp_path / "store").has(digest) is False
    assert leftovers(tmp_path) == []


def test_a_damaged_file_still_shows_after_it_was_relied_on(
    store: ArtifactStore, tmp_path: Path
) -> None:
    digest = store.put_bytes(b"hello")
    damage(object_path(tmp_path / "store", digest))
    before = object_path(tmp_path / "store", digest).stat().st_mtime_ns
    assert ArtifactStore(tmp_path / "store").has(digest)
    assert object_path(tmp_path / "store", digest).stat().st_mtime_ns == before


def test_the_empty_tree_costs_no_system_call_again(store: ArtifactStore, tmp_path: Path) -> None:
    digest = store.put_manifest([])
    os.rename(tmp_path / "store", tmp_path / "away")
    assert store.put_manifest([]) == digest


def test_what_is_missing_is_not_found(store: ArtifactStore, tmp_path: Path) -> None:
    for call in (store.read_bytes, store.manifest, store.checkout, store.verify):
        with pytest.raises(NotFound):
            call("0" * 64)
    with pytest.raises(NotFound):
        store.read_bytes("../../etc/passwd")
    with pytest.raises(NotFound):
        store.put_file(tmp_path / "nothing")
    with pytest.raises(NotFound):
        store.put_tree(tmp_path / "nothing")
    assert not store.has("0" * 64)


def test_a_tree_is_its_files_and_their_modes(store: ArtifactStore, folder: Path) -> None:
    tree = store.put_tree(folder)
    files = {path: (mode, size) for path, mode, size, _ in store.manifest(tree)}
    assert files == {
        "a.txt": (0o644, 1),
        "sub/run.sh": (0o755, 10),
        "sub/deep/b.bin": (0o644, 1000),
    }
    assert store.put_tree(folder) == tree
    (folder / "sub" / "run.sh").chmod(0o644)
    assert store.put_tree(folder) != tree


def test_times_and_skipped_folders_do_not_change_a_tree(
    store: ArtifactStore, folder: Path
) -> None:
    tree = store.put_tree(folder)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a.pyc").write_bytes(b"x")
    (folder / ".git").mkdir()
    os.utime(folder / "a.txt", (0, 0))
    assert store.put_tree(folder) == tree


def test_only_the_named_files_are_stored(store: ArtifactStore, folder: Path) -> None:
    tree = store.put_tree(folder, ["sub/run.sh"])
    assert [path for path, *_ in store.manifest(tree)] == ["sub/run.sh"]


def test_symlinks_and_special_files_are_refused(store: ArtifactStore, folder: Path) -> None:
    (folder / "link").symlink_to("/etc/passwd")
    with pytest.raises(InvalidInput, match="link is a symlink"):
        store.put_tree(folder)
    with pytest.raises(InvalidInput, match="symlink"):
        store.put_file(folder / "link")
    with pytest.raises(InvalidInput, match="symlink"):
        store.put_tree(folder, ["link"])
    (folder / "link").unlink()
    (folder / "door").symlink_to("/etc")
    with pytest.raises(InvalidInput, match="door is a symlink"):
        store.put_tree(folder, ["door/passwd"])
    (folder / "door").unlink()
    os.mkfifo(folder / "pipe")
    with pytest.raises(InvalidInput, match="not a regular file"):
        store.put_tree(folder)
    with pytest.raises(InvalidInput, match="not a regular file"):
        store.put_file(folder / "pipe")


def test_a_name_that_is_not_utf8_is_refused(store: ArtifactStore, folder: Path) -> None:
    (folder / os.fsdecode(b"bad\xff")).write_text("x")
    with pytest.raises(InvalidInput, match="not UTF-8"):
        store.put_tree(folder)


@pytest.mark.parametrize(
    "path", ["../up", "/abs", "a/../b", "a//b", "./a", "", "a\x00b", "a/", ".."]
)
def test_a_manifest_cannot_leave_its_tree(store: ArtifactStore, path: str) -> None:
    content = store.put_bytes(b"x")
    with pytest.raises(InvalidInput):
        store.put_manifest([(path, 0o644, 1, content)])


def test_a_manifest_must_be_a_tree(store: ArtifactStore) -> None:
    content = store.put_bytes(b"x")
    with pytest.raises(InvalidInput, match="twice"):
        store.put_manifest([("a", 0o644, 1, content), ("a", 0o755, 1, content)])
    with pytest.raises(InvalidInput, match="both a file and a directory"):
        store.put_manifest([("a", 0o644, 1, content), ("a/b", 0o644, 1, content)])
    with pytest.raises(NotFound, match="a of a tree"):
        store.put_manifest([("a", 0o644, 1, "0" * 64)])


def test_a_file_that_grows_past_its_limit_is_refused(store: ArtifactStore, tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.write_bytes(b"x" * 5000)
    fd = os.open(big, os.O_RDONLY)
    os.lseek(fd, 17, os.SEEK_SET)
    try:
        with pytest.raises(InvalidInput, match="4999"):
            store.put_open_file(fd, limit_bytes=4999)
        assert leftovers(tmp_path) == []
        digest, size = store.put_open_file(fd, limit_bytes=5000)
    finally:
        os.close(fd)
    assert (digest, size) == (hashlib.sha256(b"x" * 5000).hexdigest(), 5000)


def test_a_checkout_is_read_only_and_shared(store: ArtifactStore, folder: Path) -> None:
    tree = store.put_tree(folder)
    checkout = store.checkout(tree)
    assert store.checkout(tree) == checkout
    assert (checkout / "sub" / "deep" / "b.bin").read_bytes() == b"\x00" * 1000
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in checkout.rglob("*")}
    assert modes == {"a.txt": 0o444, "sub": 0o555, "run.sh": 0o555, "deep": 0o555, "b.bin": 0o444}
    assert stat.S_IMODE(checkout.stat().st_mode) == 0o555


def test_a_large_file_is_linked_and_still_checked(
    store: ArtifactStore, folder: Path, tmp_path: Path
) -> None:
    (folder / "weights").write_bytes(b"w" * LINK_FROM_BYTES)
    tree = store.put_tree(folder)
    checkout = store.checkout(tree)
    assert (checkout / "weights").stat().st_nlink == 2
    assert (checkout / "a.txt").stat().st_nlink == 1
    damage(checkout / "weights")
    with pytest.raises(ArtifactCorrupt):
        store.checkout(tree)


def test_a_damaged_checkout_is_made_anew(store: ArtifactStore, folder: Path) -> None:
    tree = store.put_tree(folder)
    checkout = store.checkout(tree)
    damage(checkout / "a.txt")
    assert store.checkout(tree) == checkout
    assert (checkout / "a.txt").read_text() == "a"
    (checkout / "sub").chmod(0o755)
    (checkout / "sub" / "run.sh").unlink()
    assert (store.checkout(tree) / "sub" / "run.sh").exists()


def test_what_was_planted_in_a_checkout_is_removed(store: ArtifactStore, folder: Path) -> None:
    tree = store.put_tree(folder)
    checkout = store.checkout(tree)
    for directory in (checkout, checkout / "sub"):
        directory.chmod(0o755)
        (directory / "__pycache__").mkdir()
        (directory / "__pycache__" / "a.pyc").write_bytes(b"planted")
        (directory / "sitecustomize.py").write_text("raise SystemExit")
    store.checkout(tree)
    names = {p.name for p in checkout.rglob("*")}
    assert names == {"a.txt", "sub", "run.sh", "deep", "b.bin"}


def test_a_damaged_object_is_never_handed_out(
    store: ArtifactStore, folder: Path, tmp_path: Path
) -> None:
    tree = store.put_tree(folder)
    digest = next(sha for path, _, _, sha in store.manifest(tree) if path == "a.txt")
    damage(object_path(tmp_path / "store", digest))
    for call in (
        lambda: store.read_bytes(digest),
        lambda: store.verify(tree),
        lambda: store.checkout(tree),
        lambda: store.copy_tree(tree, tmp_path / "copy"),
    ):
        with pytest.raises(ArtifactCorrupt):
            call()
    assert leftovers(tmp_path) == []
    assert list((tmp_path / "store" / "trees").iterdir()) == []


def test_a_damaged_manifest_is_noticed(store: ArtifactStore, folder: Path, tmp_path: Path) -> None:
    tree = store.put_tree(folder)
    damage(object_path(tmp_path / "store", tree))
    with pytest.raises(ArtifactCorrupt):
        store.checkout(tree)
    with pytest.raises(ArtifactCorrupt, match="not a tree"):
        store.manifest(store.put_bytes(b"no tree"))
    with pytest.raises(ArtifactCorrupt, match="not a tree"):
        store.manifest(store.put_bytes(b'[["../x",420,1,"' + b"0" * 64 + b'"]]'))


def test_a_missing_file_of_a_tree_is_not_found(
    store: ArtifactStore, folder: Path, tmp_path: Path
) -> None:
    tree = store.put_tree(folder)
    digest = next(sha for path, _, _, sha in store.manifest(tree) if path == "a.txt")
    object_path(tmp_path / "store", digest).unlink()
    with pytest.raises(NotFound):
        store.verify(tree)
    with pytest.raises(NotFound):
        store.checkout(tree)


def test_a_private_copy_is_writable(store: ArtifactStore, folder: Path, tmp_path: Path) -> None:
    tree = store.put_tree(folder)
    store.copy_tree(tree, tmp_path / "copy")
    (tmp_path / "copy" / "a.txt").write_text("changed")
    assert stat.S_IMODE((tmp_path / "copy" / "sub" / "run.sh").stat().st_mode) & 0o100
    store.verify(tree)


def test_many_writers_of_one_tree_agree(store: ArtifactStore, folder: Path) -> None:
    expected = store.put_tree(folder)
    found: list[Path] = []

    def write_and_check_out() -> None:
        other = ArtifactStore(store.checkout(expected).parents[1])
        assert other.put_tree(folder) == expected
        found.append(other.checkout(expected))

    threads = [threading.Thread(target=write_and_check_out) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(found) == 8


def test_old_leftovers_are_swept_and_new_ones_left(store: ArtifactStore, tmp_path: Path) -> None:
    incoming = tmp_path / "store" / "incoming"
    (incoming / "old").write_text("half a file")
    (incoming / "old-checkout" / "sub").mkdir(parents=True)
    (incoming / "old-checkout" / "sub").chmod(0o555)
    yesterday = time.time() - 90_000
    for name in ("old", "old-checkout"):
        os.utime(incoming / name, (yesterday, yesterday))
    (incoming / "new").write_text("being written")
    ArtifactStore(tmp_path / "store")
    assert [path.name for path in incoming.iterdir()] == ["new"]


KILLED = """
import os, sys, threading, time
from pathlib import Path
from ledger.artifacts import ArtifactStore
threading.Timer(float(sys.argv[2]), lambda: os.kill(os.getpid(), 9)).start()
store = ArtifactStore(Path(sys.argv[1]))
number = 0
while True:
    number += 1
    store.put_bytes(b"%d" % number * 100_000)
"""


def test_a_killed_writer_leaves_only_whole_objects(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    for delay in (0.05, 0.09, 0.13):
        argv = [sys.executable, "-c", KILLED, str(tmp_path / "store"), str(delay)]
        subprocess.run(argv, cwd=root, check=False, timeout=60)
    objects = [p for p in (tmp_path / "store" / "objects").rglob("*") if p.is_file()]
    assert objects
    for path in objects:
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.parent.name + path.name


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_leaves_no_half_artifact(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine does not let root mount a tmpfs")
    try:
        store = ArtifactStore(small / "store")
        kept = store.put_bytes(b"k" * 100_000)
        with pytest.raises(DiskFull, match="no space"):
            store.put_bytes(b"x" * 2_000_000)
        assert list((small / "store" / "incoming").iterdir()) == []
        assert store.read_bytes(kept) == b"k" * 100_000
        assert store.put_bytes(b"still works") is not None
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_file_that_nests_too_deep_is_no_tree(store: ArtifactStore) -> None:
    digest = store.put_bytes(b"[" * 200_000)
    with pytest.raises(ArtifactCorrupt, match="is not a tree"):
        store.manifest(digest)
