"""What the budgets still allow."""

import pytest

from controller.decisions.budgets import (
    WALL_GRACE_S,
    Admission,
    admission,
    attempt_timeout_s,
    may_admit,
)
from ledger.records import BudgetLine, Resource, TrialKind
from ledger.states import Reason
from tests.unit.controller.study_documents import study

SPEC = study()
GPU_SPEC = study(resources={"gpus": 2, "wall_time": "1h"})


def line(
    resource: Resource,
    limit: float | None,
    spent: float = 0.0,
    reserved: float = 0.0,
    overrun: float = 0.0,
) -> BudgetLine:
    return BudgetLine(
        resource=resource, limit=limit, spent=spent, reserved=reserved, overrun=overrun
    )


def allowed(
    *lines: BudgetLine, durations: tuple[float, ...] = (), active_s: float = 0.0, slots: int = 4
) -> Admission:
    budgets = {found.resource: found for found in lines}
    spec = GPU_SPEC if Resource.GPU_S in budgets else SPEC
    result = admission(slots, budgets, spec, durations, active_s)
    assert may_admit(slots, budgets, spec, durations, active_s) == result.count
    return result


def test_without_limits_everything_is_allowed() -> None:
    unlimited = [line(resource, None, spent=1e9) for resource in Resource]
    assert allowed(*unlimited) == Admission(count=4)


def test_reserved_trials_are_taken_already() -> None:
    assert allowed(line(Resource.TRIALS, 10, spent=5, reserved=3)).count == 2
    none = allowed(line(Resource.TRIALS, 10, spent=5, reserved=5))
    assert (none.count, none.reason, none.final) == (0, Reason.BUDGET_TRIALS, True)


def test_a_trial_that_cannot_fit_is_not_started() -> None:
    wall = line(Resource.WALL_S, 100)
    assert allowed(wall, durations=(5, 30, 90), active_s=70).count == 4
    refused = allowed(wall, durations=(5, 30, 90), active_s=70.5)
    assert (refused.count, refused.reason) == (0, Reason.BUDGET_WALL_TIME)
    assert refused.final
    assert "30 s" in refused.detail


def test_a_spent_wall_time_allows_nothing_even_before_any_trial_ended() -> None:
    wall = line(Resource.WALL_S, 100)
    assert allowed(wall, active_s=99.9).count == 4
    assert allowed(wall, active_s=100).count == 0


def test_a_running_attempt_is_cut_a_little_after_the_wall_time_ends() -> None:
    wall = line(Resource.WALL_S, 100)
    assert attempt_timeout_s(30, wall, 10) == 30
    assert attempt_timeout_s(30, wall, 90) == 10 + WALL_GRACE_S
    assert attempt_timeout_s(30, wall, 500) == WALL_GRACE_S
    assert attempt_timeout_s(30, None, 500) == 30
    assert attempt_timeout_s(30, line(Resource.WALL_S, None), 500) == 30


def test_a_replay_after_the_search_ran_out_of_time_keeps_its_own_limit() -> None:
    wall = line(Resource.WALL_S, 100)
    assert attempt_timeout_s(30, wall, 500, kind=TrialKind.REPLAY) == 30
    assert attempt_timeout_s(30, wall, 500, kind=TrialKind.BASELINE) == WALL_GRACE_S


def test_gpu_time_is_allowed_by_what_a_trial_may_take_at_most() -> None:
    # Two GPUs for an hour; mode reported has no evaluation of its own.
    assert allowed(line(Resource.GPU_S, 4 * 7200)).count == 4
    assert allowed(line(Resource.GPU_S, 4 * 7200, spent=1)).count == 3
    assert allowed(line(Resource.GPU_S, 4 * 7200, spent=7200, reserved=7200)).count == 2


def test_gpu_hours_that_are_just_enough_are_enough() -> None:
    """Hours are not always the seconds that they mean to the last bit."""
    spec = study(resources={"gpus": 3, "wall_time": "77s"})
    for trials in range(1, 200):
        hours = float(f"{trials * 3 * 77 / 3600:.12g}")
        budgets = {Resource.GPU_S: line(Resource.GPU_S, hours * 3600)}
        assert may_admit(1000, budgets, spec, (), 0.0) == trials, hours
    short = {Resource.GPU_S: line(Resource.GPU_S, 3 * 77 - 0.01)}
    assert may_admit(1000, short, spec, (), 0.0) == 0


def test_open_gpu_reservations_may_come_back_and_spent_ones_do_not() -> None:
    waiting = allowed(line(Resource.GPU_S, 7200, reserved=7200))
    assert (waiting.count, waiting.final) == (0, False)
    over = allowed(line(Resource.GPU_S, 7200, spent=100))
    assert (over.count, over.reason, over.final) == (0, Reason.BUDGET_GPU_HOURS, True)


def test_a_trial_without_gpus_needs_none_of_their_budget() -> None:
    budgets = {Resource.GPU_S: line(Resource.GPU_S, 1, spent=1)}
    assert may_admit(4, budgets, SPEC, (), 0.0) == 4


@pytest.mark.parametrize(
    ("resource", "reason"),
    [
        (Resource.LLM_TOKENS, Reason.BUDGET_LLM_TOKENS),
        (Resource.LLM_COST_USD, Reason.BUDGET_LLM_COST),
    ],
)
def test_model_budgets_stop_admission_when_they_are_used(
    resource: Resource, reason: Reason
) -> None:
    assert allowed(line(resource, 10, spent=9.9)).count == 4
    assert allowed(line(resource, 10, spent=10)).reason is reason
    assert allowed(line(resource, 10, spent=10)).final
    assert not allowed(line(resource, 10, spent=5, reserved=5)).final


@pytest.mark.parametrize("resource", list(Resource))
def test_an_overrun_of_any_budget_stops_admission_for_good(resource: Resource) -> None:
    over = allowed(line(resource, 1e6, spent=1, overrun=0.5))
    assert (over.count, over.final) == (0, True)


def test_a_budget_that_is_gone_for_good_is_named_before_one_that_may_come_back() -> None:
    lines = [line(Resource.GPU_S, 7200, reserved=7200), line(Resource.TRIALS, 3, spent=3)]
    for order in (lines, lines[::-1]):
        found = allowed(*order)
        assert (found.count, found.reason, found.final) == (0, Reason.BUDGET_TRIALS, True)


def test_the_tightest_budget_is_the_one_that_is_named() -> None:
    lines = (line(Resource.TRIALS, 2), line(Resource.WALL_S, 5), line(Resource.LLM_TOKENS, 100))
    assert allowed(*lines).reason is Reason.BUDGET_TRIALS
    assert allowed(*lines, active_s=5).reason is Reason.BUDGET_WALL_TIME
