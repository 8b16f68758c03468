"""`kill -9` of the controller at every numbered fault point loses nothing and repeats nothing."""

import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import figures
from tests.acceptance.fault_points import Point
from tests.acceptance.fault_record import Record, Verdict
from tests.acceptance.fault_runs import (
    HERE,
    Kill,
    Place,
    kill_and_recover,
    kill_at_each,
    record,
    warm_up,
)

RECOVERY_LIMIT_S = 5.0
THIRD = 3
"""By default every third moment is tried: with -m slow every single point."""


@dataclass(frozen=True)
class Recorded:
    """What unfaulted runs show."""

    order: list[Point]
    """As one of them came by them."""
    points: list[Point]
    """Those that every one of them came by."""
    missed: list[str]
    outcome: dict[str, Any]


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    """In memory where possible: a killed process loses nothing of it, and a thousand runs fit."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    directory = Path(tempfile.mkdtemp(prefix="arl-faults-", dir=place))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def recorded(base: Path) -> Recorded:
    warm_up(base)
    return unfaulted(base, HERE)


def unfaulted(base: Path, place: Place) -> Recorded:
    """What two runs without a fault show."""
    points, missed, outcome = record(base, f"reference-{place.target}", place)
    again, _, outcome_again = record(base, f"again-{place.target}", place)
    assert outcome_again == outcome, "an unfaulted run is the same every time"
    # What only one of them came by (a commit more, say, on a slow disk) depends on timing.
    always = set(again)
    common = [point for point in points if point in always]
    assert len(common) >= 0.98 * len(points)
    return Recorded(points, common, missed, outcome)


def firsts(points: Sequence[Point]) -> list[Point]:
    """Where each identity is come by first."""
    return [point for point in points if point.occurrence == 0]


def of_each_moment(chosen: Sequence[Point], order: Sequence[Point]) -> list[Point]:
    """Without those just before a change that come right behind one just after a change: nothing
    outside the process happened between the two, so that a kill leaves the same behind."""
    there = set(chosen)
    repeats = {
        later
        for earlier, later in pairwise(order)
        if earlier in there
        and earlier.identity.startswith("after ")
        and later.identity.startswith("before ")
    }
    return [point for point in chosen if point not in repeats]


def test_fault_points_cover_every_change_the_interpreter_knows_of(
    recorded: Recorded,
) -> None:
    assert recorded.missed == []
    kinds = {point.identity.partition(" @ ")[0] for point in recorded.points}
    for change in ("commit", "create", "write", "replace", "rename", "unlink", "sendall", "spawn"):
        assert {f"before {change}", f"after {change}"} <= kinds


def test_the_fault_points_study_touches_everything(
    recorded: Recorded,
) -> None:
    outcome = recorded.outcome
    reasons = {(row[1], row[4]) for row in outcome["trials"]}
    assert {
        ("baseline", "measured"),
        ("search", "duplicate"),
        ("search", "exit_nonzero"),
        ("search", "better"),
        ("replay", "measured"),
    } <= reasons
    assert outcome["study"][:2] == ["completed", "space_exhausted"]
    assert [f[0] for f in outcome["families"]] == ["promoted"]
    assert len(outcome["incumbents"]) == 1
    verbs = [(verb, state) for verb, state in outcome["commands"]]
    assert verbs == [(v, "applied") for v in ("pause", "enqueue", "extend", "resume")]
    attempts = {row[0].partition("-")[2]: row for row in outcome["attempts"]}
    assert {row[2] for row in attempts.values()} >= {"evaluator_error", "exit_nonzero"}


@pytest.mark.timeout(1800)
def test_a_kill_at_any_of_the_fault_points_is_survived(base: Path, recorded: Recorded) -> None:
    chosen = of_each_moment(firsts(recorded.points), recorded.order)
    check(base, recorded, chosen[::THIRD], "a third of the first of each identity")


@pytest.mark.slow
@pytest.mark.timeout(6 * 3600)
def test_a_kill_at_every_single_one_of_the_fault_points_is_survived(
    base: Path, recorded: Recorded
) -> None:
    check(base, recorded, shuffled(recorded.points), "every point")


def shuffled(points: Sequence[Point]) -> list[Point]:
    """The same order every time, so that the verdicts of a run cut short are a fair sample."""
    return random.Random(2_024).sample(points, len(points))


def check(
    base: Path,
    recorded: Recorded,
    chosen: Sequence[Point],
    which: str,
    place: Place = HERE,
    *,
    kill: Kill = kill_and_recover,
    again: Sequence[int] = (),
) -> list[Verdict]:
    lanes = place.lanes or int(os.environ.get("ARL_FAULT_LANES", os.cpu_count() or 1))
    kept = Record(which)
    verdicts = kill_at_each(
        base, chosen, recorded.outcome, place, lanes=lanes, kept=kept, kill=kill, again=again
    )
    is_whole = len(verdicts) == len(chosen)
    report(recorded.points, verdicts, which if is_whole else f"{which}, cut short")
    bad = [f"{v.point.identity} #{v.point.occurrence}: {v.broken}" for v in verdicts if v.broken]
    assert bad == []
    assert all(v.reached for v in verdicts), "some points were skipped"
    times = [v.recovery_s for v in verdicts if v.recovery_s is not None]
    assert figures.p95(times) <= RECOVERY_LIMIT_S
    if not is_whole:
        pytest.skip(f"cut short: {len(verdicts)} of {len(chosen)} points were judged")
    assert {v.point for v in verdicts} == set(chosen)
    return verdicts


def report(existing: Sequence[Point], verdicts: Sequence[Verdict], which: str) -> None:
    """A row of docs/reliability.md."""
    told = Counter(line.partition(":")[0] for v in verdicts for line in v.broken)
    figures.publish(
        f"kill -9 at fault points: {which}",
        points=len(existing),
        identities=len({point.identity for point in existing}),
        injected=len(verdicts),
        reached=sum(v.reached for v in verdicts),
        lost=told["L"],
        duplicated=told["D"],
        overrun=told["B"],
        broken=told.total(),
        repeated_for_timing=sum(v.tries > 1 for v in verdicts),
        **figures.spread([v.recovery_s for v in verdicts if v.recovery_s is not None]),
    )
