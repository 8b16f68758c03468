"""What directories are counted as, and when anybody looks at all."""

import ctypes
import errno
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from targets import disk_use
from targets.disk_use import DiskWatch, Quota, Round, longest_file, quotas_of
from targets.disk_walk import ENTRY_BYTES, MAX_DEPTH, Free, TooDeep, walk_entries

MIB = 1024 * 1024
FAR = 1e9


def used(place: Path, *, by_length: bool = False) -> int:
    return sum(walk_entries(str(place), by_length=by_length)) - ENTRY_BYTES  # the directory itself


def fill(path: Path, size: int) -> None:
    path.write_bytes(b"x" * size)


def quota(place: Path, limit: int, *, by_length: bool = False) -> Quota:
    return Quota("its output", "resources.output", limit, (str(place),), by_length=by_length)


def measured(place: Path, limit: int, *, by_length: bool = False, gone: int = 0) -> Round:
    whole = Round(str(place), [quota(place, limit, by_length=by_length)], gone)
    assert whole.advance(10.0)
    return whole


def test_files_count_what_they_occupy_and_at_least_a_block(tmp_path: Path) -> None:
    fill(tmp_path / "a", MIB)
    (tmp_path / "empty").touch()
    (tmp_path / "below").mkdir()
    fill(tmp_path / "below" / "b", 10)
    assert used(tmp_path) == MIB + 3 * ENTRY_BYTES


