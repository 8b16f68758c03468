"""Every pruner stops what is hopeless and spares what is good, in both directions."""

import math
import os
import subprocess
import sys
from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.pruning import measure
from evaluator.pruning import (
    REASONS,
    OtherCurve,
    PackedCurve,
    PrunerSettings,
    decide_pruning,
    pack_curve,
)
from evaluator.pruning_rungs import Rungs
from ledger.records import Direction
from ledger.states import FaultClass, Reason, fault_class

UP, DOWN = Direction.MAXIMIZE, Direction.MINIMIZE
HORIZON = 30
Points = list[tuple[int, float]]
BRACKET = [n for n in range(500) if Rungs(first=3, factor=3, horizon=HORIZON).bracket_of(n) == 0]
"""Numbers of trials that Hyperband compares with each other."""


def saturating(final: float, rate: float = 8.0, end: int = HORIZON) -> Points:
    return [(s, final - 0.6 * math.exp(-rate * s / HORIZON)) for s in range(1, end + 1)]


FINALS = (0.60, 0.62, 0.58, 0.61, 0.59, 0.63, 0.16, 0.18)
"""Known to the end: six good trials, and two poor ones, of whose like more may be ended."""

PRUNERS = {
    "median": PrunerSettings(name="median"),
    "percentile": PrunerSettings(name="percentile"),
    "asha": PrunerSettings(name="asha"),
    "hyperband": PrunerSettings(name="hyperband"),
    "threshold": PrunerSettings(name="threshold", lower=0.4, warmup_steps=10),
    "patient": PrunerSettings(name="patient", patience=8, wrapped="median"),
    "wilcoxon": PrunerSettings(name="wilcoxon"),
    "power_law": PrunerSettings(name="power_law"),
}
WRAPPED_REASON = {"patient": Reason.PRUNED_MEDIAN}


def judged(
    pruner: PrunerSettings,
    curve: Sequence[tuple[int, float]],
    direction: Direction = UP,
    finals: Sequence[float] = FINALS,
    *,
    packed: Sequence[PackedCurve] | None = None,
) -> Reason | None:
    """The first reason to stop while the curve's values arrive one by one."""
    sign = 1.0 if direction is UP else -1.0
    if sign < 0 and (pruner.lower is not None or pruner.upper is not None):
        lower, upper = pruner.lower, pruner.upper
        pruner = PrunerSettings(
            name=pruner.name,
            warmup_steps=pruner.warmup_steps,
            lower=None if upper is None else -upper,
            upper=None if lower is None else -lower,
        )
    if packed is None:
        packed = [pack_curve([(s, sign * v) for s, v in saturating(f)]) for f in finals]
    others = [OtherCurve(n, c, is_complete=True) for n, c in zip(BRACKET, packed, strict=False)]
    arrived = [(s, sign * v) for s, v in curve]
    for count in range(1, len(arrived) + 1):
        reason = decide_pruning(
            pruner,
            curve=arrived[:count],
            finished=packed,
            direction=direction,
            others=others,
            number=BRACKET[-1],
        )
        if reason is not None:
            return reason
    return None


@pytest.mark.parametrize("direction", [UP, DOWN])
@pytest.mark.parametrize("name", sorted(PRUNERS))
def test_what_is_hopeless_is_stopped_for_the_pruners_own_reason(
    name: str, direction: Direction
) -> None:
    hopeless = saturating(0.2, 20.0)
    if name == "patient":
        hopeless = [(s, 0.15) for s in range(1, HORIZON + 1)]
    expected = WRAPPED_REASON.get(name, REASONS[PRUNERS[name].name])
    assert judged(PRUNERS[name], hopeless, direction) is expected


@pytest.mark.parametrize("direction", [UP, DOWN])
@pytest.mark.parametrize("name", sorted(PRUNERS))
def test_what_is_good_runs_to_its_end(name: str, direction: Direction) -> None:
    assert judged(PRUNERS[name], saturating(0.70), direction) is None


def test_every_reason_is_one_pruners_and_nobodys_fault() -> None:
    assert len(set(REASONS.values())) == len(REASONS)
    assert {fault_class(reason) for reason in REASONS.values()} == {FaultClass.NONE}


@pytest.mark.parametrize("name", sorted(PRUNERS))
def test_the_same_curves_read_back_give_the_same_decisions(name: str) -> None:
    packed = [pack_curve(saturating(final)) for final in FINALS]
    again = [array("d", curve.tobytes()) for curve in packed]
    for final, rate in ((0.2, 20.0), (0.55, 6.0), (0.61, 3.0), (0.7, 8.0)):
        curve = saturating(final, rate)
        one = judged(PRUNERS[name], curve, packed=packed)
        assert judged(PRUNERS[name], curve, packed=again) is one


