"""How a study's trials ended, counted; of those that ended only the new ones are counted again."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from sqlalchemy import func, select

from ledger.database import ReadSession
from ledger.records import TrialKind, Verdict
from ledger.rows import TRIALS
from ledger.states import TRIAL_TERMINAL, Reason, TrialState

KEPT: Final = 1000
_UNFINISHED: Final = sorted(state for state in TrialState if state not in TRIAL_TERMINAL)
# In the order of the index, which then is all that is read.
_KEYS: Final = (TRIALS.c.state, TRIALS.c.kind, TRIALS.c.verdict, TRIALS.c.reason)
_Counts: TypeAlias = "Counter[tuple[str, str, str | None, str | None]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeCount:
    """How many trials of one kind are in one state, with one verdict, for one reason."""

    kind: TrialKind
    state: TrialState
    verdict: Verdict | None
    reason: Reason | None
    count: int


@dataclass(slots=True)
class _Ended:
    counts: _Counts = field(default_factory=Counter)
    last: int = 0
    """`finish_seq` of the latest that is counted."""


class OutcomeCounts:
    """Every trial of a study, counted by kind, state, verdict and reason. Safe to share between
    threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Ended] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, session: ReadSession, study_id: str) -> list[OutcomeCount]:
        """As this session sees the study."""
        newest = _newest(session, study_id)
        with self._lock:
            known = self._known.get(study_id)
        open_now = _count(session, study_id, TRIALS.c.state.in_(_UNFINISHED))
        if known is None or known.last > newest:
            everything = _count(session, study_id)
            ended = _Ended(everything - open_now, newest)
        else:
            since = (TRIALS.c.finish_seq > known.last, TRIALS.c.finish_seq.is_not(None))
            fresh = Counter[Any]() if known.last == newest else _count(session, study_id, *since)
            ended = _Ended(known.counts + fresh, newest)
        self._keep(study_id, ended)
        return _listed(ended.counts + open_now)

    def _keep(self, study_id: str, ended: _Ended) -> None:
        with self._lock:
            self._known[study_id] = ended
            self._known.move_to_end(study_id)
            while len(self._known) > KEPT:
                self._known.popitem(last=False)


def _newest(session: ReadSession, study_id: str) -> int:
    query = select(func.max(TRIALS.c.finish_seq)).where(
        TRIALS.c.study_id == study_id, TRIALS.c.finish_seq.is_not(None)
    )
    return int(session.connection.execute(query).scalar_one_or_none() or 0)


def _count(session: ReadSession, study_id: str, *which: Any) -> _Counts:
    query = (
        select(*_KEYS, func.count().label("trials"))
        .where(TRIALS.c.study_id == study_id, *which)
        .group_by(*_KEYS)
    )
    rows = session.connection.execute(query)
    return Counter({(r.state, r.kind, r.verdict, r.reason): int(r.trials) for r in rows})


def _listed(counts: _Counts) -> list[OutcomeCount]:
    found: Iterable[OutcomeCount] = (
        OutcomeCount(
            kind=TrialKind(kind),
            state=TrialState(state),
            verdict=Verdict(verdict) if verdict else None,
            reason=Reason(reason) if reason else None,
            count=count,
        )
        for (state, kind, verdict, reason), count in counts.items()
    )
    return sorted(found, key=lambda o: (o.kind, o.state, o.verdict or "", o.reason or ""))
