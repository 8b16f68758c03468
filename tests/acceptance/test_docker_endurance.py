"""Containers by the hundred, and everything around them killed: nothing is left, lost or doubled.

Judged by the ledger, by what the engine told while it ran, and by what the machine shows.
"""

import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.records import Attempt, AttemptKind
from ledger.states import AttemptState, FaultClass, Reason, StudyState, TrialState, fault_class
from tests.acceptance.container_lab import (
    ContainerLab,
    engine,
    hurry,
    lab,
    open_lab,
    train,
    wait_for_container,
)
from tests.acceptance.test_full_disk import fill
from tests.private_engine import Engine, private_engine

__all__ = ["engine", "lab"]
pytestmark = pytest.mark.docker

BUSY = {"retries": {"infrastructure": 100}, "stop": {"consecutive_failures": 100}}
RANDOM = {
    "space": {"x": {"type": "float", "low": 0.0, "high": 1.0, "default": 0.1}},
    "proposer": {"name": "random"},
}


def most_at_once(lab: ContainerLab) -> int:
    """Containers that ran at the same time, as the engine saw it."""
    changes = [(e.at, 1) for e in lab.listener.of("start")]
    changes += [(e.at, -1) for e in lab.listener.of("die")]
    running = most = 0
    for _, change in sorted(changes):
        running += change
        most = max(most, running)
    return most


