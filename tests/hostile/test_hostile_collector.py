"""Outputs made to harm whoever collects or deletes them."""

import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evaluator import collector
from evaluator.collector import Collected, CollectLimits, Refused, collect
from ledger.artifacts import ArtifactStore
from targets.spares import remove_tree

Attack = Callable[[Path], None]


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store")


@pytest.fixture
def output(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "output"
    (root / "model").mkdir(parents=True)
    (root / "model" / "a.safetensors").write_bytes(b"honest")
    yield root
    remove_tree(str(root))
    assert not root.exists()


def link_to_a_host_file(model: Path) -> None:
    (model / "leak").symlink_to("/etc/passwd")


def link_to_a_host_directory(model: Path) -> None:
    (model / "leak").symlink_to("/etc")


def link_to_itself(model: Path) -> None:
    (model / "loop").symlink_to("loop")


def dangling_link(model: Path) -> None:
    (model / "nothing").symlink_to("/nowhere/at/all")


def fifo(model: Path) -> None:
    os.mkfifo(model / "fifo")


def unix_socket(model: Path) -> None:
    here = os.getcwd()
    os.chdir(model)  # a socket's path must be short
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("socket")
    finally:
        os.chdir(here)


def setuid(model: Path) -> None:
    (model / "suid").write_bytes(b"x")
    (model / "suid").chmod(0o4755)


def setgid(model: Path) -> None:
    (model / "sgid").write_bytes(b"x")
    (model / "sgid").chmod(0o2755)


def newline_in_a_name(model: Path) -> None:
    (model / "a\n[00:00] promoted").touch()


def escape_sequence_in_a_name(model: Path) -> None:
    (model / "\x1b]0;owned\x07").touch()


def right_to_left_name(model: Path) -> None:
    (model / "weights\u202egpj.txt").touch()


def zero_width_name(model: Path) -> None:
    (model / "config\u200b.json").touch()


def name_that_is_not_utf_8(model: Path) -> None:
    os.mkdir(os.fsencode(model) + b"/caf\xe9")


def hard_link_outside(model: Path) -> None:
    secret = model.parent.parent / "secret"
    secret.write_text("held out")
    os.link(secret, model / "mine")


def sparse_giant(model: Path) -> None:
    with (model / "giant").open("wb") as stream:
        stream.truncate(1 << 40)


def too_deep(model: Path) -> None:
    os.makedirs(model / "/".join("d" * 40))


def too_many(model: Path) -> None:
    for i in range(10_001):
        (model / str(i)).touch()


ATTACKS: dict[Attack, str] = {
    link_to_a_host_file: "is a symbolic link",
    link_to_a_host_directory: "is a symbolic link",
    link_to_itself: "is a symbolic link",
    dangling_link: "is a symbolic link",
    fifo: "is a fifo",
    unix_socket: "is a socket",
    setuid: "is setuid",
    setgid: "is setuid or setgid",
    newline_in_a_name: "control or invisible",
    escape_sequence_in_a_name: "control or invisible",
    right_to_left_name: "control or invisible",
    zero_width_name: "control or invisible",
    name_that_is_not_utf_8: "not UTF-8",
    hard_link_outside: "hard link to a file outside",
    sparse_giant: "bytes",
    too_deep: "nested deeper",
    too_many: "past 10000 files",
}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: a.__name__)
def test_a_hostile_output_is_refused_whole_and_the_rule_is_named(
    output: Path, store: ArtifactStore, attack: Attack
) -> None:
    attack(output / "model")
    found = collect(str(output), store)
    assert isinstance(found, Refused)
    assert ATTACKS[attack] in found.rule
    assert found.reason.isascii()
    assert found.reason.isprintable()
    assert len(found.reason) < 400


@pytest.mark.parametrize("attack", [link_to_a_host_directory, dangling_link, fifo])
def test_what_is_outside_the_collected_directories_is_never_looked_at(
    output: Path, store: ArtifactStore, attack: Attack
) -> None:
    attack(output)
    assert isinstance(collect(str(output), store), Collected)


@pytest.mark.parametrize("name", ["model", "resume"])
def test_a_collected_directory_that_is_a_link_is_refused(
    output: Path, store: ArtifactStore, name: str
) -> None:
    remove_tree(str(output / name))
    (output / name).symlink_to("/etc")
    found = collect(str(output), store)
    assert found == Refused(name, "is a symbolic link, but must be a directory")


