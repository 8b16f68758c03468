"""What the margin spares, and what it gives up: by what complete curves came to."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.pruning import (
    OtherCurve,
    PackedCurve,
    PrunerName,
    PrunerSettings,
    decide_pruning,
    pack_curve,
)
from evaluator.pruning_margin import are_items, may_still_win, running_means
from ledger.records import Direction
from ledger.states import Reason

UP = Direction.MAXIMIZE
HORIZON = 100
Points = list[tuple[int, float]]


def saturating(final: float, end: int = HORIZON, every: int = 2) -> Points:
    return [(s, final - 0.6 * math.exp(-8 * s / HORIZON)) for s in range(every, end + 1, every)]


def bloomer(middle: float, final: float = 0.7, end: int = HORIZON) -> Points:
    return [
        (s, final - 0.5 / (1 + math.exp((s / HORIZON - middle) / 0.03)))
        for s in range(2, end + 1, 2)
    ]


GOOD = [pack_curve(saturating(final)) for final in (0.60, 0.62, 0.58, 0.61, 0.59, 0.63)]
POOR = [pack_curve(saturating(final)) for final in (0.2, 0.22)]


def spares(curve: Points, finished: list[PackedCurve]) -> bool:
    return may_still_win(curve, finished, UP, HORIZON)


def test_a_stranger_runs_to_its_end_until_two_of_its_kind_are_known() -> None:
    poor = saturating(0.21, end=40)
    assert spares(poor, GOOD)
    assert spares(poor, [*GOOD, POOR[0]])
    assert not spares(poor, [*GOOD, *POOR])


def test_one_of_its_kind_that_rose_spares_those_that_look_like_it() -> None:
    assert not spares(bloomer(0.72, end=40), [*GOOD, *poor_plateaus()])
    assert spares(bloomer(0.72, end=40), [*GOOD, *poor_plateaus(), pack_curve(bloomer(0.7))])


def poor_plateaus() -> list[PackedCurve]:
    return [pack_curve([(s, level) for s in range(2, 101, 2)]) for level in (0.19, 0.2)]


def test_one_that_rose_earlier_spares_those_that_may_be_later() -> None:
    """It has risen already at this step; at four fifths of the way it looked the same."""
    risen = pack_curve(bloomer(0.48))
    flat = bloomer(0.8, end=50)
    assert not spares(flat, [*GOOD, *poor_plateaus()])
    assert spares(flat, [*GOOD, *poor_plateaus(), risen])
    assert not spares(bloomer(0.9, end=74), [*GOOD, *poor_plateaus(), risen])


def test_nothing_is_given_up_in_the_first_quarter_or_near_the_end() -> None:
    known = [*GOOD, *POOR]
    given_up = [end for end in range(2, 101, 2) if not spares(saturating(0.21, end=end), known)]
    assert min(given_up) >= 25
    assert max(given_up) < 90
    assert len(given_up) > 20


FEW_FINALS = (0.6, 0.62, 0.58, 0.61, 0.59, 0.63, 0.2, 0.22)


def test_few_reports_are_enough_where_others_report_as_rarely() -> None:
    known = [pack_curve(saturating(f, every=25)) for f in FEW_FINALS]
    assert not spares(saturating(0.21, end=50, every=25), known)
    assert spares(saturating(0.6, end=50, every=25), known)


def test_one_report_alone_can_be_enough() -> None:
    known = [pack_curve([(50, v), (100, v + 0.01)]) for v in FEW_FINALS]
    assert not spares([(50, 0.21)], known)
    assert spares([(50, 0.63)], known)


def test_equal_curves_are_never_given_up() -> None:
    flat = [(s, 0.5) for s in range(2, 101, 2)]
    assert all(spares(flat[:count], [pack_curve(flat)] * 9) for count in range(1, 50))


def test_a_nan_in_between_changes_no_decision() -> None:
    known = [*GOOD, *POOR]
    for final in (0.21, 0.61):
        curve = saturating(final, end=50)
        holed = [*curve[:5], (11, math.nan), *curve[5:]]
        found = [
            decide_pruning(PrunerSettings(name="power_law"), curve=c, finished=known, direction=UP)
            for c in (curve, holed)
        ]
        assert found[0] is found[1]


@pytest.mark.parametrize("name", ["median", "percentile", "asha", "wilcoxon", "power_law"])
@settings(max_examples=30)
@given(
    finals=st.lists(st.floats(0.1, 0.9), min_size=6, max_size=20),
    final=st.floats(0.1, 0.9),
    end=st.integers(1, 50),
)
def test_what_the_margin_spares_no_pruner_ends(
    name: PrunerName, finals: list[float], final: float, end: int
) -> None:
    known = [pack_curve(saturating(f)) for f in finals]
    curve = saturating(final, end=2 * end)
    reason = decide_pruning(
        PrunerSettings(name=name),
        curve=curve,
        finished=known,
        direction=UP,
        others=[OtherCurve(n, c, is_complete=True) for n, c in enumerate(known)],
        number=len(known),
    )
    assert reason is None or not spares(curve, known)


def test_a_rung_missed_under_the_margin_ends_the_trial_when_the_margin_ends() -> None:
    """At the first rung, before the first quarter, every trial is spared."""
    known = [*GOOD, *POOR]
    others = [OtherCurve(n, c, is_complete=True) for n, c in enumerate(known)]
    poor = saturating(0.21)
    ended = [
        poor[count - 1][0]
        for count in range(1, len(poor))
        if decide_pruning(
            PrunerSettings(name="asha"),
            curve=poor[:count],
            finished=known,
            direction=UP,
            others=others,
            number=8,
        )
        is Reason.PRUNED_ASHA
    ]
    assert 25 <= min(ended) < 33


# --- items ---------------------------------------------------------------------------------------


def item_scores(quality: float, seed: int) -> Points:
    rng = random.Random(seed)
    return [(step, quality + rng.gauss(0, 0.15)) for step in range(1, 41)]


def test_items_are_told_from_curves() -> None:
    assert are_items([pack_curve(item_scores(0.7, seed)) for seed in range(8)])
    assert not are_items(GOOD)
    assert not are_items(poor_plateaus())
    assert not are_items([])


def test_wilcoxon_judges_items_by_their_mean() -> None:
    good = [pack_curve(item_scores(0.7 + seed / 100, seed)) for seed in range(6)]
    known = [*good, pack_curve(item_scores(0.3, 7)), pack_curve(item_scores(0.32, 8))]
    poor, fine = item_scores(0.31, 9)[:20], item_scores(0.76, 10)

    def judge(curve: Points) -> Reason | None:
        settings = PrunerSettings(name="wilcoxon")
        return decide_pruning(settings, curve=curve, finished=known, direction=UP)

    assert judge(poor) is Reason.PRUNED_WILCOXON
    assert {judge(fine[:count]) for count in range(1, 40)} == {None}


def test_a_running_mean_ends_at_the_mean() -> None:
    assert running_means([(1, 1.0), (2, 0.0), (3, 2.0)]) == [(1, 1.0), (2, 0.5), (3, 1.0)]
