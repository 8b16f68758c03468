"""Which running trials are stopped, and above all which are not."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.pruning import measure
from evaluator.pruning import (
    COMPARED_CURVES,
    CURVE_POINTS,
    PackedCurve,
    PrunerName,
    PrunerSettings,
    decide_pruning,
    pack_curve,
    thin_curve,
)
from ledger.records import Direction
from ledger.states import Reason

UP, DOWN = Direction.MAXIMIZE, Direction.MINIMIZE
HORIZON = 100


def saturating(final: float, rate: float = 8.0, end: int = HORIZON) -> list[tuple[int, float]]:
    return [(s, final - 0.6 * math.exp(-rate * s / HORIZON)) for s in range(2, end + 1, 2)]


GOOD = [pack_curve(saturating(final)) for final in (0.60, 0.62, 0.58, 0.61, 0.59, 0.63)]
POOR = [pack_curve(saturating(final)) for final in (0.2, 0.22)]
FINISHED = [*GOOD, *POOR]


def decide(
    curve: list[tuple[int, float]],
    name: PrunerName = "power_law",
    finished: list[PackedCurve] = FINISHED,
    **settings: object,
) -> Reason | None:
    direction = settings.pop("direction", UP)
    return decide_pruning(
        PrunerSettings(name=name, **settings),  # type: ignore[arg-type]
        curve=curve,
        finished=finished,
        direction=direction,  # type: ignore[arg-type]
    )


def test_a_curve_far_below_is_stopped_half_way() -> None:
    assert decide(saturating(0.3, end=50)) is Reason.PRUNED_FORECAST
    assert decide(saturating(0.3, end=50), "median") is Reason.PRUNED_MEDIAN


def test_a_curve_that_is_behind_now_but_will_win_is_not_stopped() -> None:
    """Pruning on what a curve shows now is what cancels eventual winners."""
    slow = [(s, 0.9 - 0.9 * math.exp(-2.5 * s / HORIZON)) for s in range(2, HORIZON + 1, 2)]
    slower = [pack_curve(c) for c in (slow, *(saturating(0.6 + i / 100) for i in range(5)))]
    for count in range(1, len(slow)):
        assert decide(slow[:count], finished=slower[1:] + slower[:1]) is None
    assert slow[10][1] < saturating(0.6)[10][1]


def test_none_stops_nothing_not_even_nan() -> None:
    assert decide([(1, math.nan)], "none") is None


@pytest.mark.parametrize("name", ["median", "power_law"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_stops_the_trial(name: PrunerName, value: float) -> None:
    assert decide([(1, 0.5), (2, value)], name, []) is Reason.NOT_FINITE


@pytest.mark.parametrize("name", ["median", "power_law"])
def test_an_earlier_nan_is_forgiven(name: PrunerName) -> None:
    good = saturating(0.64, end=50)
    assert decide([*good[:3], (7, math.nan), *good[3:]], name) is None


@pytest.mark.parametrize("name", ["median", "power_law"])
def test_nothing_is_stopped_before_warm_up_or_without_enough_to_compare(name: PrunerName) -> None:
    hopeless = saturating(0.1, end=50)
    assert decide(hopeless, name) is not None
    assert decide(hopeless, name, warmup_steps=51) is None
    assert decide(hopeless, name, startup_trials=9) is None
    assert decide(hopeless, name, FINISHED[:4]) is None
    assert decide([], name) is None


@settings(max_examples=80)
@given(st.lists(st.tuples(st.integers(), st.floats()), max_size=40))
def test_nothing_a_program_reports_can_raise(curve: list[tuple[int, float]]) -> None:
    odd = [pack_curve(thin_curve(curve)), *FINISHED]
    for name in ("median", "power_law"):
        found = decide(curve, name, odd, horizon=None)
        assert found in (None, Reason.NOT_FINITE, Reason.PRUNED_MEDIAN, Reason.PRUNED_FORECAST)


@pytest.mark.parametrize("value", [1e308, -1e308, 1e200])
def test_a_value_beyond_all_use_counts_as_not_finite(value: float) -> None:
    assert decide([(1, 0.5), (2, value)], finished=[]) is Reason.NOT_FINITE
    assert len(pack_curve([(1, value), (2, 0.5)])) == 2


def test_too_few_points_or_curves_are_no_forecast() -> None:
    hopeless = saturating(0.1, end=50)
    assert decide(hopeless[-4:], margin="none") is None
    for margin in ("auto", "none"):
        assert decide(hopeless, finished=FINISHED[-3:], startup_trials=1, margin=margin) is None


def test_no_forecast_is_made_when_little_is_left_to_save() -> None:
    assert decide(saturating(0.3, end=90)) is None


def test_the_horizon_defaults_to_the_furthest_step_seen() -> None:
    hopeless = saturating(0.1, end=50)
    assert decide(hopeless, horizon=None) is Reason.PRUNED_FORECAST
    assert decide(hopeless, horizon=1000) is None


def test_curves_that_rose_late_before_protect_those_that_may_rise_late() -> None:
    late = [
        (s, 0.7 - 0.5 / (1 + math.exp((s / HORIZON - 0.6) / 0.03)))
        for s in range(2, HORIZON + 1, 2)
    ]
    assert decide(late[:15], finished=[*FINISHED, pack_curve(late)]) is None


@given(
    final=st.floats(0.2, 0.8),
    end=st.integers(2, 90),
    name=st.sampled_from(["median", "power_law"]),
)
def test_minimizing_is_the_mirror_image(final: float, end: int, name: PrunerName) -> None:
    curve = saturating(final, end=end)
    down = [(s, -v) for s, v in curve]
    mirrored = [
        pack_curve([(int(p[i]), -p[i + 1]) for i in range(0, len(p), 2)]) for p in FINISHED
    ]
    assert decide(curve, name) == decide(down, name, mirrored, direction=DOWN)


def test_half_the_compute_is_saved_and_no_winner_lost_on_ordinary_curves() -> None:
    row = measure("power_law", "ordinary", studies=3, trials=100)
    assert row.winners_lost == 0.0
    assert row.saved > 0.45


def test_the_median_shows_why_the_forecast_is_made_at_the_horizon() -> None:
    assert measure("median, no margin", "adverse", studies=20, trials=40).winners_lost > 0.1


# --- curves ------------------------------------------------------------------------------------


def test_a_short_curve_is_kept_as_it_is() -> None:
    curve = saturating(0.5, end=20)
    assert thin_curve(curve) == curve


def test_a_thinned_curve_keeps_its_course_and_its_last_point() -> None:
    curve = [(s, s / 1000) for s in range(1000)]
    thinned = thin_curve(curve)
    assert len(thinned) <= CURVE_POINTS
    assert thinned[-1] == (999, 0.999)
    assert all(value == pytest.approx(step / 1000, abs=0.001) for step, value in thinned)
    assert [s for s, _ in thinned] == sorted(s for s, _ in thinned)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(), st.floats()), min_size=1, max_size=80),
    st.integers(2, CURVE_POINTS),
)
def test_thinning_any_curve_bounds_it_and_keeps_the_last_word(
    curve: list[tuple[int, float]], points: int
) -> None:
    thinned = thin_curve(curve, points)
    assert len(thinned) <= points
    assert thinned[-1] is curve[-1]


def test_a_curve_thinned_as_it_grows_stays_bounded_and_true() -> None:
    rng = random.Random(0)
    curve: list[tuple[int, float]] = []
    for step in range(20_000):
        curve.append((step, step / 20_000 + rng.gauss(0, 0.001)))
        if len(curve) > 2 * CURVE_POINTS:
            curve = thin_curve(curve)
    assert len(curve) <= 2 * CURVE_POINTS
    assert all(value == pytest.approx(step / 20_000, abs=0.02) for step, value in curve)


def test_a_finished_curve_takes_half_a_kilobyte() -> None:
    packed = pack_curve([(s, float(s)) for s in range(100_000)])
    assert len(packed) * packed.itemsize <= 512
    assert len(pack_curve([(1, math.nan)])) == 0


def test_only_the_latest_curves_are_compared_with() -> None:
    """So that a look costs the same after five thousand trials."""
    poor = [pack_curve(saturating(0.2)) for _ in range(COMPARED_CURVES)]
    curve = saturating(0.3, end=50)
    assert decide(curve, "median", [*FINISHED * 40]) is Reason.PRUNED_MEDIAN
    assert decide(curve, "median", [*FINISHED * 40, *poor]) is None