@pytest.mark.parametrize("name", sorted(PRUNERS))
@settings(max_examples=25)
@given(curve=st.lists(st.tuples(st.integers(), st.floats()), max_size=30))
def test_nothing_a_program_reports_can_raise(name: str, curve: Points) -> None:
    packed = [pack_curve(curve), *(pack_curve(saturating(final)) for final in FINALS)]
    found = judged(PRUNERS[name], curve, packed=packed)
    assert found in (None, Reason.NOT_FINITE, *REASONS.values())


@pytest.mark.parametrize("name", ["asha", "hyperband", "percentile", "wilcoxon"])
def test_nothing_is_compared_before_enough_trials_ended(name: str) -> None:
    assert judged(PRUNERS[name], saturating(0.2, 20.0), finals=FINALS[:4]) is None


# --- late bloomers -------------------------------------------------------------------------------


def late_bloomer() -> Points:
    return [(s, 0.2 if s < 18 else 0.75) for s in range(1, HORIZON + 1)]


@pytest.mark.parametrize("name", ["median", "percentile", "asha", "hyperband", "wilcoxon"])
def test_a_curve_that_rose_late_before_spares_those_that_may(name: str) -> None:
    known = [*(pack_curve(saturating(final)) for final in FINALS), pack_curve(late_bloomer())]
    curve = [(s, v + 0.01) for s, v in late_bloomer()]
    assert judged(PRUNERS[name], curve, packed=known) is None
    hasty = PrunerSettings(name=PRUNERS[name].name, margin="none")
    assert judged(hasty, curve, packed=known) is REASONS[hasty.name]


def test_patience_outlasts_a_plateau_that_is_shorter() -> None:
    patient = PrunerSettings(name="patient", patience=20, margin="none")
    assert judged(patient, late_bloomer()) is None
    hasty = PrunerSettings(name="patient", patience=10, margin="none")
    assert judged(hasty, late_bloomer()) is Reason.PRUNED_PATIENT


def test_progress_smaller_than_min_delta_is_none() -> None:
    creeping = [(s, 0.5 + s / 10_000) for s in range(1, HORIZON + 1)]
    bare = PrunerSettings(name="patient", patience=5, margin="none")
    assert judged(bare, creeping) is None
    strict = PrunerSettings(name="patient", patience=5, min_delta=0.01, margin="none")
    assert judged(strict, creeping) is Reason.PRUNED_PATIENT


def test_patience_needs_no_other_trial_unless_it_spares_what_may_win() -> None:
    flat = [(s, 0.2) for s in range(1, HORIZON + 1)]
    bare = PrunerSettings(name="patient", patience=5, margin="none")
    assert judged(bare, flat, finals=()) is Reason.PRUNED_PATIENT
    assert judged(PrunerSettings(name="patient", patience=5), flat, finals=()) is None
    assert judged(PrunerSettings(name="patient", patience=5), flat) is Reason.PRUNED_PATIENT
    best = [(s, 0.64) for s in range(1, HORIZON + 1)]
    assert judged(PrunerSettings(name="patient", patience=5), best) is None


# --- bounds --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "reason"), [(0.1, Reason.PRUNED_THRESHOLD), (0.5, None), (2.5, "above")]
)
def test_a_value_past_a_bound_ends_the_trial(value: float, reason: object) -> None:
    bounds = PrunerSettings(name="threshold", lower=0.2, upper=2.0, warmup_steps=3)
    expected = Reason.PRUNED_THRESHOLD if reason else None
    for direction in (UP, DOWN):
        found = decide_pruning(bounds, curve=[(3, value)], finished=[], direction=direction)
        assert found is expected
    early = decide_pruning(bounds, curve=[(2, value)], finished=[], direction=UP)
    assert early is None


# --- rungs ---------------------------------------------------------------------------------------


def at_rung(value: float, others: Sequence[OtherCurve], number: int = 9) -> Reason | None:
    pruner = PrunerSettings(
        name="asha", min_resource=4, reduction_factor=2, startup_trials=1, margin="none"
    )
    finished = [pack_curve([(4, 0.5), (16, 0.6)])]
    return decide_pruning(
        pruner,
        curve=[(1, 0.0), (4, value)],
        finished=finished,
        direction=UP,
        others=others,
        number=number,
    )


