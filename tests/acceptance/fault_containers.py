"""Fault points of the controller, and of the keeper that speaks to the engine, over containers."""

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from targets.docker_container import target as docker_target
from tests.acceptance import fault_points, fault_study, forked, promises
from tests.acceptance.container_lab import Leftovers
from tests.acceptance.fault_points import Point
from tests.acceptance.fault_record import Verdict
from tests.acceptance.fault_runs import TRIES, Place, judge
from tests.private_engine import Engine
from tests.target_runs import end_supervisor

EVENTS = "events"
JOURNAL = "keeper-journal"
PATIENCE_S = 20.0
SMALL: dict[str, Any] = {
    "budget": {"trials": 2},
    "noise": {"baseline_trials": 2},
    "promotion": None,
}
"""Of the study: two baselines, a trial that is served, and one that fails and is tried again."""


@dataclass(frozen=True)
class Containers(Place):
    """A private engine, whose own events say what was started."""

    target: str = "docker"
    lanes: int = 1
    """The study has one id in every run, and so have its containers."""
    engine: Engine = field(kw_only=True)
    before: Leftovers = field(kw_only=True)
    _listeners: dict[Path, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def new_home(self, base: Path, name: str) -> Path:
        home = Place.new_home(self, base, name)
        engine = {"ARL_TARGET": "docker", "DOCKER_HOST": self.engine.host, "ARL_CPUS": "8"}
        fault_study.settle(home, engine, SMALL)
        argv = ["docker", "--host", self.engine.host, "events", "--format", "{{json .}}"]
        since = f"{time.time():.6f}"
        with (home / EVENTS).open("wb") as file:
            self._listeners[home] = subprocess.Popen(
                [*argv, "--filter", "type=container", "--since", since],
                stdout=file,
                stderr=subprocess.DEVNULL,
            )
        return home

    def programs(self, home: Path) -> list[str]:
        """Names of the containers that were started, once for each time, by the engine."""
        until = time.monotonic() + PATIENCE_S
        while self._told(home, "destroy") != self._told(home, "create"):
            assert time.monotonic() < until, "the engine does not tell of every container's end"
            time.sleep(0.02)
        started = self._told(home, "start")
        assert started
        return started

    def _told(self, home: Path, action: str) -> list[str]:
        lines = (home / EVENTS).read_text().splitlines()
        told = [json.loads(line) for line in lines if line.endswith("}")]
        names = [one["Actor"]["Attributes"]["name"] for one in told if one["Action"] == action]
        return names if action == "start" else sorted(names)

    def leftovers(self, home: Path) -> list[str]:
        until = time.monotonic() + PATIENCE_S
        while found := [*Leftovers(self.engine).beyond(self.before), *_files(home)]:
            if time.monotonic() > until:
                break
            time.sleep(0.05)
        return [f"O: {what} is left" for what in found]

    def end(self, home: Path) -> None:
        for root in (home / ".arl").glob("docker*"):
            end_supervisor(root)
        listener = self._listeners.pop(home)
        listener.terminate()
        listener.wait()


def _files(home: Path) -> list[str]:
    places = [*(home / ".arl").glob("docker*/attempts"), home / ".arl" / "artifacts" / "incoming"]
    return [str(path) for place in places for path in place.glob("*")]


# --- the keeper ------------------------------------------------------------------------------


def instrument_keepers(home: Path, at: Point | int | None) -> None:
    """Have the first keeper that this process starts note its points, and die at one. For good."""
    journal = str(home / JOURNAL)
    where = (at.identity, at.occurrence) if isinstance(at, Point) else at
    docker_target._START = (  # type: ignore[misc]
        "import sys; sys.path.append(sys.argv[1]); "
        "from tests.acceptance.fault_keepers import be_keeper; "
        f"be_keeper({where!r}, {journal!r}, sys.argv)"
    )


def record_keeper(base: Path, name: str, place: Containers) -> tuple[list[Point], dict[str, Any]]:
    """The points of the keeper of one run without a fault, in order, and its outcome."""
    home = place.new_home(base, name)
    code = _live(home, base, None)
    assert code == 0, (home / "output").read_text()
    judged = judge(home, place)
    assert judged["broken"] == [], judged["broken"]
    points, missed = fault_points.read_journal(home / JOURNAL)
    assert missed == [], missed
    place.end(home)
    return points, judged["outcome"]


def kill_keeper(
    base: Path, point: Point, reference: dict[str, Any], place: Place, again: int = 0
) -> Verdict:
    """The keeper dies at its point, the controller lives: the verdict on that."""
    del again
    verdict = Verdict(point)
    while not verdict.reached and verdict.tries < TRIES:
        verdict.tries += 1
        home = place.new_home(base, f"run-{os.getpid()}-{time.monotonic_ns()}")
        code = _live(home, base, point)
        passed, _ = fault_points.read_journal(home / JOURNAL)
        verdict.reached = passed[-1] == point
        said = (home / "output").read_text()
        if code != 0 or "Traceback" in said:
            verdict.broken += [f"L: the controller ended with {code}: {said[-4000:]}"]
        else:
            judged = judge(home, place)
            verdict.broken += judged["broken"]
            verdict.broken += promises.differences(judged["outcome"], reference)
        place.end(home)
    return verdict


def _live(home: Path, base: Path, at: Point | None) -> int:
    def live() -> None:
        fault_study.hasten()
        instrument_keepers(home, at)
        fault_study.live_through(home, base)

    return forked.run(live, home / "output")


def kill_both(home: Path, base: Path, *, keeper_at: int, controller_at: int) -> bool:
    """Kill the keeper at that many of its points, later the controller at that many of its own,
    and have another one finish; whether both came so far."""

    def doomed() -> None:
        fault_study.hasten()
        instrument_keepers(home, keeper_at)
        fault_points.install(controller_at, home / "journal")
        fault_study.live_through(home, base)

    def recovering() -> None:
        fault_study.hasten()
        fault_study.live_through(home, base)

    died = forked.run(doomed, home / "output") == -signal.SIGKILL
    code = forked.run(recovering, home / "output")
    assert code == 0, (home / "output").read_text()
    points, _ = fault_points.read_journal(home / JOURNAL)
    return died and len(points) == keeper_at
