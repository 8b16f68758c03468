"""What bubblewrap's programs get of processors and GPUs, and what is said where they cannot."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ledger.artifacts import ArtifactStore
from ledger.errors import InvalidInput
from ledger.records import AttemptKind
from targets import sandbox
from targets.attempt_files import Side
from targets.bubblewrap import BubblewrapTarget
from targets.cgroups import find_places
from targets.local_promises import bubblewrap_promises
from targets.promises import Keeper, Subject
from targets.protocol import Limits
from targets.sandbox import Sandbox
from tests.target_runs import (
    attempt,
    bubblewrap_target,
    end_supervisor,
    finish,
    local_target,
    log_of,
    python,
    run,
    shell,
)
from tests.unit.targets.test_gpus import A, B, driver

SPIN = """
import os, threading, time
until = time.monotonic() + {for_s}
for _ in range({more}):
    if os.fork() == 0:
        break
while time.monotonic() < until:
    pass
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BubblewrapTarget]:
    base = tmp_path_factory.mktemp("limits")
    made = bubblewrap_target(base, ArtifactStore(base / "store"))
    yield made
    made.close()
    end_supervisor(base / "bubblewrap-root")


@pytest.mark.bubblewrap
def test_processor_time_is_limited_by_the_kernel_where_control_groups_can_be_made(
    target: BubblewrapTarget,
) -> None:
    places = find_places()
    said = bubblewrap_promises(places)[Subject.CPUS]
    if "cpu" not in places:
        assert said.kept_by is Keeper.NO
        return
    assert said.kept_by is Keeper.KERNEL
    ended = run(target, python(SPIN.format(for_s=2.0, more=3)), limits={"cpus": 0.3})
    assert ended.exit.cpu_s < 0.3 * ended.exit.wall_s + 0.25, "four that spin share a third"
    assert ended.exit.wall_s >= 2.0
    groups = [path for place in set(places.values()) for path in Path(place).glob("arl-*")]
    assert [path for path in groups if path.name.endswith(ended.handle)] == []


@pytest.mark.bubblewrap
def test_an_answerer_shares_the_processors_of_its_evaluator(target: BubblewrapTarget) -> None:
    if "cpu" not in find_places():
        return
    spin = python(SPIN.format(for_s=1.5, more=1))
    spec = attempt(
        spin, kind=AttemptKind.EVALUATE, answerer=spin, answerer_inputs={}, limits={"cpus": 0.3}
    )
    ended = finish(target, target.launch(spec))
    assert ended.exit.cpu_s < 0.3 * ended.exit.wall_s + 0.25


def side(base: Path, *gpu_ids: str) -> Side:
    return Side(
        program=shell("exit 0"),
        directory=str(base),
        seen="/arl",
        checkouts={},
        is_answerer=False,
        network=False,
        limits=Limits(timeout_s=1.0, gpu_ids=gpu_ids),
    )


def argv_with(base: Path, *gpu_ids: str) -> list[str]:
    found = {"argv": ["/bin/sh"], "cwd": "/", "env": {"CUDA_VISIBLE_DEVICES": ",".join(gpu_ids)}}
    made = Sandbox(str(base), driver=driver(base / "driver"))
    argv: list[str] = made.enclose(found, side(base, *gpu_ids), "arl-x")["argv"]
    return argv


def visible(argv: list[str]) -> str:
    return argv[argv.index("CUDA_VISIBLE_DEVICES") + 1]


def test_a_program_sees_the_devices_of_its_gpus_and_their_uuids(tmp_path: Path) -> None:
    argv = argv_with(tmp_path, "1", "0")
    shown = {path for path in argv if path.startswith("/dev/nvidia")}
    assert shown == {
        *("/dev/nvidia0", "/dev/nvidia3"),
        *("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"),
    }
    assert visible(argv) == f"{B},{A}"


def test_an_index_means_the_gpu_that_nvidia_smi_counts_so_for_plain_processes_too(
    tmp_path: Path,
) -> None:
    made = local_target(tmp_path)
    mine = shell(
        "echo $CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES", CUDA_DEVICE_ORDER="FASTEST_FIRST"
    )
    with_one = run(made, mine, limits={"gpu_ids": ("2",)})
    assert log_of(made, with_one.handle) == "PCI_BUS_ID 2\n"
    without = run(made, shell('echo "${CUDA_DEVICE_ORDER-unset}$CUDA_VISIBLE_DEVICES"'))
    assert log_of(made, without.handle) == "unset\n"
    made.close()
    end_supervisor(Path(made._root))


def test_a_program_without_a_gpu_sees_no_device_of_one(tmp_path: Path) -> None:
    argv = argv_with(tmp_path)
    assert [path for path in argv if "nvidia" in path] == []
    assert visible(argv) == ""


def test_a_gpu_that_is_not_here_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"gpu '7': this machine has 0 \(GPU-"):
        argv_with(tmp_path, "7")


@pytest.mark.bubblewrap
def test_a_launch_with_an_unknown_gpu_leaves_nothing(target: BubblewrapTarget) -> None:
    spec = attempt("exit 0", limits={"gpu_ids": ("99",)})
    with pytest.raises(InvalidInput, match="gpu '99': this machine has"):
        target.launch(spec)
    assert target.list_owned(spec.owner) == [
        found for found in target.list_owned(spec.owner) if found.name != spec.name
    ]
    again = replace(spec, limits=Limits(timeout_s=10.0))
    assert finish(target, target.launch(again)).exit.code == 0


def test_a_filter_that_was_made_before_is_used_again(tmp_path: Path) -> None:
    made = Sandbox(str(tmp_path))
    found = {"argv": ["/bin/sh"], "cwd": "/", "env": {}}
    first = made.enclose(found, side(tmp_path), "arl-a")["opens"]
    written = {path: os.stat(path).st_ino for _, path in first}
    assert made.enclose(found, side(tmp_path), "arl-b")["opens"] == first
    assert {path: os.stat(path).st_ino for path in written} == written
    assert [name for name in os.listdir(tmp_path) if name.startswith("seccomp")] == [
        Path(path).name for path in written
    ]


@pytest.mark.bubblewrap
def test_every_program_runs_under_the_filter_also_an_answerer(target: BubblewrapTarget) -> None:
    look = "grep Seccomp: /proc/self/status"
    spec = attempt(
        f'{look}; read -r answer <&5; echo "$answer"',
        kind=AttemptKind.EVALUATE,
        answerer=shell(look),
    )
    ended = finish(target, target.launch(spec))
    assert log_of(target, ended.handle).split() == ["Seccomp:", "2", "Seccomp:", "2"]
    assert sandbox.seccomp.filter_here() is not None
