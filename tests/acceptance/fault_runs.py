"""Kills one run of the study at one point, lets a fresh process finish it, and judges that."""

import gc
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance import fault_points, fault_study, forked, promises
from tests.acceptance.fault_points import Point
from tests.acceptance.fault_record import Record, Verdict, left_of, line_of, verdict_of
from tests.acceptance.shell_study import drive, open_service, own_findings, submit, witness
from tests.target_runs import end_supervisor

TRIES = 8
"""How often a run that did not come by its point (a matter of timing) is repeated."""


def warm_up(base: Path) -> None:
    """Import and compile everything once here, so that no forked run has to."""
    home = base / "warm-up"
    home.mkdir()
    service = open_service(home)
    study_id = submit(service, base, budget={"trials": 1})
    drive(service, study_id)
    assert promises.broken(witness(service), []) == []
    assert own_findings(service) == []
    service.close()
    end_supervisor(home / ".arl" / "local")
    shutil.rmtree(home)
    gc.collect()
    gc.freeze()


@dataclass(frozen=True, slots=True)
class Place:
    """Where the study runs, and what holds its ledger."""

    target: str = "local"
    new_ledger: Callable[[], str] | None = None
    """Gives the address of an empty one; None: a SQLite file."""
    drop_ledger: Callable[[str], None] | None = None
    """Thousands of them at once slow a server down."""
    lanes: int = 0
    """How many runs may go on at once; 0: as many as are wanted."""

    def new_home(self, base: Path, name: str) -> Path:
        home = base / name
        home.mkdir()
        (home / "ran").touch()
        environment = {"ARL_TARGET": self.target}
        if self.new_ledger is not None:
            environment["ARL_LEDGER"] = self.new_ledger()
        fault_study.settle(home, environment)
        return home

    def programs(self, home: Path) -> list[str]:
        """The attempts whose programs were started, once for each time."""
        ran = (home / "ran").read_text().split()
        assert ran or (home / ".arl" / "bubblewrap").is_dir(), "programs say that they started"
        return ran

    def leftovers(self, home: Path) -> list[str]:
        """O: what is left of attempts and a witness of files and processes does not see."""
        del home
        return []

    def end(self, home: Path) -> None:
        """End what outlives controllers."""
        if self.drop_ledger is not None:
            self.drop_ledger(fault_study.settled_environment(home)["ARL_LEDGER"])
        for name in ("local", "bubblewrap"):
            if (home / ".arl" / name).is_dir():
                end_supervisor(home / ".arl" / name)


HERE = Place()
Kill = Callable[[Path, Point, dict[str, Any], Place, int], Verdict]
"""Kills at a point (below that base, with that outcome to be had, there) and judges; with a number
above 0 a second time, at so many points of the recovery."""


def record(
    base: Path, name: str, place: Place = HERE
) -> tuple[list[Point], list[str], dict[str, Any]]:
    """One run without a fault: its points in order, changes that no wrapper saw, its outcome."""
    home = place.new_home(base, name)

    def whole() -> None:
        fault_study.hasten()
        fault_points.install(None, home / "journal")
        fault_study.live_through(home, base)

    code = forked.run(whole, home / "output")
    assert code == 0, (home / "output").read_text()
    judged = judge(home, place)
    assert judged["broken"] == [], judged["broken"]
    points, missed = fault_points.read_journal(home / "journal")
    place.end(home)
    shutil.rmtree(home)
    return points, missed, judged["outcome"]


def kill_and_recover(
    base: Path, point: Point, reference: dict[str, Any], place: Place = HERE, again: int = 0
) -> Verdict:
    """The verdict on one point; with `again` the recovery is killed, too, at that many points."""
    verdict = Verdict(point)
    while not verdict.reached and verdict.tries < TRIES:
        verdict.tries += 1
        home = place.new_home(base, f"run-{os.getpid()}-{time.monotonic_ns()}")
        verdict.reached = _die_at(home, base, point)
        if verdict.reached:
            verdict.killed_again = bool(again) and _die_in_recovery(home, base, again)
            verdict.broken += _recover(home, base, reference, place, verdict)
        place.end(home)
        if not verdict.broken:
            shutil.rmtree(home)
    return verdict


