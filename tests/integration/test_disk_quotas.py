"""What writes more than it may is ended before it fills the disk, where attempts are processes."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.artifacts import ArtifactStore
from ledger.records import AttemptKind
from targets import layout
from targets.disk_use import DiskWatch, Quota
from targets.local_process import LocalProcessTarget
from targets.protocol import ExitCause, Program
from tests.target_runs import (
    attempt,
    bubblewrap_target,
    end_supervisor,
    finish,
    local_target,
    python,
    run,
    wait_until,
)

MIB = 1024 * 1024
DISK = 768 * MIB
LIMITS = {"output_bytes": 8 * MIB, "scratch_bytes": 16 * MIB}


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small file system of its own, so that whoever fills it fills nothing else."""
    place = tmp_path_factory.mktemp("disk")
    if os.geteuid() != 0:
        yield place  # the limits are the same, on the disk that there is
        return
    option = f"size={DISK},nr_inodes=100000"
    mount = ["mount", "-t", "tmpfs", "-o", option, "tmpfs", str(place)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"no small file system can be mounted here: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture(
    scope="module",
    params=["local", pytest.param("bubblewrap", marks=pytest.mark.bubblewrap)],
)
def target(request: pytest.FixtureRequest, disk: Path) -> Iterator[LocalProcessTarget]:
    store = ArtifactStore(disk / "store")
    make = {"local": local_target, "bubblewrap": bubblewrap_target}[request.param]
    made = make(disk, store)
    yield made
    made.close()
    end_supervisor(Path(made._root))


FILL = """
import os, time
place, number = os.path.expandvars({place!r}), 0
time.sleep({wait_s})
while number < 4000:  # 8000 MiB: more than the disk has
    with open(f"{{place}}/{{number}}", "wb", buffering=0) as file:
        file.write(bytes(2 << 20))
    number += 1
"""


def filling(place: str, wait_s: float = 0.0) -> Program:
    return python(FILL.format(place=place, wait_s=wait_s))


PLACES = {"$ARL_OUTPUT": "resources.output", ".": "resources.scratch"}


@pytest.mark.parametrize("place", [*PLACES, "$HOME", "$TMPDIR"])
def test_a_program_that_fills_the_disk_is_ended_before_it_is_full(
    target: LocalProcessTarget, disk: Path, place: str
) -> None:
    full = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    ended = run(target, filling(place), limits=LIMITS)
    assert ended.exit.cause is ExitCause.TOO_MUCH_DATA, ended.exit
    assert f"{PLACES.get(place, 'resources.scratch')} allows" in ended.exit.detail
    assert "MiB or more" in ended.exit.detail
    left = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    assert left > full // 4, "it was ended in time"
    target.release(ended.handle)


@pytest.mark.skipif(os.geteuid() != 0, reason="it would be this machine's disk: needs a mount")
def test_a_disk_smaller_than_the_limits_is_not_filled_either(
    target: LocalProcessTarget, disk: Path
) -> None:
    far = {"output_bytes": 1 << 40, "scratch_bytes": 1 << 40}
    for script in (FILL.format(place="$HOME", wait_s=0.0), DELETED):
        ended = run(target, python(script), limits=far)
        assert ended.exit.cause is ExitCause.TOO_MUCH_DATA, ended.exit
        assert "of the disk free" in ended.exit.detail
        target.release(ended.handle)


def test_one_endless_file_is_stopped_by_the_kernel_and_told_as_too_much(
    target: LocalProcessTarget,
) -> None:
    dies = run(target, 'exec cat /dev/zero > "$ARL_OUTPUT/x"', limits=LIMITS)
    assert dies.exit.cause is ExitCause.TOO_MUCH_DATA
    output = Path(target.outputs(dies.handle).root, "x")
    assert output.stat().st_size <= 16 * MIB + 64 * 1024
    target.release(dies.handle)
    fails = python(
        "import os\nwith open(os.environ['ARL_OUTPUT'] + '/x', 'wb', buffering=0) as file:\n"
        "    while True: file.write(bytes(1 << 20))"
    )
    told = run(target, fails, limits=LIMITS)  # Python ignores the signal and sees an error
    assert told.exit.cause is ExitCause.TOO_MUCH_DATA, told.exit
    target.release(told.handle)


def test_the_limit_of_a_file_cannot_be_raised_again(target: LocalProcessTarget) -> None:
    code = (
        "import resource, sys\nsoft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
        f"assert soft == hard == {16 * MIB + 64 * 1024}, (soft, hard)"
    )
    assert run(target, python(code), limits=LIMITS).exit.code == 0


def test_a_sparse_file_is_too_much_where_its_length_would_be_collected(
    target: LocalProcessTarget,
) -> None:
    sparse = 'truncate -s 12M "{}/x"; sleep 20'
    output = run(target, sparse.format("$ARL_OUTPUT"), limits=LIMITS)
    assert output.exit.cause is ExitCause.TOO_MUCH_DATA
    assert output.exit.wall_s < 10
    many = 'for i in 1 2 3 4; do truncate -s 12M "$HOME/$i"; done; sleep 3'
    assert run(target, many, limits=LIMITS).exit.cause is ExitCause.EXITED


