"""What ended since somebody began to count: read off the chains, and only what is new in them."""

import json
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from sqlalchemy import select

from ledger import entries as e
from ledger.database import ReadSession
from ledger.records import TrialKind
from ledger.rows import ENTRIES, STUDIES
from ledger.states import (
    STUDY_TERMINAL,
    AttemptState,
    FaultClass,
    Reason,
    TrialState,
    fault_class,
)

MOST: Final = 50_000
"""Links of one study that are read at once; the rest is read at the next look."""
_Counts: TypeAlias = "Counter[tuple[str, ...]]"
_Plain: TypeAlias = "Counter[str]"
_TRIALS: Final = (e.TrialDecided.kind, e.TrialEnded.kind, e.TrialServed.kind)
_OTHERS: Final = (
    e.AttemptEnded.kind,
    e.StudyMoved.kind,
    e.CandidatePromoted.kind,
    e.WorkerClaimed.kind,
    e.ProposerWaits.kind,
)
_KINDS: Final = (*_TRIALS, *_OTHERS)
_SERVED: Final = (
    str(TrialKind.SEARCH),
    str(TrialState.COMPLETE),
    str(Reason.DUPLICATE),
    str(fault_class(Reason.DUPLICATE)),
)
"""A duplicate that was answered from the ledger."""
_ALARMING: Final = (FaultClass.INFRASTRUCTURE, FaultClass.EVALUATOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Counts that only grow, by label values in the order of the names."""

    trials: _Counts = field(default_factory=Counter)
    """By kind, state, reason and whose doing it was."""
    attempts: _Counts = field(default_factory=Counter)
    """Those without a usable outcome, by state, reason and whose doing it was."""
    studies: _Counts = field(default_factory=Counter)
    """By state and reason."""
    plain: _Plain = field(default_factory=Counter)
    """Promotions, claims and waits, by kind of entry."""

    def copy(self) -> "Ended":
        return Ended(
            trials=Counter(self.trials),
            attempts=Counter(self.attempts),
            studies=Counter(self.studies),
            plain=Counter(self.plain),
        )


class EndingCounts:
    """Begins with nothing at its first look. Safe to share between threads."""

    def __init__(self) -> None:
        self._heads: dict[str, int] | None = None
        self._ended = Ended(attempts=Counter(_told_from_the_start()))
        self._lock = threading.Lock()

    def look(self, session: ReadSession) -> Ended:
        """What was counted until now, what this session sees included."""
        query = select(STUDIES.c.id, STUDIES.c.head_seq)
        heads = {str(row[0]): int(row[1]) for row in session.connection.execute(query)}
        with self._lock:
            if self._heads is None:
                self._heads = heads
            for study_id, head in heads.items():
                known = self._heads.get(study_id, 0)
                if head > known:
                    self._heads[study_id] = self._count(session, study_id, known, head)
            return self._ended.copy()

    def _count(self, session: ReadSession, study_id: str, known: int, head: int) -> int:
        """Count what is new in one chain; up to where."""
        query = (
            select(ENTRIES.c.seq, ENTRIES.c.kind, ENTRIES.c.body)
            .where(
                ENTRIES.c.chain == study_id,
                ENTRIES.c.kind.in_(_KINDS),
                ENTRIES.c.seq > known,
                ENTRIES.c.seq <= head,
            )
            .order_by(ENTRIES.c.seq)
            .limit(MOST)
        )
        found = session.connection.execute(query).all()
        for _, kind, body in found:
            _note(self._ended, kind, json.loads(body)["payload"])
        return head if len(found) < MOST else int(found[-1][0])


def _told_from_the_start() -> dict[tuple[str, ...], int]:
    """What alerts wait for: an increase is seen only of a count that was there before it."""
    return {
        (str(state), str(reason), str(fault_class(reason))): 0
        for reason in Reason
        if fault_class(reason) in _ALARMING
        for state in (AttemptState.REJECTED, AttemptState.LOST)
    }


def _note(ended: Ended, kind: str, payload: Mapping[str, Any]) -> None:
    if kind == e.TrialServed.kind:
        ended.trials[_SERVED] += 1
    elif kind in _TRIALS:
        state = payload.get("new", str(TrialState.COMPLETE))
        ended.trials[payload["trial_kind"], state, *_why(payload)] += 1
    elif kind == e.AttemptEnded.kind:
        ended.attempts[payload["new"], *_why(payload)] += 1
    elif kind != e.StudyMoved.kind:
        ended.plain[kind] += 1
    elif payload["new"] in STUDY_TERMINAL:
        ended.studies[payload["new"], payload.get("reason") or "none"] += 1


def _why(payload: Mapping[str, Any]) -> tuple[str, str]:
    """The reason, and whose doing that is."""
    reason = Reason(payload["reason"])
    return str(reason), str(fault_class(reason))
