"""Which entries are events, when a failed notification is tried again, and how it is signed."""

import base64
import hashlib
import hmac
import math
from typing import Any

import pytest

from controller.decisions.message_signing import signed_headers, signing_key
from controller.decisions.notifying import (
    QUIET_S,
    Answered,
    Patience,
    decide_next,
    event_of,
    is_told_already,
    kinds_of,
)
from controller.spec.notify import Event
from ledger import entries as e
from ledger.errors import InvalidInput
from ledger.notification_records import NotificationState, Tried
from ledger.records import EntryRecord, PausedBy, TrialKind, Verdict
from ledger.states import FamilyState, Reason, StudyState, TrialState


def entry(fact: e.Entry, at: float = 0.0, seq: int = 1) -> EntryRecord:
    return EntryRecord(
        chain="s1",
        seq=seq,
        kind=fact.kind,
        payload=e.payload(fact),
        previous="",
        digest="",
        at=at,
    )


def moved(new: StudyState, **more: Any) -> EntryRecord:
    at = more.pop("at", 0.0)
    return entry(e.StudyMoved(current=StudyState.RUNNING, new=new, **more), at)


def held(reason: Reason, at: float) -> EntryRecord:
    return moved(StudyState.PAUSED, reason=reason, paused_by=PausedBy.CONDITION, at=at)


def family(new: FamilyState) -> EntryRecord:
    return entry(
        e.FamilyMoved(
            family_id="f",
            current=FamilyState.OPEN,
            new=new,
            reason=Reason.PASSED,
            evidence={},
        )
    )


def decided(verdict: Verdict) -> EntryRecord:
    return entry(
        e.TrialDecided(
            trial_id="t",
            candidate_id="c",
            trial_kind=TrialKind.SEARCH,
            verdict=verdict,
            reason=Reason.BETTER,
            value=1.0,
            compared_with=None,
            margin=0.0,
            noise_floor=0.0,
            finish_seq=1,
        )
    )


def ended(new: TrialState) -> EntryRecord:
    return entry(
        e.TrialEnded(
            trial_id="t",
            candidate_id="c",
            trial_kind=TrialKind.SEARCH,
            current=TrialState.RUNNING,
            new=new,
            reason=Reason.CRASHED,
            detail="",
            finish_seq=1,
        )
    )


PROMOTED = e.CandidatePromoted(
    model="m",
    incumbent_seq=1,
    candidate_id="c",
    previous_id=None,
    family_id="f",
    comparison="",
    artifact_digest="",
    approver="",
    evidence={},
)

FACTS = [
    (moved(StudyState.COMPLETED), Event.STUDY_COMPLETED),
    (moved(StudyState.FAILED, reason=Reason.BASELINE_FAILED), Event.STUDY_FAILED),
    (moved(StudyState.CANCELLED), Event.STUDY_CANCELLED),
    (held(Reason.DISK_FULL, 0.0), Event.STUDY_PAUSED),
    (moved(StudyState.PAUSED, paused_by=PausedBy.OPERATOR), None),
    (moved(StudyState.DRAINING, reason=Reason.BUDGET_WALL_TIME), Event.BUDGET_EXHAUSTED),
    (moved(StudyState.DRAINING, reason=Reason.GOAL_REACHED), None),
    (moved(StudyState.REPLAYING), None),
    (entry(e.ProposerWaits(detail="no answer")), Event.PROPOSER_WAITS),
    (entry(e.ProposerWaits(detail="")), None),
    (family(FamilyState.AWAITING_APPROVAL), Event.PROMOTION_AWAITING),
    (family(FamilyState.REFUSED), Event.PROMOTION_REFUSED),
    (family(FamilyState.INCONCLUSIVE), Event.PROMOTION_REFUSED),
    (family(FamilyState.DECLINED), Event.PROMOTION_REFUSED),
    (family(FamilyState.PASSED), None),
    (family(FamilyState.PROMOTED), None),
    (entry(PROMOTED), Event.CANDIDATE_PROMOTED),
    (decided(Verdict.KEEP), Event.CANDIDATE_KEPT),
    (decided(Verdict.DISCARD), None),
    (ended(TrialState.FAILED), Event.TRIAL_FAILED),
    (ended(TrialState.PRUNED), None),
    (entry(e.WorkerClaimed(owner="w", fence=1)), None),
]


@pytest.mark.parametrize(("record", "event"), FACTS)
def test_an_entry_is_the_event_that_its_facts_say(record: EntryRecord, event: Event) -> None:
    assert event_of(record) is event
    assert event is None or record.kind in kinds_of([event])


def test_every_event_is_made_of_some_entry() -> None:
    assert {event for _, event in FACTS if event is not None} == set(Event)