def _die_at(home: Path, base: Path, point: Point) -> bool:
    """Run until the point; whether the process died there, by its own SIGKILL."""

    def doomed() -> None:
        fault_study.hasten()
        fault_points.install(point, home / "journal")
        fault_study.live_through(home, base)

    code = forked.run(doomed, home / "output")
    points, _ = fault_points.read_journal(home / "journal")
    if code == -signal.SIGKILL and points[-1] == point:
        return True
    assert code == 0, f"{code}\n{(home / 'output').read_text()}"
    return False


def _die_in_recovery(home: Path, base: Path, at: int) -> bool:
    """Whether it came that far; else it has recovered, and ended the study."""

    def doomed() -> None:
        fault_study.hasten()
        fault_points.install(at, home / "recovery")
        fault_study.live_through(home, base)

    return forked.run(doomed, home / "output") == -signal.SIGKILL


def _recover(
    home: Path, base: Path, reference: dict[str, Any], place: Place, verdict: Verdict
) -> list[str]:
    started_at = fault_study.now()

    def recovering() -> None:
        fault_study.hasten()
        fault_study.live_through(home, base)

    try:
        code = forked.run(recovering, home / "output")
    except TimeoutError as error:
        return [f"L: the recovery hangs: {error}: {(home / 'output').read_text()[-4000:]}"]
    said = (home / "output").read_text()
    if code != 0 or "Traceback" in said:
        return [f"L: the recovery ended with {code}: {said[-4000:]}"]
    judged = judge(home, place, started_at)
    verdict.recovery_s = judged["recovery_s"]
    return [*judged["broken"], *promises.differences(judged["outcome"], reference)]


def judge(home: Path, place: Place, started_at: float | None = None) -> dict[str, Any]:
    """In a process of its own, so that this one never has a ledger open when it forks."""

    def judging() -> None:
        service = fault_study.open_settled(home)
        judge = witness(service)
        left = place.leftovers(home)
        broken = [*promises.broken(judge, place.programs(home)), *own_findings(service), *left]
        outcome = promises.outcome(judge, fault_study.STUDY_ID)
        recovery_s = None
        if started_at is not None:
            recovery_s = fault_study.recovery_s(service, started_at)
        service.close()
        found = {"broken": broken, "outcome": outcome, "recovery_s": recovery_s}
        (home / "judged").write_text(json.dumps(found))

    code = forked.run(judging, home / "output")
    assert code == 0, (home / "output").read_text()
    judged: dict[str, Any] = json.loads((home / "judged").read_text())
    return judged


def kill_at_each(
    base: Path,
    points: Sequence[Point],
    reference: dict[str, Any],
    place: Place = HERE,
    *,
    lanes: int,
    kept: Record,
    kill: Kill = kill_and_recover,
    again: Sequence[int] = (),
) -> list[Verdict]:
    """Every point's verdict, those kept of earlier runs first; `lanes` runs go on at
    once. `again`: of each point, at how many points of its recovery that is killed, too."""
    found = [verdict for verdict in kept.known() if verdict.point in set(points)]
    twice_of = dict(zip(points, again or [0] * len(points), strict=True))
    left = left_of(points, found)
    pids = []
    for lane in range(lanes):
        results = base / f"verdicts-{lane}"

        def work(mine: list[Point] = left[lane::lanes], results: Path = results) -> None:
            with results.open("w") as file:
                for point in mine:
                    if kept.is_over():
                        break
                    twice = twice_of[point]
                    verdict = kill(base, point, reference, place, twice)
                    kept.add(verdict)
                    file.write(line_of(verdict))
                    file.flush()

        pids.append(forked.fork(work, base / f"lane-{lane}", watched=False))
    try:
        codes = [forked.join(pid, patience_s=6 * 3600.0) for pid in pids]
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    said = "".join((base / f"lane-{lane}").read_text() for lane in range(lanes))
    assert codes == [0] * lanes, said
    for lane in range(lanes):
        lines = (base / f"verdicts-{lane}").read_text().splitlines()
        found += [verdict_of(line) for line in lines]
    return found
