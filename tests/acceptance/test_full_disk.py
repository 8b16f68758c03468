"""A full disk pauses a study, saying so; nothing is half-written; it goes on by itself."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.api.metrics import Metrics
from controller.api.system_document import system_document
from controller.cli.doctor import disk_checks
from ledger import reads
from ledger.errors import DiskFull, LedgerUnavailable
from ledger.records import CommandVerb
from ledger.states import Reason, StudyState
from tests.acceptance import shell_study
from tests.acceptance.lab import Lab, train

MIB = 1024 * 1024
SIZE = 24 * MIB

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="mounting a small file system needs root"
)


def mount(place: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.strip()}")


@pytest.fixture
def small_disk(memory_path: Path) -> Iterator[Path]:
    """A file system of SIZE bytes where the lab's home will be."""
    place = memory_path / ".arl"
    place.mkdir()
    mount(place)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def full(small_disk: Path, lab: Lab) -> Lab:
    """A lab that pauses only when there is really no space."""
    lab.environment["ARL_DISK_MIN_FREE"] = "1"
    return lab


def fill(place: Path, left: int) -> Path:
    """Take all space but `left` bytes, whatever else is written meanwhile."""
    ballast = place / "ballast"
    taken = 0
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                taken += file.write(bytes(4096))
        except OSError:
            file.truncate(max(0, taken - left))
    return ballast


def test_low_space_pauses_before_anything_fails_and_more_space_resumes(
    small_disk: Path, lab: Lab
) -> None:
    lab.environment["ARL_DISK_MIN_FREE"] = str(4 * MIB)
    study_id = lab.submit(budget={"trials": 4})
    ballast = fill(small_disk, 3 * MIB)
    worker = lab.worker(study_id)
    lab.wait_for(lambda: lab.study(study_id).state is StudyState.PAUSED, "it pauses")
    study = lab.study(study_id)
    assert (study.reason, study.paused_by) == (Reason.DISK_FULL, "condition")
    assert str(4 * MIB) in study.detail
    ballast.unlink()
    assert worker.join() == 0
    assert lab.study(study_id).state is StudyState.COMPLETED
    assert len(lab.trials(study_id)) == 4