@pytest.mark.parametrize("trials", [30, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.timeout(3600)
def test_container_trials_leave_no_container_mount_cgroup_network_or_file_behind(
    lab: ContainerLab, trials: int
) -> None:
    study_id = lab.submit(budget={"trials": trials - 2}, parallel=4, **RANDOM)
    assert lab.drive(study_id).state is StudyState.COMPLETED
    attempts = lab.attempts(study_id)
    assert len(attempts) == 2 * trials, "a training and an evaluation each"
    assert {a.state for a in attempts} == {AttemptState.COLLECTED}
    lab.wait_for(lambda: len(lab.listener.of("destroy")) == 2 * trials, "all are deleted")
    for action in ("create", "start", "die", "destroy"):
        assert len({e.name for e in lab.listener.of(action)}) == 2 * trials
        assert len(lab.listener.of(action)) == 2 * trials
    assert 2 <= most_at_once(lab) <= 4
    assert lab.left() == []


def test_a_killed_controllers_container_goes_on_and_is_adopted(lab: ContainerLab) -> None:
    study_id = lab.submit(budget={"trials": 1}, program=train({0.1: "sleep 4; "}))
    name = f"arl-{study_id}-2.t-0"
    worker = lab.worker(study_id)
    wait_for_container(lab, name)
    for _ in range(3):
        worker.kill()
        time.sleep(0.3)
        assert name in lab.containers()
        worker = lab.worker(study_id)
        time.sleep(0.3)
    assert worker.join() == 0
    assert lab.trials(study_id)[0].value == 0.1
    (started,) = lab.listener.of("start", name)
    (died,) = lab.listener.of("die", name)
    assert (died.id, died.exit_code) == (started.id, 0)
    trained = [a for a in lab.attempts(study_id) if a.kind is AttemptKind.TRAIN]
    assert len(trained) == 3


def test_a_slot_is_free_again_when_a_killed_controllers_container_has_ended(
    lab: ContainerLab,
) -> None:
    lab.environment["ARL_CPUS"] = "1"
    study_id = lab.submit(
        budget={"trials": 3}, parallel=3, resources={"cpus": 1.0}, program=train(every="sleep 1; ")
    )
    worker = lab.worker(study_id)
    name = f"arl-{study_id}-2.t-0"
    wait_for_container(lab, name)
    worker.kill()
    lab.wait_for(lambda: lab.listener.of("die", name), "it ends without its controller")
    assert lab.drive(study_id).state is StudyState.COMPLETED
    assert [t.state for t in lab.trials(study_id)] == [TrialState.COMPLETE] * 3
    assert most_at_once(lab) == 1


@pytest.mark.parametrize(
    "victim",
    [
        pytest.param("controller", marks=pytest.mark.slow),
        pytest.param("keeper", marks=pytest.mark.slow),
        "both",
    ],
)
def test_kills_at_random_moments_start_no_container_twice_and_lose_no_trial(
    lab: ContainerLab, victim: str
) -> None:
    dice = random.Random(victim)
    study_id = lab.submit(
        budget={"trials": 8}, parallel=3, program=train(every="sleep 0.$(($$ % 7)); "), **BUSY
    )
    worker = lab.worker(study_id)
    kills = 0
    while not worker.ended() and kills < 12:
        time.sleep(dice.uniform(0.05, 0.6))
        if victim in ("keeper", "both"):
            kills += lab.kill_keeper()
        if victim in ("controller", "both"):
            worker.kill()
            worker = lab.worker(study_id)
            kills += 1
    assert worker.join() == 0
    assert kills >= 3
    assert [t.state for t in lab.trials(study_id)] == [TrialState.COMPLETE] * 8
    scored = [e.payload["trial_id"] for e in lab.entries(study_id, "trial_evaluated")]
    assert len(scored) == len(set(scored)) == 10
    lost = [a for a in lab.attempts(study_id) if a.reason is Reason.ATTEMPT_LOST]
    assert lost == [], "containers outlive whoever watches them"


def test_containers_live_through_an_engine_that_is_killed_and_restores_them(
    lab: ContainerLab, engine: Engine
) -> None:
    lab.tolerated = "does not answer|engine"
    study_id = lab.submit(budget={"trials": 2}, program=train({0.1: "sleep 5; "}), **BUSY)
    name = f"arl-{study_id}-2.t-0"
    worker = lab.worker(study_id)
    wait_for_container(lab, name)
    engine.kill()
    engine.start()
    assert worker.join() == 0
    assert [t.state for t in lab.trials(study_id)] == [TrialState.COMPLETE] * 2
    assert len(lab.listener.of("start", name)) == 1
    assert [a.state for a in trainings(lab, study_id, 2)] == [AttemptState.COLLECTED]


def test_what_a_killed_engine_ends_when_it_starts_is_infrastructure_and_tried_again(
    lab: ContainerLab, engine: Engine
) -> None:
    lab.tolerated = "does not answer|engine"
    study_id = lab.submit(budget={"trials": 2}, program=train({0.1: "sleep 8; "}), **BUSY)
    name = f"arl-{study_id}-2.t-0"
    worker = lab.worker(study_id)
    wait_for_container(lab, name)
    engine.kill()
    engine.start(live_restore=False)
    assert worker.join() == 0
    assert [t.state for t in lab.trials(study_id)] == [TrialState.COMPLETE] * 2
    first, again = trainings(lab, study_id, 2)
    assert first.reason is not None
    assert fault_class(first.reason) is FaultClass.INFRASTRUCTURE
    assert again.state is AttemptState.COLLECTED
    engine.terminate()
    engine.start()


def trainings(lab: ContainerLab, study_id: str, number: int) -> list[Attempt]:
    """The training attempts of one trial, in order."""
    trial_id = f"{study_id}-{number}"
    found = [a for a in lab.attempts(study_id) if a.trial_id == trial_id]
    return [a for a in found if a.kind is AttemptKind.TRAIN]


def test_a_container_removed_by_hand_is_infrastructure_and_tried_again(
    lab: ContainerLab, engine: Engine
) -> None:
    study_id = lab.submit(budget={"trials": 1}, program=train({0.1: "sleep 2; "}), **BUSY)
    name = f"arl-{study_id}-2.t-0"
    worker = lab.worker(study_id)
    wait_for_container(lab, name)
    subprocess.run(
        ["docker", "--host", engine.host, "rm", "--force", name], check=True, capture_output=True
    )
    assert worker.join() == 0
    assert lab.trials(study_id)[0].value == 0.1
    first, again = trainings(lab, study_id, 2)
    assert first.reason is not None
    assert fault_class(first.reason) is FaultClass.INFRASTRUCTURE
    assert again.state is AttemptState.COLLECTED


def test_an_engine_that_is_away_pauses_the_study_which_goes_on_by_itself(
    lab: ContainerLab, engine: Engine
) -> None:
    lab.tolerated = "does not answer|engine"
    study_id = lab.submit(budget={"trials": 2}, program=train({0.1: "sleep 5; "}), **BUSY)
    name = f"arl-{study_id}-2.t-0"
    worker = lab.worker(study_id)
    wait_for_container(lab, name)
    engine.kill()
    lab.wait_for(lambda: lab.study(study_id).state is StudyState.PAUSED, "it pauses")
    study = lab.study(study_id)
    assert (study.reason, study.paused_by) == (Reason.TARGET_UNAVAILABLE, "condition")
    assert f"Docker at {engine.host}" in (study.detail or "")
    engine.start()
    assert worker.join() == 0
    assert [t.state for t in lab.trials(study_id)] == [TrialState.COMPLETE] * 2
    assert len(lab.listener.of("start", name)) == 1, "it lived through that, too"
    moves = [e.payload["new"] for e in lab.entries(study_id, "study_moved")]
    assert moves.count("paused") == 1, "said once, not every time it is tried"


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system of 192 MiB, where private engines are made now."""
    place = Path(tempfile.mkdtemp(prefix="arl-small."))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=192m", "tmpfs", place], check=True)
    monkeypatch.setenv("TMPDIR", str(place))
    yield place
    subprocess.run(["umount", "-l", place], check=True)
    place.rmdir()


@pytest.fixture
def cramped(
    small_disk: Path, memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ContainerLab]:
    """A lab whose engine keeps its files on the small disk."""
    hurry(monkeypatch)
    with private_engine() as engine:
        yield from open_lab(memory_path, engine)


def test_an_engine_without_space_holds_the_study_which_goes_on_when_there_is_some(
    cramped: ContainerLab, small_disk: Path
) -> None:
    cramped.tolerated = "space|engine"
    study_id = cramped.submit(budget={"trials": 4}, program=train(every="sleep 0.5; "), **BUSY)
    worker = cramped.worker(study_id)
    cramped.wait_for(lambda: cramped.trials(study_id), "the search begins")
    ballast = fill(small_disk, 0)
    cramped.wait_for(lambda: cramped.study(study_id).state is StudyState.PAUSED, "it pauses", 60.0)
    study = cramped.study(study_id)
    assert (study.reason, study.paused_by) == (Reason.DISK_FULL, "condition")
    assert "no space left" in (study.detail or "")
    ballast.unlink()
    assert worker.join() == 0
    assert cramped.study(study_id).state is StudyState.COMPLETED
    assert [t.state for t in cramped.trials(study_id)] == [TrialState.COMPLETE] * 4
