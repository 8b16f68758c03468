"""What a study's retention lets go of, and what stays whatever it says."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.decisions.retention import (
    Ended,
    Needed,
    Saved,
    concerns,
    decide_retention,
)
from controller.spec.retention import parse_policy
from ledger.records import ArtifactRole, Direction, TrialKind
from ledger.retention_entries import ReleaseReason
from ledger.states import Reason, TrialState

VALUES = [0.3, 0.9, None, 0.1, 0.9, 0.5]


def saved(number: int, value: float | None, **changes: object) -> Saved:
    ended = Ended(
        number=number,
        kind=TrialKind.SEARCH,
        candidate_id=f"c{number}",
        state=TrialState.FAILED if value is None else TrialState.COMPLETE,
        reason=Reason.EVALUATOR_ERROR if value is None else Reason.WORSE,
        value=value,
        finish_seq=number + 1,
    )
    return Saved(
        attempt_id=f"t{number}.t-0",
        trial_id=f"t{number}",
        role=ArtifactRole.MODEL,
        digest=f"d{number}",
        size_bytes=10,
        ended=replace(ended, **changes),  # type: ignore[arg-type]  # fields of it
    )


ALL = [saved(number, value) for number, value in enumerate(VALUES)]


def gone(
    policy: str,
    held: list[Saved] = ALL,
    direction: Direction = Direction.MAXIMIZE,
    **needed: frozenset[str],
) -> dict[str, ReleaseReason]:
    needs = Needed(**needed)
    found = decide_retention(parse_policy(policy), held, needs, direction)
    return {one.saved.trial_id: one.reason for one in found}


def test_the_best_stay_and_the_first_of_equals() -> None:
    assert set(gone("best-1")) == {"t0", "t2", "t3", "t4", "t5"}
    assert set(gone("best-2")) == {"t0", "t2", "t3", "t5"}
    assert set(gone("best-2", direction=Direction.MINIMIZE)) == {"t1", "t2", "t4", "t5"}


def test_one_without_a_score_goes_and_says_so() -> None:
    found = gone("best-3")
    assert found["t2"] is ReleaseReason.WITHOUT_SCORE
    assert found["t3"] is ReleaseReason.NOT_AMONG_BEST


def test_a_candidate_that_broke_a_constraint_is_no_best_one() -> None:
    held = [saved(0, 0.9, reason=Reason.INFEASIBLE), saved(1, 0.1)]
    assert set(gone("best-1", held)) == {"t0"}


def test_the_last_is_the_one_that_finished_last() -> None:
    held = [saved(0, 0.3, finish_seq=9), saved(1, 0.9)]
    assert gone("last", held) == {"t1": ReleaseReason.NOT_THE_LAST}


def test_all_keeps_every_model_and_none_keeps_none() -> None:
    assert gone("all") == {}
    assert set(gone("none")) == {"t0", "t1", "t2", "t3", "t4", "t5"}


def test_nothing_of_a_trial_under_way_goes() -> None:
    assert gone("none", [replace(saved(0, 0.1), ended=None)]) == {}


def test_what_is_needed_stays() -> None:
    left = gone("none", candidates=frozenset({"c3"}), digests=frozenset({"d0"}))
    assert set(left) == {"t1", "t2", "t4", "t5"}


def test_a_resume_state_goes_with_the_end_of_its_trial() -> None:
    held = [
        replace(saved(0, 0.1), role=ArtifactRole.RESUME),
        replace(saved(1, 0.1), role=ArtifactRole.RESUME, ended=None),
    ]
    assert gone("all", held) == {"t0": ReleaseReason.TRIAL_OVER}
    assert gone("all", held, candidates=frozenset({"c0"})) == {}


def test_of_baselines_the_first_stays_and_replays_go() -> None:
    held = [
        saved(0, 0.1, kind=TrialKind.BASELINE, state=TrialState.FAILED),
        saved(1, 0.1, kind=TrialKind.BASELINE),
        saved(2, 0.1, kind=TrialKind.BASELINE),
        saved(3, 0.9, kind=TrialKind.REPLAY),
    ]
    assert gone("best-5", held) == {
        "t0": ReleaseReason.NOT_KEPT,
        "t2": ReleaseReason.NOT_KEPT,
        "t3": ReleaseReason.NOT_KEPT,
    }


@pytest.mark.parametrize("text", ["", "best", "best-0", "best-01", "best-10001", "Best-5", "3"])
def test_a_policy_that_is_none_says_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="write all, none, last or best-K"):
        parse_policy(text)


@given(
    st.lists(st.none() | st.floats(0, 1), max_size=12),
    st.integers(1, 5),
    st.sampled_from(Direction),
)
def test_letting_go_as_trials_end_leaves_what_letting_go_at_the_end_does(
    values: list[float | None], count: int, direction: Direction
) -> None:
    policy = parse_policy(f"best-{count}")
    at_once = [saved(number, value) for number, value in enumerate(values)]
    kept: list[Saved] = []
    for one in at_once:
        kept.append(one)
        for went in decide_retention(policy, kept, Needed(), direction):
            kept.remove(went.saved)
    last = {went.saved for went in decide_retention(policy, at_once, Needed(), direction)}
    assert kept == [one for one in at_once if one not in last]


@pytest.mark.parametrize("policy", ["all", "none", "last", "best-2"])
@pytest.mark.parametrize("role", list(ArtifactRole))
def test_what_a_policy_does_not_concern_never_goes_by_it(policy: str, role: ArtifactRole) -> None:
    held = [replace(one, role=role) for one in ALL]
    assert bool(gone(policy, held)) is concerns(parse_policy(policy), role)
