"""Why a study stops looking, each rule alone and against the others."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.decisions.stopping import StudyProgress, decide_stop
from ledger.records import BudgetLine, Resource
from ledger.search import FinishedTrial
from ledger.states import FaultClass, Reason, TrialState, fault_class
from tests.unit.controller.study_documents import COMMAND, changed, study

SPEC = study()
FRESH = StudyProgress(
    finished=(),
    best=None,
    baseline=None,
    live=0,
    exhausted=False,
    budgets={},
    durations=(),
    active_s=0.0,
)

OUTCOMES = {
    "k": (TrialState.COMPLETE, Reason.BETTER),
    "d": (TrialState.COMPLETE, Reason.WORSE),
    "p": (TrialState.PRUNED, Reason.PRUNED_MEDIAN),
    "f": (TrialState.FAILED, Reason.CRASHED),
    "e": (TrialState.FAILED, Reason.EVALUATOR_ERROR),
    "i": (TrialState.FAILED, Reason.LAUNCH_FAILED),
    "c": (TrialState.CANCELLED, Reason.CANCELLED_BY_OPERATOR),
}


def after(outcomes: str, **fields: object) -> StudyProgress:
    """Progress after trials with these outcomes, the latest last."""
    finished = [
        FinishedTrial(
            number=number,
            params={},
            state=OUTCOMES[letter][0],
            value=0.5 if letter in "kd" else None,
            reason=OUTCOMES[letter][1],
            candidate_id=f"c{number}",
            kept=letter == "k",
        )
        for number, letter in enumerate(outcomes)
    ]
    return replace(FRESH, finished=finished, **fields)  # type: ignore[arg-type]


def reason(progress: StudyProgress, **stop: object) -> Reason | None:
    spec = study(changed(COMMAND, **{f"stop__{key}": value for key, value in stop.items()}))
    decision = decide_stop(progress, spec)
    assert decision is None or decision.detail
    return None if decision is None else decision.reason


def test_a_fresh_study_goes_on() -> None:
    assert reason(FRESH) is None


# --- goal ---------------------------------------------------------------------------------------


def test_the_goal_is_reached_at_its_value_and_not_before() -> None:
    assert reason(after("k", best=0.95), goal=0.95) is Reason.GOAL_REACHED
    assert reason(after("k", best=0.949), goal=0.95) is None


def test_a_goal_of_a_loss_is_reached_from_above() -> None:
    spec = study(objective__direction="minimize", stop__goal=0.1)
    reached = decide_stop(after("k", best=0.1), spec)
    assert reached is not None
    assert reached.reason is Reason.GOAL_REACHED
    assert decide_stop(after("k", best=0.11), spec) is None


def test_a_baseline_that_meets_the_goal_needs_no_search() -> None:
    assert reason(replace(FRESH, baseline=0.97), goal=0.95) is Reason.GOAL_MET_BY_BASE


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_reaches_no_goal(value: float) -> None:
    assert reason(after("k", best=value), goal=0.95) is None


# --- failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("letter", ["f", "e", "i"])
def test_failures_in_a_row_stop_the_study_whoever_caused_them(letter: str) -> None:
    failing = {"consecutive_failures": 3, "failure_window": 100}
    assert reason(after("d" + letter * 2), **failing) is None
    assert reason(after("d" + letter * 3), **failing) is Reason.CONSECUTIVE_FAILURES


@pytest.mark.parametrize("good", ["k", "d", "p"])
def test_one_trial_that_worked_breaks_the_row(good: str) -> None:
    assert reason(after(f"ff{good}ff"), consecutive_failures=3, failure_window=100) is None


def test_a_cancelled_trial_neither_counts_nor_breaks_the_row() -> None:
    assert reason(after("ffcc"), consecutive_failures=3, failure_window=100) is None
    failing = reason(after("ffcfc"), consecutive_failures=3, failure_window=100)
    assert failing is Reason.CONSECUTIVE_FAILURES


def test_the_failure_rate_is_judged_over_a_full_window_only() -> None:
    window = {"failure_rate": 0.5, "failure_window": 4, "consecutive_failures": 100}
    assert reason(after("fdf"), **window) is None
    assert reason(after("fdfd"), **window) is Reason.FAILURE_RATE
    assert reason(after("fdfddd"), **window) is None
    assert reason(after("ffffffffdddf"), **window) is None


@pytest.mark.parametrize(("share", "failed", "of"), [(0.28, 14, 50), (0.55, 55, 100)])
def test_a_failure_rate_that_is_just_reached_counts(share: float, failed: int, of: int) -> None:
    """0.55 * 100 is a little more than 55."""
    rule = {"failure_rate": share, "failure_window": of, "consecutive_failures": 100}
    assert reason(after("f" * failed + "d" * (of - failed)), **rule) is Reason.FAILURE_RATE
    assert reason(after("f" * (failed - 1) + "d" * (of - failed + 1)), **rule) is None


# --- plateau ------------------------------------------------------------------------------------


def test_no_improvement_counts_trials_since_the_last_that_was_kept() -> None:
    assert reason(after("kdpd"), no_improvement=4) is None
    assert reason(after("kdpdf"), no_improvement=4) is Reason.NO_IMPROVEMENT
    assert reason(after("dddk"), no_improvement=4) is None


def test_a_candidate_that_never_had_its_chance_is_no_lack_of_improvement() -> None:
    assert reason(after("kdieicdc"), no_improvement=3) is None
    assert reason(after("kdieicdcd"), no_improvement=3) is Reason.NO_IMPROVEMENT


# --- space and budgets --------------------------------------------------------------------------


def trials(limit: float, spent: float, reserved: float = 0.0) -> dict[Resource, BudgetLine]:
    line = BudgetLine(
        resource=Resource.TRIALS, limit=limit, spent=spent, reserved=reserved, overrun=0.0
    )
    return {Resource.TRIALS: line}


def gpu(spent: float, reserved: float) -> dict[Resource, BudgetLine]:
    line = BudgetLine(
        resource=Resource.GPU_S, limit=7200.0, spent=spent, reserved=reserved, overrun=0.0
    )
    return {Resource.GPU_S: line}


def test_an_exhausted_space_ends_the_search() -> None:
    assert reason(replace(FRESH, exhausted=True)) is Reason.SPACE_EXHAUSTED


def test_the_last_trial_is_proposed_and_then_no_more() -> None:
    assert reason(replace(FRESH, budgets=trials(10, 9))) is None
    assert reason(replace(FRESH, budgets=trials(10, 9, 1), live=1)) is Reason.BUDGET_TRIALS


def test_a_budget_that_may_come_back_is_waited_for_while_trials_run() -> None:
    spec = study(resources={"gpus": 1, "wall_time": "1h"})
    running = replace(FRESH, budgets=gpu(100, 7000), live=1)
    assert decide_stop(running, spec) is None
    for over in (replace(running, live=0), replace(running, budgets=gpu(7000, 0))):
        decision = decide_stop(over, spec)
        assert decision is not None
        assert decision.reason is Reason.BUDGET_GPU_HOURS


def test_a_spent_wall_time_stops_the_search_while_trials_run() -> None:
    line = BudgetLine(resource=Resource.WALL_S, limit=60, spent=60, reserved=0, overrun=0)
    spent = replace(FRESH, budgets={Resource.WALL_S: line}, active_s=60.0, live=2)
    assert reason(spent) is Reason.BUDGET_WALL_TIME


# --- order --------------------------------------------------------------------------------------


def test_the_first_rule_that_holds_is_the_reason() -> None:
    everything = after("d" * 5 + "f" * 5, budgets=trials(10, 10), exhausted=True, best=1.0)
    everything = replace(everything, baseline=1.0)
    stops: dict[str, object] = {
        "goal": 1.0,
        "consecutive_failures": 5,
        "failure_window": 10,
        "no_improvement": 10,
    }
    order = []
    for relieve in (
        lambda p: replace(p, baseline=None),
        lambda p: replace(p, best=None),
        lambda p: stops.update(consecutive_failures=6) or p,
        lambda p: stops.update(failure_window=100) or p,
        lambda p: stops.update(no_improvement=100) or p,
        lambda p: replace(p, exhausted=False),
        lambda p: replace(p, budgets={}),
    ):
        order.append(reason(everything, **stops))
        everything = relieve(everything)
    assert order == [
        Reason.GOAL_MET_BY_BASE,
        Reason.GOAL_REACHED,
        Reason.CONSECUTIVE_FAILURES,
        Reason.FAILURE_RATE,
        Reason.NO_IMPROVEMENT,
        Reason.SPACE_EXHAUSTED,
        Reason.BUDGET_TRIALS,
    ]
    assert reason(everything, **stops) is None


@given(st.text(alphabet="kdpfeic", max_size=60))
def test_every_reason_given_holds_in_the_trials_it_was_given_for(outcomes: str) -> None:
    found = reason(after(outcomes), no_improvement=6, consecutive_failures=4, failure_window=8)
    counted = outcomes.replace("c", "")
    failed = sum(letter in "fei" for letter in counted[-8:])
    tried = counted.replace("e", "").replace("i", "")
    expected = None
    if len(counted) >= 4 and all(letter in "fei" for letter in counted[-4:]):
        expected = Reason.CONSECUTIVE_FAILURES
    elif len(counted) >= 8 and failed >= 4:
        expected = Reason.FAILURE_RATE
    elif len(tried) >= 6 and "k" not in tried[-6:]:
        expected = Reason.NO_IMPROVEMENT
    assert found is expected


def test_only_the_latest_trials_are_looked_at() -> None:
    class Counting(list[FinishedTrial]):
        looked = 0

        def __reversed__(self):  # type: ignore[no-untyped-def]
            for trial in super().__reversed__():
                self.looked += 1
                yield trial

    finished = Counting(after("d" * 5000 + "k").finished)
    assert reason(replace(FRESH, finished=finished), no_improvement=15) is None
    assert finished.looked < 100


def test_the_letters_of_these_tests_mean_what_they_say() -> None:
    assert fault_class(OUTCOMES["f"][1]) is FaultClass.CANDIDATE
    assert fault_class(OUTCOMES["e"][1]) is FaultClass.EVALUATOR
    assert fault_class(OUTCOMES["i"][1]) is FaultClass.INFRASTRUCTURE


def with_wrong_plans(outcomes: str) -> StudyProgress:
    """`f` is a trial whose plan was refused before anything ran."""
    progress = after(outcomes)
    refused = {"state": TrialState.FAILED, "reason": Reason.INVALID_PLAN}
    finished = [
        replace(trial, **refused) if trial.state is TrialState.FAILED else trial  # type: ignore[arg-type]
        for trial in progress.finished
    ]
    return replace(progress, finished=finished)


def test_a_wrong_plan_that_ran_nothing_is_no_sign_of_a_broken_study() -> None:
    half = with_wrong_plans("fd" * 20)
    assert reason(half, failure_rate=0.5, failure_window=10) is None
    assert reason(after("fd" * 20), failure_rate=0.5, failure_window=10) is Reason.FAILURE_RATE
    assert reason(with_wrong_plans("fffkfff"), no_improvement=1) is None
    assert reason(with_wrong_plans("kfdf"), no_improvement=1) is Reason.NO_IMPROVEMENT


def test_nothing_but_wrong_plans_ends_the_study() -> None:
    assert reason(with_wrong_plans("dff"), consecutive_failures=3) is None
    found = reason(with_wrong_plans("dfff"), consecutive_failures=3)
    assert found is Reason.CONSECUTIVE_FAILURES