def other(number: int, points: Points, *, is_complete: bool = False) -> OtherCurve:
    return OtherCurve(number, pack_curve(points), is_complete=is_complete)


def test_pruned_and_running_trials_compete_for_a_rung_once_they_reached_it() -> None:
    pruned = [other(n, [(4, 0.1)]) for n in range(3)]
    assert at_rung(0.2, [other(5, [(4, 0.5), (16, 0.6)], is_complete=True)]) is Reason.PRUNED_ASHA
    assert at_rung(0.2, [other(5, [(4, 0.5), (16, 0.6)], is_complete=True), *pruned]) is None


def test_a_trial_that_has_not_reached_the_rung_yet_does_not_compete() -> None:
    before = [other(n, [(3, 0.9)]) for n in range(6)]
    assert at_rung(0.2, before) is None


def test_what_came_after_the_rung_does_not_count() -> None:
    """The others are judged by what they had at the rung, not by what became of them."""
    risen = [other(n, [(4, 0.1), (16, 0.9)], is_complete=True) for n in range(4)]
    assert at_rung(0.2, risen) is None


def test_a_trial_is_judged_once_at_each_rung() -> None:
    pruner = PrunerSettings(
        name="asha", min_resource=4, reduction_factor=2, startup_trials=1, margin="none"
    )
    finished = [pack_curve([(4, 0.5), (16, 0.6)])]
    rivals = [other(n, [(4, 0.5), (8, 0.1)]) for n in range(4)]
    curve = [(4, 0.9), (5, 0.0), (6, 0.0)]
    assert (
        decide_pruning(pruner, curve=curve, finished=finished, direction=UP, others=rivals) is None
    )
    curve = [*curve, (8, 0.0)]
    found = decide_pruning(pruner, curve=curve, finished=finished, direction=UP, others=rivals)
    assert found is Reason.PRUNED_ASHA


def test_hyperband_deals_every_bracket_and_its_later_ones_judge_later() -> None:
    rungs = Rungs(first=1, factor=3, horizon=27)
    assert [rungs.steps(bracket) for bracket in range(3)] == [[1, 3, 9], [3, 9], [9]]
    dealt = [rungs.bracket_of(number) for number in range(300)]
    shares = [dealt.count(bracket) / 300 for bracket in range(3)]
    assert shares == pytest.approx([9 / 18, 6 / 18, 3 / 18], abs=0.1)


def test_hyperband_compares_a_trial_with_its_bracket_alone() -> None:
    rungs = Rungs(first=3, factor=3, horizon=HORIZON)
    numbers = range(200)
    own = next(n for n in numbers if rungs.bracket_of(n) == 0)
    same = [n for n in numbers if rungs.bracket_of(n) == 0 and n != own]
    foreign = [n for n in numbers if rungs.bracket_of(n) == 1]
    pruner = PrunerSettings(
        name="hyperband", min_resource=3, startup_trials=1, horizon=HORIZON, margin="none"
    )
    finished = [pack_curve(saturating(0.6))]

    def decide(rivals: list[int]) -> Reason | None:
        return decide_pruning(
            pruner,
            curve=[(3, 0.2)],
            finished=finished,
            direction=UP,
            others=[other(n, [(3, 0.5), (9, 0.5)]) for n in rivals],
            number=own,
        )

    assert decide(foreign) is None
    assert decide(same) is Reason.PRUNED_HYPERBAND


# --- cost and quality ----------------------------------------------------------------------------


def test_optuna_is_not_imported_by_pruners_that_do_without() -> None:
    code = (
        "import sys, evaluator.pruning as p; from ledger.records import Direction as D\n"
        "c = p.pack_curve([(i, 1.0) for i in range(9)])\n"
        "for name in ('median', 'percentile', 'power_law', 'threshold', 'patient'):\n"
        "    s = p.PrunerSettings(name=name, lower=0.0, patience=1)\n"
        "    p.decide_pruning(s, curve=[(1, 0.5), (5, 0.1)], finished=[c] * 6,"
        " direction=D.MAXIMIZE)\n"
        "assert not {'optuna', 'numpy', 'scipy'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ}, check=False)
    assert done.returncode == 0


def test_the_margin_keeps_winners_that_a_bare_median_loses() -> None:
    spared = measure("median", "ordinary", studies=8, trials=60)
    bare = measure("median, no margin", "ordinary", studies=8, trials=60)
    assert spared.lost_beyond_noise < bare.lost_beyond_noise
    assert spared.saved > 0.35