def test_a_sparse_file_counts_its_length_only_where_it_is_collected(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(64 * MIB)
    assert used(tmp_path) == ENTRY_BYTES
    assert used(tmp_path, by_length=True) == 64 * MIB


def test_space_taken_behind_the_end_of_a_file_counts(tmp_path: Path) -> None:
    keep_size = 1
    with (tmp_path / "short").open("wb") as file:
        libc = ctypes.CDLL(None, use_errno=True)
        size = ctypes.c_int64(4 * MIB)
        if libc.fallocate(file.fileno(), keep_size, ctypes.c_int64(0), size) != 0:
            assert ctypes.get_errno() == errno.EOPNOTSUPP
            return
    assert (tmp_path / "short").stat().st_size == 0
    assert used(tmp_path) >= 4 * MIB


def test_a_file_with_many_names_counts_once(tmp_path: Path) -> None:
    fill(tmp_path / "a", MIB)
    for number in range(9):
        os.link(tmp_path / "a", tmp_path / str(number))
    assert MIB <= used(tmp_path) < MIB + 4096


def test_links_are_not_followed_and_what_is_gone_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    fill(tmp_path / "outside", MIB)
    (tmp_path / "in" / "file").symlink_to(tmp_path / "outside")
    (tmp_path / "in" / "directory").symlink_to("/usr")
    os.mkfifo(tmp_path / "in" / "fifo")
    assert used(tmp_path / "in") == 3 * ENTRY_BYTES
    assert [*walk_entries(str(tmp_path / "gone"), by_length=True)] == []
    (tmp_path / "link").symlink_to("/usr")
    assert [*walk_entries(str(tmp_path / "link"), by_length=True)] == [ENTRY_BYTES]


def test_a_directory_made_unreadable_hides_nothing(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    fill(hidden / "a", MIB)
    hidden.chmod(0)
    pid = os.fork()
    if pid == 0:  # root reads everything: as somebody else
        code = 1
        try:
            if os.geteuid() == 0:
                tmp_path.chmod(0o711)
                os.chown(hidden, 12345, 12345)
                os.chown(hidden / "a", 12345, 12345)
                descriptor = os.open(tmp_path, os.O_RDONLY)
                os.setresuid(12345, 12345, 12345)
                ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, which that cleared
                os.fchdir(descriptor)
            else:
                os.chdir(tmp_path)
            code = int(sum(walk_entries("hidden", by_length=False)) < MIB)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def deep(tmp_path: Path, levels: int) -> None:
    home = os.getcwd()
    os.chdir(tmp_path)
    for _ in range(levels):
        os.mkdir("d")
        os.chdir("d")
    os.chdir(home)


def test_directories_deeper_than_any_program_needs_are_too_much(tmp_path: Path) -> None:
    deep(tmp_path, MAX_DEPTH - 1)
    assert used(tmp_path) == (MAX_DEPTH - 1) * ENTRY_BYTES
    (tmp_path / "more").mkdir()
    deep(tmp_path / "more", MAX_DEPTH)
    with pytest.raises(TooDeep):
        used(tmp_path)
    assert "nested more than" in measured(tmp_path, FAR_BYTES).excess
    before = len(os.listdir("/proc/self/fd"))
    assert before < MAX_DEPTH, "none of them stays open"


FAR_BYTES = 1 << 50


def test_a_round_ends_as_soon_as_a_limit_is_passed_and_says_how_much(tmp_path: Path) -> None:
    for number in range(8):
        fill(tmp_path / str(number), MIB)
    assert measured(tmp_path, 20 * MIB).excess == ""
    said = measured(tmp_path, 3 * MIB).excess
    assert "its output held 3" in said
    assert "MiB or more, and resources.output allows 3 MiB" in said


def test_a_round_tells_what_may_still_be_written(tmp_path: Path) -> None:
    fill(tmp_path / "a", MIB)
    whole = measured(tmp_path, 4 * MIB)
    assert whole.headroom == 3 * MIB - ENTRY_BYTES


def test_a_round_goes_on_where_it_stopped(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).mkdir()
        fill(tmp_path / str(number) / "file", 10)
    sliced = Round(str(tmp_path), [quota(tmp_path, FAR_BYTES)], 0)
    slices = 1
    while not sliced.advance(0.0):  # one entry at a time
        slices += 1
    assert slices == 42
    assert sliced.headroom == FAR_BYTES - 41 * ENTRY_BYTES
    assert sliced.advance(0.0)


@contextmanager
def holder(place: Path) -> Iterator[int]:
    """A child that has 2 MiB of a deleted file open and 1 MiB of another mapped; its pid."""
    ready, say = os.pipe()
    wait, go_on = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            with (place / "open").open("w+b") as file, (place / "map").open("w+b") as other:
                file.write(bytes(2 * MIB))
                other.write(bytes(MIB))
                file.flush()
                other.flush()
                held = mmap.mmap(other.fileno(), MIB)
                os.unlink(place / "open")
                os.unlink(place / "map")
                other.close()
                os.write(say, b"x")
                os.read(wait, 1)
                held.close()
        finally:
            os._exit(0)
    os.read(ready, 1)
    try:
        yield pid
    finally:
        os.write(go_on, b"x")
        os.waitpid(pid, 0)
        for descriptor in (ready, say, wait, go_on):
            os.close(descriptor)


def test_deleted_files_that_a_child_has_open_count_when_space_is_missing(tmp_path: Path) -> None:
    with holder(tmp_path) as pid:
        assert measured(tmp_path, MIB, gone=0).excess == "", "nobody misses any space"
        said = measured(tmp_path, 2 * MIB, gone=3 * MIB).excess
        assert "in deleted files that it has open" in said
        assert measured(tmp_path, 8 * MIB, gone=3 * MIB).excess == ""
        mapped_too = measured(tmp_path, 2 * MIB + MIB // 2, gone=30 * MIB).excess
        own = os.stat(tmp_path).st_dev
        maps = f"{os.major(own):02x}:{os.minor(own):02x}"
        if maps in Path(f"/proc/{pid}/maps").read_text():  # not so where devices are virtual
            assert "3 MiB in deleted files" in mapped_too


def test_deleted_files_are_no_part_of_the_output(tmp_path: Path) -> None:
    (tmp_path / "output").mkdir()
    both = [quota(tmp_path / "output", MIB), quota(tmp_path, 8 * MIB)]
    with holder(tmp_path):
        whole = Round(str(tmp_path), both, 3 * MIB)
        assert whole.advance(10.0)
    assert whole.excess == ""


def test_the_quotas_are_those_that_the_limits_name() -> None:
    assert quotas_of("/a", None, None) == []
    output, scratch = quotas_of("/a", 1, 2)
    assert [*output.places] == ["/a/output"]
    assert {"/a/work", "/a/home", "/a/tmp", "/a/answerer/work", "/a/reports.jsonl"} <= {
        *scratch.places
    }
    assert longest_file(None, 5) is None
    assert longest_file(3 * MIB, 5) == 3 * MIB + disk_use.FILE_SLACK_BYTES


class Space:
    """A file system with as much space as a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = Free(1 << 40, 1 << 30)
        self.walks = 0
        monkeypatch.setattr(disk_use, "free_of", lambda place: self.free)
        real = disk_use.walk_entries

        def counted(place: str, *, by_length: bool) -> Iterator[int]:
            self.walks += 1
            return real(place, by_length=by_length)

        monkeypatch.setattr(disk_use, "walk_entries", counted)

    def start(self, watch: DiskWatch, free_bytes: int) -> None:
        """As if there had been so much when the attempt began."""
        watch._first = Free(free_bytes, 1 << 30)

    def take(self, size: int, inodes: int = 0) -> None:
        self.free = Free(self.free.size_bytes - size, self.free.inodes - inodes)


@pytest.fixture
def space(monkeypatch: pytest.MonkeyPatch) -> Space:
    return Space(monkeypatch)


def test_nothing_is_walked_while_a_program_is_young_and_space_is_there(
    space: Space, tmp_path: Path
) -> None:
    watch = DiskWatch(str(tmp_path), [quota(tmp_path, MIB)], 100.0)
    for step in range(19):
        assert watch.find_excess(100.0 + step / 10) == ""
    assert space.walks == 0
    assert watch.find_last_excess() == ""
    assert space.walks == 0


def test_missing_space_is_looked_into_at_once(space: Space, tmp_path: Path) -> None:
    fill(tmp_path / "a", 2 * MIB)
    watch = DiskWatch(str(tmp_path), [quota(tmp_path, MIB)], 100.0)
    space.take(2 * MIB)
    assert 100.0 < watch.due_at() <= 100.06
    assert "its output held" in watch.find_excess(100.06)


def test_missing_inodes_are_looked_into_at_once(space: Space, tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / str(number)).touch()
    watch = DiskWatch(str(tmp_path), [quota(tmp_path, MIB)], 100.0)
    space.take(0, inodes=300)
    assert "its output held" in watch.find_excess(100.06)


def test_whoever_fills_the_disk_is_ended_whatever_its_limits_are(
    space: Space, tmp_path: Path
) -> None:
    fill(tmp_path / "a", 2 * MIB)
    watch = DiskWatch(str(tmp_path), [quota(tmp_path, FAR_BYTES)], 100.0)
    space.free = Free(200 * MIB, 1 << 30)
    assert watch.find_excess(101.5) == "", "another one took that space"
    with (tmp_path / "b").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 300 * MIB)
    space.start(watch, 500 * MIB)
    assert "it held 302" in watch.find_excess(200.0)
    assert "left less than 256 MiB of the disk free" in watch.find_last_excess()


def test_a_disk_that_was_full_before_is_nobodys_fault(space: Space, tmp_path: Path) -> None:
    fill(tmp_path / "a", 20 * MIB)
    space.free = Free(100 * MIB, 1 << 30)
    watch = DiskWatch(str(tmp_path), [quota(tmp_path, FAR_BYTES)], 100.0)
    space.take(20 * MIB)
    assert watch.find_excess(101.5) == ""
    assert watch.find_last_excess() == ""


def test_an_end_that_came_too_fast_is_judged_all_the_same(space: Space, tmp_path: Path) -> None:
    fill(tmp_path / "a", 2 * MIB)
    watch = DiskWatch(str(tmp_path), [quota(tmp_path, MIB)], 100.0)
    space.take(2 * MIB)
    assert "its output held" in watch.find_last_excess()


def test_without_quotas_nobody_ever_looks(space: Space, tmp_path: Path) -> None:
    watch = DiskWatch(str(tmp_path), [], 100.0)
    assert watch.due_at() == float("inf")
    space.take(MIB)
    assert watch.find_last_excess() == ""


def test_what_grew_without_space_going_missing_is_found_by_and_by(
    space: Space, tmp_path: Path
) -> None:
    watch = DiskWatch(str(tmp_path), [quota(tmp_path, MIB)], 100.0)
    fill(tmp_path / "a", 2 * MIB)
    found = ""
    now = 100.0
    while not found and now < 110:
        now = max(watch.due_at(), now)
        found = watch.find_excess(now)
    assert "its output held" in found
    assert 102.0 <= now < 104
