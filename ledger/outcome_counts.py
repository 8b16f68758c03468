"""How a study's trials ended, counted; of those that ended only the new ones are counted again,
also by the next process: what was counted is kept in a file."""

import json
import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from sqlalchemy import func, select

from ledger.column_file import UNUSABLE, ColumnFile, Kept
from ledger.database import ReadSession
from ledger.recent import Recent
from ledger.records import Study, TrialKind, Verdict
from ledger.rows import TRIALS
from ledger.states import TRIAL_TERMINAL, Reason, TrialState

log = logging.getLogger("arl.ledger")

KEPT: Final = 1000
STORED_AFTER: Final = 2000
"""Trials that ended since the file was written, and a twentieth of those in it: then it is
written again."""
_STORED_SHARE: Final = 20
_NAME: Final = "outcomes"
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
    stored: Kept | None = None


class OutcomeCounts:
    """Every trial of a study, counted by kind, state, verdict and reason. Safe to share between
    threads."""

    def __init__(self, file: ColumnFile | None = None) -> None:
        self._file = file
        self._known: Recent[_Ended] = Recent(KEPT)

    def of(self, session: ReadSession, study: Study) -> list[OutcomeCount]:
        """As this session sees the study."""
        newest = _newest(session, study.id)
        known = self._known.find(study.id)
        if known is None:
            known = self._load(session, study)
        open_now = _count(session, study.id, TRIALS.c.state.in_(_UNFINISHED))
        if known is None or known.last > newest:
            everything = _count(session, study.id)
            ended = _Ended(everything - open_now, newest, None if known is None else known.stored)
        else:
            since = (TRIALS.c.finish_seq > known.last, TRIALS.c.finish_seq.is_not(None))
            fresh = Counter[Any]() if known.last == newest else _count(session, study.id, *since)
            ended = _Ended(known.counts + fresh, newest, known.stored)
        self._store(study, ended)
        self._known.keep(study.id, ended)
        return _listed(ended.counts + open_now)

    def _load(self, session: ReadSession, study: Study) -> _Ended | None:
        if self._file is None:
            return None
        try:
            stored = self._file.find(session, study, _NAME)
            data = None if stored is None else self._file.load(stored)
            if stored is None or data is None:
                return None
            counts = Counter({tuple(key): count for key, count in json.loads(data)})
            return _Ended(counts, stored.last, stored)
        except (*UNUSABLE, ValueError, TypeError) as error:
            log.warning("trials of %s are counted anew: %s", study.id, error)
            return None

    def _store(self, study: Study, ended: _Ended) -> None:
        """Once it is worth it."""
        last = 0 if ended.stored is None else ended.stored.last
        if self._file is None or ended.last - last < max(STORED_AFTER, last // _STORED_SHARE):
            return
        data = json.dumps([[list(key), count] for key, count in ended.counts.items()]).encode()
        try:
            ended.stored = self._file.store(study, _NAME, ended.stored, ended.last, data)
        except UNUSABLE as error:
            log.warning("counts of %s are not kept: %s", study.id, error)


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