def test_a_device_is_refused(output: Path, store: ArtifactStore) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a device")
    try:
        os.mknod(output / "model" / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("no device can be made in this container")
    found = collect(str(output), store)
    assert isinstance(found, Refused)
    assert found.rule.startswith("is a character device")


def test_an_unreadable_file_is_the_candidates_fault(output: Path, store: ArtifactStore) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (output / "model" / "a.safetensors").chmod(0)
    found = collect(str(output), store)
    assert isinstance(found, Refused)
    assert "permission denied" in found.rule


# --- races: whoever ran as the same user may still hold something open --------------------------


@contextmanager
def between_survey_and_copy(act: Callable[[], None]) -> Iterator[None]:
    """Run `act` at the one moment where a check could have become wrong."""
    original = collector.check_links

    def check_then_act(survey: collector.Survey) -> None:
        original(survey)
        act()

    collector.check_links = check_then_act
    try:
        yield
    finally:
        collector.check_links = original


def swap_for_link(model: Path) -> None:
    (model / "a.safetensors").unlink()
    (model / "a.safetensors").symlink_to("/etc/passwd")


def swap_for_fifo(model: Path) -> None:
    (model / "a.safetensors").unlink()
    os.mkfifo(model / "a.safetensors")


def swap_for_another_file(model: Path) -> None:
    (model / "b").write_bytes(b"other!")
    (model / "b").rename(model / "a.safetensors")


def grow(model: Path) -> None:
    with (model / "a.safetensors").open("ab") as stream:
        stream.write(b"more")


def shrink(model: Path) -> None:
    os.truncate(model / "a.safetensors", 1)


def remove(model: Path) -> None:
    (model / "a.safetensors").unlink()


def swap_directory_for_link(model: Path) -> None:
    model.rename(model.parent / "moved")
    model.symlink_to(model.parent / "moved")


@pytest.mark.parametrize(
    "swap",
    [
        swap_for_link,
        swap_for_fifo,
        swap_for_another_file,
        grow,
        shrink,
        remove,
        swap_directory_for_link,
    ],
)
def test_what_changes_after_it_was_checked_is_refused(
    output: Path, store: ArtifactStore, swap: Attack
) -> None:
    with between_survey_and_copy(lambda: swap(output / "model")):
        found = collect(str(output), store)
    assert isinstance(found, Refused)
    assert "changed" in found.rule or "cannot be opened" in found.rule


def test_a_writer_that_goes_on_writing_changes_nothing_that_was_stored(
    output: Path, store: ArtifactStore
) -> None:
    """It holds the file open for writing; what is stored is a copy, and what was hashed."""
    with (output / "model" / "a.safetensors").open("r+b") as held:
        found = collect(str(output), store)
        assert isinstance(found, Collected)
        held.seek(0)
        held.write(b"forged")
        held.flush()
        store.verify(found.model.digest)
        stored = store.checkout(found.model.digest) / "a.safetensors"
        assert stored.read_bytes() == b"honest"


# --- deletion ----------------------------------------------------------------------------------


def nest(root: Path, depth: int) -> None:
    """A path far longer than PATH_MAX, made one step at a time."""
    current = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir("nested-directory", dir_fd=current)
        inner = os.open("nested-directory", os.O_RDONLY | os.O_DIRECTORY, dir_fd=current)
        os.close(current)
        current = inner
    os.close(current)


def test_a_tree_deeper_than_any_path_is_refused_and_deleted(
    output: Path, store: ArtifactStore
) -> None:
    nest(output / "model", 1500)
    assert isinstance(collect(str(output), store), Refused)
    remove_tree(str(output))
    assert not output.exists()


def test_a_tree_without_permissions_is_deleted(output: Path) -> None:
    inner = output / "model" / "locked" / "inner"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    inner.chmod(0)
    inner.parent.chmod(0)
    (output / "model").chmod(0)
    remove_tree(str(output))
    assert not output.exists()


def test_names_taken_in_advance_do_not_stop_the_deletion(output: Path) -> None:
    for i in range(6):
        (output / f".arl-{i}").mkdir()
        (output / f".arl-{i}" / "full").mkdir()
        (output / f".arl-{i}" / "full" / "x").touch()
    (output / ".arl-6").touch()
    (output / "model" / "deep" / "deeper").mkdir(parents=True)
    remove_tree(str(output))
    assert not output.exists()


def test_two_deletions_at_once_do_not_hang(output: Path) -> None:
    for i in range(300):
        (output / "model" / str(i)).mkdir()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            remove_tree(str(output))
        except FileNotFoundError as error:
            failures.append(error)  # the other one was faster

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)


def test_the_caps_bound_what_a_survey_reads(output: Path, store: ArtifactStore) -> None:
    for i in range(200):
        (output / "model" / str(i)).touch()
    found = collect(str(output), store, limits=CollectLimits(entries=100))
    assert found == Refused("model", "takes the output past 100 files")
