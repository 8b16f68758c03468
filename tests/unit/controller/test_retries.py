"""Whether an attempt is tried again, for every reason there is."""

import pytest

from controller.decisions.retries import FREE, LONGEST_DELAY_S, POINTLESS, decide_retry
from controller.spec.study import RetriesSpec
from ledger.records import TrialKind
from ledger.states import FaultClass, Reason, fault_class

LIMITS = RetriesSpec(infrastructure=3, evaluator=2, candidate=1)
GENEROUS = RetriesSpec(infrastructure=100, evaluator=100, candidate=100)


def retried(reason: Reason, failed: int, kind: TrialKind = TrialKind.SEARCH) -> bool:
    failures = {fault_class(reason): failed}
    return decide_retry(reason, failures, LIMITS, seed=1, kind=kind) is not None


@pytest.mark.parametrize("reason", [r for r in Reason if r not in FREE | POINTLESS])
def test_each_reason_is_retried_as_often_as_its_class_allows(reason: Reason) -> None:
    allowed = {
        FaultClass.INFRASTRUCTURE: 3,
        FaultClass.EVALUATOR: 2,
        FaultClass.CANDIDATE: 1,
    }.get(fault_class(reason), 0)
    assert [retried(reason, n) for n in range(1, 6)] == [n <= allowed for n in range(1, 6)]


@pytest.mark.parametrize("reason", sorted(POINTLESS))
def test_what_ends_the_same_way_every_time_is_not_retried(reason: Reason) -> None:
    assert not retried(reason, 1)


@pytest.mark.parametrize("reason", sorted(FREE))
def test_what_the_operator_took_away_is_tried_again_at_once_without_limit(reason: Reason) -> None:
    retry = decide_retry(reason, {FaultClass.OPERATOR: 50}, RetriesSpec(infrastructure=0), seed=1)
    assert retry is not None
    assert retry.delay_s == 0.0


def test_a_cancelled_trial_is_never_retried() -> None:
    assert not retried(Reason.CANCELLED_BY_OPERATOR, 1)


@pytest.mark.parametrize("kind", [TrialKind.BASELINE, TrialKind.REPLAY, TrialKind.CONVERSION])
def test_a_measured_trial_is_not_tried_until_it_works(kind: TrialKind) -> None:
    assert not retried(Reason.CRASHED, 1, kind)
    assert retried(Reason.ATTEMPT_LOST, 1, kind)
    assert retried(Reason.EVALUATOR_ERROR, 1, kind)


def test_failures_of_another_class_do_not_use_up_the_retries() -> None:
    failures = {FaultClass.CANDIDATE: 9, FaultClass.INFRASTRUCTURE: 1}
    assert decide_retry(Reason.ATTEMPT_LOST, failures, LIMITS, seed=1) is not None


def delays(seed: int) -> list[float]:
    found = []
    for failed in range(1, 20):
        failures = {FaultClass.INFRASTRUCTURE: failed}
        retry = decide_retry(Reason.ATTEMPT_LOST, failures, GENEROUS, seed=seed)
        assert retry is not None
        found.append(retry.delay_s)
    return found


def test_the_wait_doubles_up_to_a_minute() -> None:
    for n, delay_s in enumerate(delays(7)):
        longest = min(LONGEST_DELAY_S, 2.0**n)
        assert longest / 2 <= delay_s <= longest


def test_the_wait_depends_on_the_seed_alone() -> None:
    assert delays(1) == delays(1)
    assert delays(1) != delays(2)


def test_a_thousand_failures_do_not_overflow_the_wait() -> None:
    limits = GENEROUS.model_copy(update={"infrastructure": 10_000})
    failures = {FaultClass.INFRASTRUCTURE: 5000}
    retry = decide_retry(Reason.ATTEMPT_LOST, failures, limits, seed=1)
    assert retry is not None
    assert retry.delay_s <= LONGEST_DELAY_S
