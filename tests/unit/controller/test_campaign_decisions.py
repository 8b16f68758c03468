"""What a campaign does next follows from what is recorded of it, and from the clock."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.decisions.campaigns import (
    CampaignState,
    decide_alarm,
    decide_forgetting,
    decide_study,
    fold_campaign,
    is_held_out,
    is_shifted,
    prompt_digest,
)
from controller.spec.campaign import Action, CampaignSpec, RollbackSpec, ShiftSpec
from evaluator.shift import Stability, compare_prompts, stability_index
from ledger.campaign_entries import (
    CampaignAlarm,
    CampaignEntry,
    CampaignFailed,
    CampaignRolledBack,
    CampaignSet,
    CampaignStopped,
    CampaignStudyEnded,
    CampaignStudySubmitted,
    ExperienceTakenIn,
    SliceMeasured,
)
from ledger.campaigns import check_campaigns
from ledger.errors import InvalidInput
from ledger.records import Direction, Incumbent

HOUR = 3600.0


def spec(**schedule: Any) -> CampaignSpec:
    return CampaignSpec.model_validate(
        {
            "name": "live",
            "model": "adder",
            "study": "study.yaml",
            "server": {"url": "http://127.0.0.1:1"},
            "experience": {"inbox": "inbox"},
            "schedule": {"studies": 2, **schedule},
        }
    )


def taken(number: int, training: int) -> ExperienceTakenIn:
    return ExperienceTakenIn(
        campaign="live",
        number=number,
        source="a.jsonl",
        source_digest=f"{number:064x}",
        tree="t",
        training=training,
        held_out=0,
        without_consent=0,
        invalid=0,
        duplicates=0,
        problems=(),
    )


def submitted(number: int, study: int, after: int) -> CampaignStudySubmitted:
    return CampaignStudySubmitted(
        campaign="live",
        number=number,
        study_id=f"s{study}",
        study=study,
        records=1,
        rows=1,
        after=after,
    )


def ended(number: int, study: int, promotion: int | None = None) -> CampaignStudyEnded:
    return CampaignStudyEnded(
        campaign="live",
        number=number,
        study_id=f"s{study}",
        state="completed",
        promotion=promotion,
    )


def alarm(number: int, action: Action = Action.ROLL_BACK) -> CampaignAlarm:
    return CampaignAlarm(
        campaign="live",
        number=number,
        alarm="forgetting",
        detail="it fell",
        action=str(action),
        promotion=2,
        back_to=1,
    )


def folded(*entries: CampaignEntry, every: float = HOUR) -> CampaignState:
    """Each an hour after the one before."""
    return fold_campaign((entry, every * place) for place, entry in enumerate(entries))


def test_a_study_waits_for_new_records() -> None:
    assert not decide_study(folded(), spec(), HOUR).starts
    state = folded(taken(1, 4))
    assert decide_study(state, spec(min_new=5), HOUR).why == "4 of 5 new records to train on"
    assert decide_study(state, spec(min_new=4), HOUR).starts


def test_records_that_a_study_saw_are_not_new_for_the_next() -> None:
    state = folded(taken(1, 4), submitted(2, 1, after=1), taken(3, 3), ended(4, 1))
    assert state.new_records == 3
    assert not decide_study(state, spec(min_new=4), 100 * HOUR).starts


def test_a_study_waits_for_its_time_and_says_when_it_comes() -> None:
    state = folded(taken(1, 4), submitted(2, 1, after=1), taken(3, 3), ended(4, 1))
    wanted = spec(every=6 * HOUR)
    decision = decide_study(state, wanted, 6.9 * HOUR)
    assert (decision.starts, decision.at) == (False, 7 * HOUR)
    assert decide_study(state, wanted, 7 * HOUR).starts


def test_one_study_at_a_time_and_no_more_than_the_campaign_may() -> None:
    running = folded(taken(1, 4), submitted(2, 1, after=1), taken(3, 3))
    assert running.running == "s1"
    assert "under way" in decide_study(running, spec(), 100 * HOUR).why
    two = folded(submitted(1, 1, 0), ended(2, 1), submitted(3, 2, 0), ended(4, 2), taken(5, 9))
    assert "all 2 studies" in decide_study(two, spec(), 100 * HOUR).why


def test_nothing_starts_while_a_way_back_is_open_or_after_a_stop() -> None:
    state = folded(taken(1, 4), alarm(2))
    assert not decide_study(state, spec(), 100 * HOUR).starts
    settled = CampaignRolledBack(campaign="live", number=3, alarm=2, pointer=3, detail="")
    assert decide_study(folded(taken(1, 4), alarm(2), settled), spec(), 100 * HOUR).starts
    told = folded(taken(1, 4), alarm(2, Action.TELL))
    assert told.pending is None
    stopped = CampaignStopped(campaign="live", number=2, actor="ann", note="")
    assert "stopped by ann" in decide_study(folded(taken(1, 4), stopped), spec(), HOUR).why


def test_a_failure_is_over_once_something_is_done_again() -> None:
    failed = CampaignFailed(campaign="live", number=1, step="serve", detail="gone")
    assert folded(failed).failed == failed
    assert folded(failed, taken(2, 1)).failed is None


def test_measurements_under_another_evaluator_are_others() -> None:
    settings = CampaignSet(
        campaign="live",
        number=1,
        model="adder",
        document={},
        bundle_digest="b1",
        slices={"basics": "tree"},
        actor="ann",
    )
    measured = SliceMeasured(
        campaign="live",
        number=2,
        slice="basics",
        slice_digest="tree",
        artifact_digest="art",
        served_as="adder@art",
        value=0.5,
        items_digest="i",
        answers_digest="a",
        against="",
        comparison={},
        forgotten=False,
    )
    again = replace(measured, number=4)
    state = folded(settings, measured, replace(settings, number=3, bundle_digest="b2"), again)
    assert set(state.measured) == {("b1", "tree", "art"), ("b2", "tree", "art")}


# --- which side a prompt is on -----------------------------------------------------------------


@given(st.text(), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_who_is_held_out_under_a_share_is_under_any_larger_one(
    prompt: str, one: float, other: float
) -> None:
    digest = prompt_digest(prompt)
    small, large = sorted((one, other))
    assert not is_held_out(digest, small) or is_held_out(digest, large)


def test_about_the_share_of_prompts_is_held_out() -> None:
    held_out = sum(is_held_out(prompt_digest(f"prompt {i}"), 0.1) for i in range(5000))
    assert 430 <= held_out <= 570


# --- alarms ------------------------------------------------------------------------------------


def test_a_fall_rings_when_it_is_too_large_and_beyond_chance() -> None:
    old = [1.0] * 90 + [0.0] * 10
    fallen = decide_forgetting(
        [0.0] * 20 + old[20:], old, direction=Direction.MAXIMIZE, max_drop=0.1
    )
    assert fallen.forgotten
    assert fallen.comparison["drop"] == pytest.approx(0.2)
    assert 0.1 < float(str(fallen.comparison["low95"])) < 0.2
    assert float(str(fallen.comparison["high95"])) > 0.2
    small = decide_forgetting([0.0] * 5 + old[5:], old, direction=Direction.MAXIMIZE, max_drop=0.1)
    assert not small.forgotten
    few = decide_forgetting(
        [0.0, 1.0, 1.0], [1.0, 1.0, 1.0], direction=Direction.MAXIMIZE, max_drop=0
    )
    assert not few.forgotten, "one of three items shows nothing"


def test_less_is_better_where_the_objective_says_so() -> None:
    old, new = [1.0 + i / 100 for i in range(50)], [2.0 + i / 100 for i in range(50)]
    assert decide_forgetting(new, old, direction=Direction.MINIMIZE, max_drop=0.5).forgotten
    assert not decide_forgetting(new, old, direction=Direction.MAXIMIZE, max_drop=0.5).forgotten
    assert not decide_forgetting(old, old, direction=Direction.MINIMIZE, max_drop=0).forgotten


def pointer(seq: int, candidate: str, rolled_back_to: int | None = None) -> Incumbent:
    return Incumbent(
        model="adder",
        seq=seq,
        candidate_id=candidate,
        study_id="s",
        family_id="f",
        comparison="c",
        approver="gate",
        note="",
        created_at=float(seq),
        rolled_back_to=rolled_back_to,
    )


def test_the_way_back_is_to_what_was_served_before() -> None:
    history = [pointer(4, "C"), pointer(3, "A", 1), pointer(2, "B"), pointer(1, "A")]
    found = decide_alarm("forgetting", "fell", RollbackSpec(), history, "A")
    assert (found.action, found.back_to) == (Action.ROLL_BACK, 3)
    found = decide_alarm("gate", "fell", RollbackSpec(), history, "B")
    assert found.back_to == 2


@pytest.mark.parametrize("before", [None, "unknown", "C"])
def test_where_there_is_no_way_back_it_is_only_told(before: str | None) -> None:
    history = [pointer(2, "C"), pointer(1, "A")]
    found = decide_alarm("forgetting", "fell", RollbackSpec(), history, before)
    assert (found.action, found.back_to) == (Action.TELL, None)
    assert "nothing was served before" in found.detail


def test_an_alarm_that_only_tells_moves_nothing() -> None:
    found = decide_alarm("shift", "psi", RollbackSpec(), [pointer(2, "C"), pointer(1, "A")], "A")
    assert (found.action, found.back_to, found.detail) == (Action.TELL, None, "psi")


def test_prompts_of_one_kind_are_no_shift_and_others_are() -> None:
    rules = ShiftSpec(reference="r.jsonl")
    reference = [f"add the numbers {i} and {3 * i}" for i in range(0, 400, 2)]
    same = compare_prompts(
        [f"add the numbers {i} and {3 * i}" for i in range(1, 400, 5)], reference
    )
    assert not is_shifted(same, rules)
    other = compare_prompts(
        [f"write a long poem about the sea in {i} lines" for i in range(80)], reference
    )
    assert is_shifted(other, rules)
    assert {name: one.p for name, one in other.items()} == {"length": 0.005, "words": 0.005}


def test_a_shift_needs_both_a_large_index_and_more_than_chance() -> None:
    rules = ShiftSpec(reference="r.jsonl")
    assert not is_shifted({"length": Stability(psi=0.1, p=0.005)}, rules)
    assert not is_shifted({"length": Stability(psi=0.9, p=0.2)}, rules)
    assert is_shifted({"a": Stability(psi=0.0, p=1.0), "b": Stability(psi=0.9, p=0.01)}, rules)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=8))
def test_the_stability_index_is_symmetric_and_nothing_for_equal_counts(
    counts: list[tuple[int, int]],
) -> None:
    ours, theirs = [a for a, _ in counts], [b for _, b in counts]
    assert stability_index(ours, theirs) == pytest.approx(stability_index(theirs, ours))
    assert stability_index(ours, theirs) >= -1e-12
    assert stability_index(ours, ours) == 0.0


def test_a_gap_in_the_history_of_a_campaign_is_found() -> None:
    other = replace(taken(1, 1), campaign="other")
    check_campaigns([taken(1, 1), other, taken(2, 1)])
    with pytest.raises(InvalidInput, match="entry 3 comes where 2 should"):
        check_campaigns([taken(1, 1), taken(3, 1)])
