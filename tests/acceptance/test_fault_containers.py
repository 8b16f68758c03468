"""`kill -9` at fault points while trials run in containers: of the controller, and of the keeper
before and after every word that it says to the engine."""

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.container_lab import Leftovers, engine
from tests.acceptance.fault_containers import Containers, kill_both, kill_keeper, record_keeper
from tests.acceptance.fault_points import Point
from tests.acceptance.fault_runs import judge, record, warm_up
from tests.acceptance.test_fault_points import Recorded, check
from tests.private_engine import Engine

__all__ = ["engine"]
pytestmark = [pytest.mark.docker, pytest.mark.timeout(6 * 3600)]
SEED = 1_201
AT_THE_ENGINE = "targets/docker_container/calls.py"
KEEPER = "of the keeper, trials in containers"


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    directory = Path(tempfile.mkdtemp(prefix="arl-faults-", dir=place))
    warm_up(directory)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def place(base: Path, engine: Engine) -> Containers:
    """Its image is made by a first run."""
    first = Containers(engine=engine, before=Leftovers(engine))
    record(base, "first", first)
    return Containers(engine=engine, before=Leftovers(engine))


def unfaulted(*runs: tuple[list[Point], dict[str, Any]]) -> Recorded:
    """What every one of the runs came by: threads of a keeper take turns as it happens."""
    (points, outcome), *others = runs
    for again, outcome_again in others:
        assert outcome_again == outcome
        points = [point for point in points if point in set(again)]
    return Recorded(points, points, [], outcome)


@pytest.fixture(scope="module")
def controllers(base: Path, place: Containers) -> Recorded:
    runs = [record(base, name, place) for name in ("reference", "again")]
    assert [missed for _, missed, _ in runs] == [[], []]
    return unfaulted(*((points, outcome) for points, _, outcome in runs))


@pytest.fixture(scope="module")
def keepers(base: Path, place: Containers) -> Recorded:
    return unfaulted(*(record_keeper(base, name, place) for name in ("one", "two")))


def firsts(recorded: Recorded) -> list[Point]:
    """Of each identity the first, in a random order that is the same every time. All of them:
    between a word to the engine and the next change the engine has done something."""
    found = [point for point in recorded.points if point.occurrence == 0]
    return random.Random(SEED).sample(found, len(found))


def test_a_controller_and_its_keeper_killed_over_containers_lose_and_double_nothing(
    base: Path, docker_engine: Engine
) -> None:
    if docker_engine.directory is None:
        pytest.skip("docker: what a foreign engine leaves behind cannot be looked at")
    place = Containers(engine=docker_engine, before=Leftovers(docker_engine))
    home = place.new_home(base, "both")
    try:
        assert kill_both(home, base, keeper_at=100, controller_at=500)
        judged = judge(home, place)
    finally:
        place.end(home)
    assert judged["broken"] == []
    assert judged["outcome"]["study"][0] == "completed"


@pytest.mark.slow
def test_a_kill_of_the_keeper_at_any_of_its_points_is_survived(
    base: Path, place: Containers, keepers: Recorded
) -> None:
    asked = [p for p in keepers.points if AT_THE_ENGINE in p.identity]
    assert len({p.identity for p in asked}) > 20
    check(base, keepers, firsts(keepers), KEEPER, place, kill=kill_keeper)


@pytest.mark.slow
def test_a_kill_of_the_controller_at_any_of_its_points_over_containers_is_survived(
    base: Path, place: Containers, controllers: Recorded
) -> None:
    check(base, controllers, firsts(controllers), "trials in containers", place)
