"""What is known of candidates is the same whether their trials are packed away or not."""

import random

from controller.steps.candidates import Candidates, Known, answers
from ledger.finished_trials import BLOCK, FinishedTrials
from ledger.search import FinishedTrial
from ledger.states import Reason, TrialState

ENDS = (
    (TrialState.COMPLETE, Reason.WORSE),
    (TrialState.COMPLETE, Reason.DUPLICATE),
    (TrialState.FAILED, Reason.CRASHED),
    (TrialState.PRUNED, Reason.PRUNED_MEDIAN),
)


def history(count: int, candidates: int) -> FinishedTrials:
    rng, found = random.Random(5), FinishedTrials()
    for number in range(count):
        state, reason = rng.choice(ENDS)
        found.append(
            FinishedTrial(
                number=number,
                params={"p": number},
                state=state,
                value=rng.random() if state is TrialState.COMPLETE else None,
                reason=reason,
                candidate_id=f"s1-c{rng.randrange(candidates)}",
                kept=False,
            )
        )
    return found


def as_set(finished: FinishedTrials) -> dict[str, Known | None]:
    """One by one."""
    found: dict[str, Known | None] = {}
    for trial in finished:
        if found.setdefault(trial.candidate_id, None) is None and answers(trial):
            found[trial.candidate_id] = Known(trial.number, trial.value)
    return found


def test_a_candidate_is_found_in_the_history() -> None:
    finished = history(BLOCK + 400, 4 * BLOCK)
    expected, candidates = as_set(finished), Candidates()
    again = candidates.look_up_in(finished)
    ids = [trial.candidate_id for trial in finished]
    assert again == {hash(one) for one in ids if ids.count(one) > 1}
    for one, known in expected.items():
        if hash(one) in again:
            candidates[one] = known
    for number in range(4 * BLOCK):
        one = f"s1-c{number}"
        assert (one in candidates) == (one in expected)
        assert candidates.get(one) == expected.get(one)


def test_what_is_set_counts_more_than_the_history() -> None:
    finished, candidates = history(BLOCK, 10 * BLOCK), Candidates()
    candidates.look_up_in(finished)
    told = next(trial for trial in finished if answers(trial))
    assert candidates.setdefault(told.candidate_id, None) == Known(told.number, told.value)
    assert candidates.entered(told.candidate_id) is None
    candidates[told.candidate_id] = Known(7, 7.0)
    assert candidates[told.candidate_id] == Known(7, 7.0)