def test_a_little_more_space_than_is_wanted_is_waited_for(small_disk: Path, lab: Lab) -> None:
    lab.environment["ARL_DISK_MIN_FREE"] = "4MiB"
    study_id = lab.submit(budget={"trials": 3})
    ballast = fill(small_disk, 3 * MIB)
    worker = lab.worker(study_id)
    lab.wait_for(lambda: lab.study(study_id).state is StudyState.PAUSED, "it pauses")
    with ballast.open("r+b") as file:
        file.truncate(ballast.stat().st_size - 3 * MIB // 2)  # 4.5 MiB or so
    time.sleep(0.5)
    assert lab.study(study_id).state is StudyState.PAUSED
    ballast.unlink()
    assert worker.join() == 0
    assert len(lab.trials(study_id)) == 3
    moves = [e for e in lab.entries(study_id, "study_moved") if e.payload["new"] == "paused"]
    assert len(moves) == 1, "it did not stop and go"


@pytest.fixture
def ledger_disk(memory_path: Path) -> Iterator[Path]:
    """A file system of SIZE bytes for the ledger alone."""
    place = memory_path / "database"
    place.mkdir()
    mount(place)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_the_ledgers_own_disk_is_watched_too(ledger_disk: Path, lab: Lab) -> None:
    lab.environment["ARL_LEDGER"] = f"sqlite:///{ledger_disk / 'ledger.db'}"
    lab.environment["ARL_DISK_MIN_FREE"] = "25%"
    study_id = lab.submit(budget={"trials": 2})
    settings = shell_study.settings(lab.base, **lab.environment)
    assert [check.ok for check in disk_checks(settings)] == [True, True]
    ballast = fill(ledger_disk, 3 * MIB)
    assert [check.ok for check in disk_checks(settings)] == [True, False]
    worker = lab.worker(study_id)
    lab.wait_for(lambda: lab.study(study_id).state is StudyState.PAUSED, "it pauses")
    assert "the disk that holds the ledger" in lab.study(study_id).detail
    with lab.service() as service:
        found = Metrics(service).text().decode()
        (told,) = re.findall(r"^arl_ledger_disk_min_free_bytes (.*)$", found, re.MULTILINE)
        assert float(told) == SIZE / 4
        with service.ledger.read() as session:
            document = system_document(service, session)
    assert isinstance(document["ledger_disk"], dict)
    assert document["ledger_disk"]["is_low"] is True
    ballast.unlink()
    assert worker.join() == 0
    assert lab.study(study_id).state is StudyState.COMPLETED


GREEDY = (
    'head -c 20000 /dev/urandom > "$ARL_OUTPUT/w"; mkdir "$ARL_OUTPUT/model"; '
    'mv "$ARL_OUTPUT/w" "$ARL_OUTPUT/model/w"; '
)
"""Fails where there is no space, as a real program does."""


@pytest.mark.parametrize("left_kib", [0, 4, 12, 40, 90, 200])
def test_no_space_at_any_depth_loses_nothing_and_ends_by_itself_when_there_is_some(
    full: Lab, small_disk: Path, left_kib: int
) -> None:
    full.tolerated = "does not answer.*no space|No space left"
    program = train(every=f"set -e; {GREEDY}")
    program["argv"][2] = program["argv"][2].replace('mkdir "$ARL_OUTPUT/model"; echo', "echo")
    study_id = full.submit(
        program=program,
        budget={"trials": 10},
        noise={"baseline_trials": 4},
        retries={"candidate": 50, "evaluator": 50},
    )
    worker = full.worker(study_id)
    full.wait_for(lambda: full.trials(study_id), "the search begins")
    ballast = fill(small_disk, left_kib * 1024)
    full.wait_for(lambda: notices(full, study_id) or "no space" in worker.said(), "it notices")
    ballast.unlink()
    assert worker.join() == 0
    assert full.study(study_id).state is StudyState.COMPLETED
    assert len(full.trials(study_id)) == 10


def notices(lab: Lab, study_id: str) -> bool:
    """Whether the study is paused for want of space; a full disk may hide even that."""
    try:
        return lab.study(study_id).reason is Reason.DISK_FULL
    except (DiskFull, LedgerUnavailable):
        return True


def test_a_study_that_cannot_even_be_recorded_leaves_nothing_half_written(
    full: Lab, small_disk: Path
) -> None:
    full.submit(budget={"trials": 1})  # so that there is a ledger
    ballast = fill(small_disk, 0)
    with pytest.raises(DiskFull, match="space"):
        full.submit(budget={"trials": 1}, name="second")
    ballast.unlink()
    with full.service() as service, service.ledger.read() as session:
        known = [summary.study for summary in reads.list_studies(session)]
    assert [study.name for study in known] == ["shell"]
    full.drive(known[0].id)


def test_a_disk_that_fills_up_beside_an_idle_worker_is_waited_out(
    full: Lab, small_disk: Path
) -> None:
    full.tolerated = "does not answer.*no space"
    first = full.submit(budget={"trials": 1})
    worker = full.worker()
    full.wait_for(lambda: full.study(first).state is StudyState.COMPLETED, "the first ends")
    full.ask(first, CommandVerb.EXTEND, trials={"by": 2})
    ballast = fill(small_disk, 0)
    full.wait_for(lambda: notices(full, first) or "no space" in worker.said(), "it says so")
    ballast.unlink()
    full.wait_for(lambda: len(full.trials(first)) == 3, "it goes on")
    full.wait_for(lambda: full.study(first).state is StudyState.COMPLETED, "it ends")
