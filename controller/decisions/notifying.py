"""Which entries of a study are events for its webhooks, and when a failed one is tried again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from controller.spec.notify import Event
from ledger.entries import (
    CandidatePromoted,
    FamilyMoved,
    ProposerWaits,
    StudyMoved,
    TrialDecided,
    TrialEnded,
)
from ledger.notification_records import NotificationState, Tried
from ledger.records import EntryRecord, PausedBy, Verdict
from ledger.states import FamilyState, StudyState, TrialState

QUIET_S: Final = 600.0
"""What holds a study is told once: a pause for the same reason within this time is the same."""
GONE: Final = 410

_KINDS: Final = {
    Event.STUDY_COMPLETED: StudyMoved.kind,
    Event.STUDY_FAILED: StudyMoved.kind,
    Event.STUDY_CANCELLED: StudyMoved.kind,
    Event.STUDY_PAUSED: StudyMoved.kind,
    Event.PROPOSER_WAITS: ProposerWaits.kind,
    Event.BUDGET_EXHAUSTED: StudyMoved.kind,
    Event.PROMOTION_AWAITING: FamilyMoved.kind,
    Event.PROMOTION_REFUSED: FamilyMoved.kind,
    Event.CANDIDATE_PROMOTED: CandidatePromoted.kind,
    Event.CANDIDATE_KEPT: TrialDecided.kind,
    Event.TRIAL_FAILED: TrialEnded.kind,
}
_STUDY_STATES: Final = {
    StudyState.COMPLETED: Event.STUDY_COMPLETED,
    StudyState.FAILED: Event.STUDY_FAILED,
    StudyState.CANCELLED: Event.STUDY_CANCELLED,
}
_FAMILY_STATES: Final = {
    FamilyState.AWAITING_APPROVAL: Event.PROMOTION_AWAITING,
    FamilyState.REFUSED: Event.PROMOTION_REFUSED,
    FamilyState.INCONCLUSIVE: Event.PROMOTION_REFUSED,
    FamilyState.DECLINED: Event.PROMOTION_REFUSED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How often, and for how long, a webhook that does not take a notification is asked again."""

    first_s: float = 2.0
    factor: float = 3.0
    longest_s: float = 2 * 3600.0
    tries: int = 12
    late_tries: int = 3
    """Of one that has been queued for longer than `oldest_s`, behind others that failed."""
    oldest_s: float = 24 * 3600.0
    longest_asked_s: float = 6 * 3600.0
    """What a receiver may ask for with Retry-After."""


def kinds_of(events: Iterable[Event]) -> tuple[str, ...]:
    """The kinds of entries that such events are made of."""
    return tuple(sorted({_KINDS[event] for event in events}))


def event_of(entry: EntryRecord) -> Event | None:
    """What webhooks call this entry; an entry is at most one event."""
    payload = entry.payload
    match entry.kind:
        case StudyMoved.kind:
            return _study_event(entry)
        case FamilyMoved.kind:
            return _FAMILY_STATES.get(FamilyState(str(payload["new"])))
        case CandidatePromoted.kind:
            return Event.CANDIDATE_PROMOTED
        case ProposerWaits.kind:
            return Event.PROPOSER_WAITS if payload["detail"] else None
        case TrialDecided.kind:
            return Event.CANDIDATE_KEPT if payload["verdict"] == Verdict.KEEP else None
        case TrialEnded.kind:
            return Event.TRIAL_FAILED if payload["new"] == TrialState.FAILED else None
        case _:
            return None


def _study_event(entry: EntryRecord) -> Event | None:
    new = StudyState(str(entry.payload["new"]))
    if new is StudyState.PAUSED:
        by_condition = entry.payload["paused_by"] == PausedBy.CONDITION
        return Event.STUDY_PAUSED if by_condition else None
    if new is StudyState.DRAINING:
        spent = str(entry.payload["reason"] or "").startswith("budget_")
        return Event.BUDGET_EXHAUSTED if spent else None
    return _STUDY_STATES.get(new)


def is_told_already(entry: EntryRecord, earlier: Sequence[EntryRecord]) -> bool:
    """Whether what holds the study held it a moment ago, too: something that is away is looked at
    every few seconds, and each look is a pause of its own. `earlier` are entries of its kind."""
    if event_of(entry) not in (Event.STUDY_PAUSED, Event.PROPOSER_WAITS):
        return False
    return any(
        event_of(other) is event_of(entry)
        and other.payload.get("reason") == entry.payload.get("reason")
        and entry.at - other.at < QUIET_S
        for other in earlier
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a receiver said, if anything."""

    status: int | None
    """None: no answer came."""
    detail: str
    """Why it is no delivery; empty for one."""
    retry_after_s: float | None = None


def decide_next(
    answered: Answered, *, tries: int, queued_for_s: float, chance: float, patience: Patience
) -> Tried:
    """Delivered, to be tried again, or given up.

    Args:
        tries: how often it was tried, this one included.
        queued_for_s: since it was put in its queue.
        chance: from 0 to 1, drawn for this try, so that receivers are not all asked at once.
    """
    status, detail = answered.status, answered.detail
    if status is not None and 200 <= status < 300:
        return Tried(state=NotificationState.DELIVERED, status=status, detail="")
    if status == GONE:
        why = f"{detail}; the receiver wants no more"
        return Tried(state=NotificationState.DEAD, status=status, detail=why)
    most = patience.late_tries if queued_for_s >= patience.oldest_s else patience.tries
    if tries >= most:
        why = f"{detail}; given up after {tries} tries"
        return Tried(state=NotificationState.DEAD, status=status, detail=why)
    wait_s = min(patience.first_s * patience.factor ** (tries - 1), patience.longest_s)
    wait_s *= 0.8 + 0.4 * chance
    asked_s = min(answered.retry_after_s or 0.0, patience.longest_asked_s)
    return Tried(
        state=NotificationState.WAITING,
        status=status,
        detail=detail,
        wait_s=max(wait_s, asked_s),
    )