DELETED = """
import os, time
home = os.environ["HOME"]
held = []
for number in range(400):
    file = open(f"{home}/{number}", "w+b", buffering=0)
    os.unlink(f"{home}/{number}")
    file.write(bytes(2 << 20))
    held.append(file)
time.sleep(20)
"""


def test_deleted_files_count_as_long_as_they_are_open(
    target: LocalProcessTarget, disk: Path
) -> None:
    ended = run(target, python(DELETED), limits=LIMITS)
    assert ended.exit.cause is ExitCause.TOO_MUCH_DATA, ended.exit
    assert "in deleted files that it has open" in ended.exit.detail
    assert ended.exit.wall_s < 10


INODES = """
import os
home = os.environ["HOME"]
for number in range(90_000):
    os.close(os.open(f"{home}/{number}", os.O_CREAT | os.O_WRONLY))
"""


def test_a_program_that_uses_up_the_inodes_is_ended(
    target: LocalProcessTarget, disk: Path
) -> None:
    ended = run(target, python(INODES), limits=LIMITS)
    assert ended.exit.cause is ExitCause.TOO_MUCH_DATA, ended.exit
    if os.geteuid() == 0:
        assert os.statvfs(disk).f_ffree > 10_000
    target.release(ended.handle)


DEEP = """
import os
os.chdir(os.environ["HOME"])
for _ in range(2000):
    os.mkdir("d")
    os.chdir("d")
import time; time.sleep(20)
"""


def test_a_tree_too_deep_to_be_measured_is_too_much(target: LocalProcessTarget) -> None:
    ended = run(target, python(DEEP), limits=LIMITS)
    assert ended.exit.cause is ExitCause.TOO_MUCH_DATA
    assert "nested more than" in ended.exit.detail
    target.release(ended.handle)
    assert not Path(target._root, layout.ATTEMPTS, ended.handle).exists()


def test_endless_reports_count_as_scratch(target: LocalProcessTarget) -> None:
    ended = run(target, 'exec cat /dev/zero >> "$ARL_REPORTS"', limits=LIMITS)
    assert ended.exit.cause is ExitCause.TOO_MUCH_DATA


def test_an_answerer_that_fills_the_disk_ends_its_attempt(
    target: LocalProcessTarget, disk: Path
) -> None:
    spec = attempt(
        "read -r answer <&5; sleep 20",
        kind=AttemptKind.EVALUATE,
        answerer=filling("$HOME"),
        limits=LIMITS,
    )
    ended = finish(target, target.launch(spec))
    assert ended.exit.cause is ExitCause.TOO_MUCH_DATA, ended.exit
    assert "resources.scratch" in ended.exit.detail
    target.release(ended.handle)


def test_what_stays_within_its_limits_is_left_alone(target: LocalProcessTarget) -> None:
    script = (
        'head -c 6000000 /dev/zero > "$ARL_OUTPUT/x"; head -c 12000000 /dev/zero > "$HOME/y"; '
        'for i in 1 2 3 4; do rm "$HOME/y"; head -c 12000000 /dev/zero > "$HOME/y"; '
        "sleep 0.3; done; ln $HOME/y $HOME/z; sleep 2.5"
    )
    ended = run(target, script, limits=LIMITS)
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 0), ended.exit


def test_a_program_is_ended_though_the_controller_is_gone(
    target: LocalProcessTarget, disk: Path
) -> None:
    """The subreaper enforces it: nobody asks meanwhile."""
    spec = attempt(filling("$HOME", wait_s=0.2), limits=LIMITS)
    attempt_directory = Path(target._root, layout.ATTEMPTS, target.launch(spec))
    wait_until(
        lambda: "exit" in (layout.read_record(str(attempt_directory)) or {}), "it is ended", 20.0
    )
    assert layout.read_record(str(attempt_directory))["exit"]["cause"] == "too_much_data"  # type: ignore[index]


def test_a_large_tree_costs_less_than_a_hundredth_of_a_processor(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / str(number)).mkdir()
        for file in range(200):
            (tmp_path / str(number) / str(file)).touch()
    quotas = [Quota("it", "a limit", 1 << 50, (str(tmp_path),), by_length=True)]
    started = time.process_time()
    watch = DiskWatch(str(tmp_path), quotas, time.monotonic())
    until = time.monotonic() + 6.0
    while (due := watch.due_at()) < until:
        time.sleep(max(due - time.monotonic(), 0.0))
        watch.find_excess(time.monotonic())
    busy = time.process_time() - started
    assert busy < 0.02 * 6.0, "twice the share that is meant: the machine is busy too"