def test_what_holds_a_study_is_told_once_until_it_was_quiet_for_a_while() -> None:
    first = held(Reason.DISK_FULL, 0.0)
    again, other = held(Reason.DISK_FULL, QUIET_S - 1), held(Reason.TARGET_UNAVAILABLE, 5.0)
    later = held(Reason.DISK_FULL, 2 * QUIET_S)
    assert not is_told_already(first, [])
    assert is_told_already(again, [first])
    assert not is_told_already(other, [first])
    assert not is_told_already(later, [again, first])
    assert not is_told_already(moved(StudyState.COMPLETED), [moved(StudyState.COMPLETED)])
    waits = entry(e.ProposerWaits(detail="a"), 0.0), entry(e.ProposerWaits(detail="b"), 9.0)
    assert is_told_already(waits[1], [waits[0]])
    assert not is_told_already(waits[1], [entry(e.ProposerWaits(detail=""), 8.0)])


# --- trying again --------------------------------------------------------------------------------


def tried(
    status: int | None, tries: int = 1, *, asked_s: float | None = None, **more: float
) -> Tried:
    answered = Answered(status=status, detail="no", retry_after_s=asked_s)
    given = {"queued_for_s": 0.0, "chance": 0.5, **more}
    return decide_next(answered, tries=tries, patience=Patience(), **given)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_a_delivery(status: int) -> None:
    assert tried(status) == Tried(state=NotificationState.DELIVERED, status=status, detail="")


@pytest.mark.parametrize("status", [None, 100, 199, 301, 302, 307, 400, 401, 404, 422, 429, 500])
def test_anything_else_is_tried_again(status: int | None) -> None:
    found = tried(status)
    assert (found.state, found.status, found.detail) == ("waiting", status, "no")
    assert found.wait_s == Patience().first_s


def test_a_receiver_that_is_gone_is_not_asked_again() -> None:
    assert tried(410).state is NotificationState.DEAD


def test_waits_grow_to_a_bound_and_are_spread() -> None:
    waits = [tried(500, n).wait_s for n in range(1, Patience().tries)]
    assert waits == sorted(waits)
    assert waits[:3] == [2.0, 6.0, 18.0]
    assert waits[-1] == Patience().longest_s
    assert 5 * 3600 < sum(waits) < 24 * 3600
    spread = [tried(500, 3, chance=chance).wait_s for chance in (0.0, 0.5, 1.0)]
    assert spread == pytest.approx([14.4, 18.0, 21.6])


def test_the_last_try_is_the_last() -> None:
    assert tried(500, Patience().tries - 1).state is NotificationState.WAITING
    dead = tried(500, Patience().tries)
    assert dead.state is NotificationState.DEAD
    assert dead.detail == "no; given up after 12 tries"


def test_one_that_queued_for_a_day_behind_others_gets_three_tries() -> None:
    day = Patience().oldest_s
    states = [str(tried(None, n, queued_for_s=day).state) for n in (1, 2, 3)]
    assert states == ["waiting", "waiting", "dead"]


def test_a_receiver_is_asked_no_sooner_than_it_wants() -> None:
    assert tried(429, 1, asked_s=90.0).wait_s == 90.0
    assert tried(503, 5, asked_s=1.0).wait_s == pytest.approx(2 * 3**4)
    assert tried(429, 1, asked_s=1e9).wait_s == Patience().longest_asked_s
    assert math.isfinite(tried(429, 11, asked_s=1e9).wait_s)


# --- signing -------------------------------------------------------------------------------------


def test_a_signature_is_of_id_time_and_body() -> None:
    headers = signed_headers("s1-7", 1614265330, b'{"a": 1}', b"key")
    wanted = hmac.new(b"key", b's1-7.1614265330.{"a": 1}', hashlib.sha256).digest()
    assert headers == {
        "webhook-id": "s1-7",
        "webhook-timestamp": "1614265330",
        "webhook-signature": f"v1,{base64.b64encode(wanted).decode()}",
    }


def test_it_is_what_the_standard_says_of_its_own_example() -> None:
    """Of www.standardwebhooks.com: secret, id, time, body and signature are published there."""
    key = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "ARL_SECRET_X")
    headers = signed_headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', key
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_without_a_key_nothing_is_signed() -> None:
    assert set(signed_headers("s1-7", 1, b"", None)) == {"webhook-id", "webhook-timestamp"}


def test_a_secret_is_its_text_or_what_its_base64_says() -> None:
    assert signing_key("plain text", "ARL_SECRET_X") == b"plain text"
    assert signing_key("whsec_a2V5", "ARL_SECRET_X") == b"key"


@pytest.mark.parametrize("secret", ["whsec_", "whsec_!t0p", "whsec_a2V", "whsec_\u00e4t0p"])
def test_a_damaged_secret_is_refused_and_not_repeated(secret: str) -> None:
    with pytest.raises(InvalidInput, match=r"^ARL_SECRET_X: ") as refused:
        signing_key(secret, "ARL_SECRET_X")
    assert "t0p" not in str(refused.value)
