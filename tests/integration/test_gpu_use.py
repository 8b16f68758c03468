"""A GPU whose memory an ended trial still holds is not leased; a program plays nvidia-smi."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.clock import SystemClock
from controller.decisions.slots import ResourcePool
from controller.steps.capacity import Capacity
from targets import gpu_use
from targets.gpu_use import GpuUse, find_unclean, is_leftover, parse_users
from targets.gpus import find_gpus
from tests.unit.controller.study_documents import study
from tests.unit.targets.test_gpus import A, B, C, driver


class Smi:
    """A program of that name first in the path, which says what the test says."""

    def __init__(self, place: Path) -> None:
        self._answer = place / "answer"
        self._asked = place / "asked"
        script = place / "nvidia-smi"
        script.write_text(f'#!/bin/sh\necho "$@" >> {self._asked}\ncat {self._answer}\n')
        script.chmod(0o755)
        self.say()

    def say(self, *lines: str) -> None:
        self._answer.write_text("".join(f"{line}\n" for line in lines))

    def asked(self) -> list[str]:
        return self._asked.read_text().splitlines() if self._asked.exists() else []


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Smi:
    monkeypatch.setattr(gpu_use, "_FRESH_S", 0.0)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return Smi(tmp_path / "bin")


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that an attempt started and nobody ended."""
    code = [sys.executable, "-c", "import time; time.sleep(60)"]
    process = subprocess.Popen(code, env={"ARL_ATTEMPT": "arl-left"})
    yield process
    process.kill()
    process.wait()


def gone() -> int:
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    return process.pid


def test_the_answer_is_read_by_uuid_and_what_is_no_process_is_skipped() -> None:
    answer = f"{A}, 12\n{A}, 13\n{B}, [N/A]\nNo running processes found\n\n{C},14\n"
    assert parse_users(answer) == {A: (12, 13), C: (14,)}
    assert parse_users("") == {}


def test_only_what_trials_left_makes_a_gpu_unclean(tmp_path: Path) -> None:
    gpus = find_gpus(driver(tmp_path))
    users = {A: (12, 13), B: (14,)}
    assert find_unclean(["0", "1", "2"], gpus, users, lambda pid: pid == 13) == {"0": (13,)}
    assert find_unclean([B], gpus, users, lambda pid: True) == {B: (14,)}
    assert find_unclean([], gpus, users, lambda pid: True) == {}


def test_a_process_that_is_gone_or_an_attempts_is_a_leftover_and_a_strangers_is_none(
    sleeper: "subprocess.Popen[bytes]",
) -> None:
    assert is_leftover(gone())
    assert is_leftover(sleeper.pid)
    assert not is_leftover(os.getpid())
    zombie = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    assert is_leftover(zombie.pid)
    zombie.wait()


def test_a_gpu_is_free_again_once_nobody_holds_its_memory_and_who_does_is_told_once(
    smi: Smi, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    use = GpuUse(driver=driver(tmp_path / "driver"))
    dead = gone()
    smi.say(f"{A}, {dead}", f"{B}, {os.getpid()}")
    with caplog.at_level(logging.WARNING, logger="arl.worker"):
        assert use.find_unclean(["0", "1", "2"]) == {"0"}
        assert use.find_unclean(["0", "1", "2"]) == {"0"}
    assert len(caplog.records) == 1
    assert f"gpu 0 is not given to the next trial yet: process {dead}" in caplog.text
    smi.say(f"{B}, {os.getpid()}")
    assert use.find_unclean(["0", "1", "2"]) == frozenset()
    assert "--query-compute-apps=gpu_uuid,pid" in smi.asked()[0]


def test_nothing_is_asked_where_there_are_no_gpus(smi: Smi, tmp_path: Path) -> None:
    assert GpuUse(driver=str(tmp_path / "none")).find_unclean(["0"]) == frozenset()
    assert GpuUse(driver=driver(tmp_path / "driver")).find_unclean([]) == frozenset()
    assert smi.asked() == []


def test_a_machine_that_cannot_be_asked_leases_as_before(smi: Smi, tmp_path: Path) -> None:
    use = GpuUse(driver=driver(tmp_path / "driver"))
    Path(tmp_path, "bin", "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    assert use.find_unclean(["0"]) == frozenset()
    Path(tmp_path, "bin", "nvidia-smi").unlink()
    assert use.find_unclean(["0"]) == frozenset()


def test_the_next_trial_gets_another_gpu_or_waits(smi: Smi, tmp_path: Path) -> None:
    pool = ResourcePool(cpus=8, memory_bytes=1, gpu_ids=("0", "1"))
    use = GpuUse(driver=driver(tmp_path / "driver"))
    capacity = Capacity(pool, SystemClock(), gpu_use=use)
    for gpus in (0, 1, 2):
        capacity.enter(f"wants-{gpus}", study(resources={"gpus": gpus, "cpus": 1}), [], None)
    smi.say(f"{A}, {gone()}")
    first = capacity.take("wants-1", "t1")
    assert first is not None
    assert first.gpu_ids == ("1",)
    capacity.give_back("wants-1", "t1")
    assert capacity.take("wants-2", "t2") is None
    asked = len(smi.asked())
    assert capacity.take("wants-0", "t0") is not None
    assert len(smi.asked()) == asked, "a trial without a GPU asks nobody"
    smi.say()
    free = capacity.take("wants-2", "t2")
    assert free is not None
    assert free.gpu_ids == ("0", "1")
