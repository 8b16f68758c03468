"""Screening keeps what beats the leader by more than the noise."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.decisions.screening import decide_screening
from ledger.records import Decision, Direction, Verdict
from ledger.states import Reason

UP, DOWN = Direction.MAXIMIZE, Direction.MINIMIZE


def screen(value: float | None, leader: float | None = 0.5, **changes: object) -> Decision:
    settings: dict[str, object] = {
        "leader_value": leader,
        "leader_id": "leader" if leader is not None else None,
        "baseline": (0.4, 0.42),
        "noise_floor": 0.02,
        "direction": UP,
    }
    return decide_screening(value=value, **(settings | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "verdict", "reason"),
    [
        (0.53, Verdict.KEEP, Reason.BETTER),
        (0.52, Verdict.DISCARD, Reason.TIE),
        (0.50, Verdict.DISCARD, Reason.TIE),
        (0.48, Verdict.DISCARD, Reason.TIE),
        (0.47, Verdict.DISCARD, Reason.WORSE),
        (math.nan, Verdict.DISCARD, Reason.NOT_FINITE),
        (math.inf, Verdict.DISCARD, Reason.NOT_FINITE),
        (None, Verdict.DISCARD, Reason.NOT_FINITE),
    ],
)
def test_only_more_than_the_margin_above_the_leader_is_kept(
    value: float | None, verdict: Verdict, reason: Reason
) -> None:
    decision = screen(value)
    assert (decision.verdict, decision.reason) == (verdict, reason)


def test_exactly_the_margin_is_a_tie_whatever_the_rounding() -> None:
    for tenth in range(1, 10):
        leader = tenth / 10
        assert screen(leader + 0.02, leader).reason is Reason.TIE
        assert screen(leader - 0.02, leader).reason is Reason.TIE


def test_the_first_leader_is_the_mean_of_the_baseline() -> None:
    decision = screen(0.44, None)
    assert decision.verdict is Verdict.KEEP
    assert decision.compared_with is None
    assert screen(0.425, None).reason is Reason.TIE


@pytest.mark.parametrize("baseline", [(), (0.4,)])
def test_nothing_is_kept_without_a_noise_floor(baseline: tuple[float, ...]) -> None:
    assert screen(0.99, None, baseline=baseline).verdict is Verdict.DISCARD
    assert screen(0.99, 0.5, baseline=baseline).verdict is Verdict.DISCARD


def test_without_noise_any_gain_is_kept_but_rounding_is_none() -> None:
    assert screen(0.3, 0.1 + 0.2, noise_floor=0.0).reason is Reason.TIE
    assert screen(0.1 + 0.2, 0.3, noise_floor=0.0).reason is Reason.TIE
    assert screen(0.3001, 0.3, noise_floor=0.0).verdict is Verdict.KEEP


@given(st.floats(-10, 10), st.floats(-10, 10), st.floats(0, 1))
def test_minimizing_is_the_mirror_image(value: float, leader: float, floor: float) -> None:
    up = screen(value, leader, noise_floor=floor)
    down = screen(-value, -leader, noise_floor=floor, direction=DOWN)
    assert (up.verdict, up.reason) == (down.verdict, down.reason)


def test_the_decision_says_what_it_compared() -> None:
    decision = screen(0.6)
    assert decision.compared_with == "leader"
    assert decision.margin == decision.noise_floor == 0.02
