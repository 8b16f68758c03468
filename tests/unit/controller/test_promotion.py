"""Who enters a family, and the last checks before a promotion."""

import math
from dataclasses import replace

import pytest

from controller.decisions.promotion import (
    PromotionFacts,
    Screened,
    choose_family,
    decide_promotion,
)
from ledger.records import Direction
from ledger.states import FamilyState, Reason

UP, DOWN = Direction.MAXIMIZE, Direction.MINIMIZE


def trials(**values: float | None) -> list[Screened]:
    return [Screened(candidate=c, value=v) for c, v in values.items()]


def chosen(
    screened: list[Screened],
    *,
    direction: Direction = UP,
    baseline: tuple[float, ...] = (0.4, 0.6),
    m: int = 2,
) -> list[str]:
    members = choose_family(
        screened, incumbent="base", baseline=baseline, direction=direction, m=m
    )
    return [member.candidate for member in members]


def test_the_best_screened_candidates_enter_in_order() -> None:
    assert chosen(trials(a=0.6, b=0.9, c=0.7, d=0.8)) == ["b", "d"]


def test_minimizing_takes_the_lowest() -> None:
    assert chosen(trials(a=0.1, b=0.3, c=0.2), direction=DOWN) == ["a", "c"]


def test_only_what_beats_the_baseline_is_worth_a_replay() -> None:
    assert chosen(trials(a=0.5, b=0.51, c=0.2)) == ["b"]
    assert chosen(trials(a=0.5, c=0.2)) == []


def test_failures_and_the_incumbent_never_enter() -> None:
    screened = trials(failed=None, nan=math.nan, inf=math.inf, base=0.99, good=0.6)
    assert chosen(screened) == ["good"]


def test_a_candidate_measured_twice_counts_with_its_mean() -> None:
    screened = [*trials(lucky=0.9, steady=0.75), *trials(lucky=0.5)]
    assert chosen(screened) == ["steady", "lucky"]


def test_equal_scores_go_in_the_order_of_proposing() -> None:
    assert chosen(trials(z=0.7, a=0.7, m=0.7)) == ["z", "a"]


def test_without_a_baseline_there_is_nothing_to_beat() -> None:
    assert chosen(trials(a=0.9), baseline=()) == []


def test_members_carry_their_screening_score_in_its_own_unit() -> None:
    members = choose_family(
        trials(a=0.1), incumbent="base", baseline=(0.5, 0.5), direction=DOWN, m=1
    )
    assert members[0].screening == 0.1


FACTS = PromotionFacts(
    family_state=FamilyState.PASSED,
    approval_required=False,
    approved=False,
    reported=False,
    allow_reported=False,
    family_incumbent="base",
    current_incumbent="base",
    family_bundle="b" * 64,
    current_bundle="b" * 64,
    comparison="c",
    incumbent_comparison=None,
    artifact_verified=True,
)


def test_a_passed_family_whose_facts_all_hold_is_promoted() -> None:
    decision = decide_promotion(FACTS)
    assert decision.allowed
    assert decision.reason is Reason.PROMOTED


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"family_state": FamilyState.OPEN}, Reason.NOT_CONFIRMED),
        ({"family_state": FamilyState.REFUSED}, Reason.NOT_CONFIRMED),
        ({"family_state": FamilyState.PROMOTED}, Reason.NOT_CONFIRMED),
        ({"reported": True}, Reason.NO_METRIC),
        ({"current_incumbent": "newer"}, Reason.INCUMBENT_MOVED),
        ({"incumbent_comparison": "other"}, Reason.INCUMBENT_MOVED),
        ({"current_bundle": "x" * 64}, Reason.BUNDLE_CHANGED),
        ({"current_bundle": ""}, Reason.BUNDLE_CHANGED),
        ({"current_bundle": "", "family_bundle": ""}, Reason.BUNDLE_CHANGED),
        ({"artifact_verified": False}, Reason.ARTIFACT_CORRUPT),
    ],
)
def test_whatever_does_not_hold_refuses_the_promotion(
    change: dict[str, object], reason: Reason
) -> None:
    decision = decide_promotion(replace(FACTS, **change))  # type: ignore[arg-type]
    assert not decision.allowed
    assert not decision.awaits_approval
    assert decision.reason is reason
    assert decision.detail


def test_a_reported_objective_is_promoted_only_on_the_studys_own_word() -> None:
    trusted = replace(
        FACTS, reported=True, allow_reported=True, family_bundle="", current_bundle=""
    )
    assert decide_promotion(trusted).allowed


def test_a_required_approval_is_waited_for_and_then_enough() -> None:
    asked = replace(FACTS, approval_required=True)
    waiting = decide_promotion(asked)
    assert not waiting.allowed
    assert waiting.awaits_approval
    approved = replace(asked, approved=True, family_state=FamilyState.AWAITING_APPROVAL)
    assert decide_promotion(approved).allowed


def test_an_approval_mends_nothing_else() -> None:
    approved = replace(FACTS, approval_required=True, approved=True, artifact_verified=False)
    decision = decide_promotion(approved)
    assert decision.reason is Reason.ARTIFACT_CORRUPT
    assert not decision.awaits_approval
