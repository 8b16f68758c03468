"""Pages of studies, and what each amounts to, without reading trials that were counted before."""

import base64
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import ColumnElement, and_, select, tuple_

from ledger.database import ReadSession
from ledger.digests import canonical_json
from ledger.errors import InvalidInput
from ledger.listing import maximizes
from ledger.outcome_counts import OutcomeCounts
from ledger.records import BudgetLine, Study, TrialKind
from ledger.rows import BUDGETS, ENTRIES, STUDIES, TRIALS, budget_from, study_from
from ledger.states import StudyState, TrialState

StudySort: TypeAlias = Literal["submitted_at", "name", "state"]

MAX_PAGE: Final = 500
_COLUMNS: Final[Mapping[StudySort, ColumnElement[Any]]] = {
    "submitted_at": STUDIES.c.created_at,
    "name": STUDIES.c.name,
    "state": STUDIES.c.state,
}
_SQL_WORDS: Final = str.maketrans({"%": r"\%", "_": r"\_", "\\": r"\\"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPage:
    items: Sequence[Study]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyTally:
    """What a study's trials amount to when its chain is `head_seq` long."""

    head_seq: int
    trials: Mapping[TrialState, int]
    """How many are in each state; states without any are absent."""
    best_value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEntry:
    seq: int
    kind: str
    at: float


def page_of_studies(
    session: ReadSession,
    *,
    states: Sequence[StudyState] | None = None,
    text: str | None = None,
    sort: StudySort = "submitted_at",
    descending: bool = True,
    cursor: str | None = None,
    limit: int = 50,
) -> StudyPage:
    """One page of studies; `text` occurs in the name or begins the id. Raises InvalidInput."""
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidInput(f"limit: {limit} is not between 1 and {MAX_PAGE}")
    order = (_COLUMNS[sort], STUDIES.c.id)
    query = select(STUDIES)
    if states is not None:
        query = query.where(STUDIES.c.state.in_(list(states)))
    if text:
        safe = text.translate(_SQL_WORDS)
        named = STUDIES.c.name.ilike(f"%{safe}%", escape="\\")
        query = query.where(named | STUDIES.c.id.like(f"{safe}%", escape="\\"))
    if cursor is not None:
        here, there = tuple_(*order), tuple_(*_read_cursor(cursor, sort))
        query = query.where(here < there if descending else here > there)
    query = query.order_by(*(c.desc() if descending else c for c in order)).limit(limit + 1)
    rows = session.connection.execute(query).all()
    last = rows[limit - 1] if len(rows) > limit else None
    return StudyPage(
        items=[study_from(row) for row in rows[:limit]],
        next_cursor=None if last is None else _write_cursor(sort, last),
    )


def _write_cursor(sort: StudySort, row: Any) -> str:
    key = row.created_at if sort == "submitted_at" else getattr(row, sort)
    text = canonical_json([sort, key, row.id])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_cursor(cursor: str, sort: StudySort) -> tuple[float | str, str]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        written, key, last = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        wanted = float if sort == "submitted_at" else str
        if written != sort or type(key) is not wanted or type(last) is not str:
            raise ValueError(written)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInput(
            "cursor: it is none of this list's; leave it out to start again"
        ) from error
    return key, last


def tally_study(session: ReadSession, study: Study, outcomes: OutcomeCounts) -> StudyTally:
    """Counted in an index, the best value looked up in another."""
    trials: Counter[TrialState] = Counter()
    for outcome in outcomes.of(session, study):
        trials[outcome.state] += outcome.count
    value = TRIALS.c.value.desc() if maximizes(study) else TRIALS.c.value
    best = (
        select(TRIALS.c.value)
        .where(
            TRIALS.c.study_id == study.id,
            TRIALS.c.kind == TrialKind.SEARCH,
            TRIALS.c.value.is_not(None),
            TRIALS.c.state == TrialState.COMPLETE,
        )
        .order_by(value)
        .limit(1)
    )
    return StudyTally(
        head_seq=study.head_seq,
        trials=trials,
        best_value=session.connection.execute(best).scalar_one_or_none(),
    )


def budgets_of(session: ReadSession, study_ids: Iterable[str]) -> dict[str, list[BudgetLine]]:
    """Budget lines by study."""
    found: dict[str, list[BudgetLine]] = {}
    query = select(BUDGETS).where(BUDGETS.c.study_id.in_(list(study_ids)))
    for row in session.connection.execute(query.order_by(BUDGETS.c.resource)):
        found.setdefault(row.study_id, []).append(budget_from(row))
    return found


def last_entries(session: ReadSession, study_ids: Iterable[str]) -> dict[str, LastEntry]:
    """The link at the head of each chain."""
    at_head = and_(ENTRIES.c.chain == STUDIES.c.id, ENTRIES.c.seq == STUDIES.c.head_seq)
    query = select(ENTRIES).join(STUDIES, at_head).where(STUDIES.c.id.in_(list(study_ids)))
    return {
        row.chain: LastEntry(seq=row.seq, kind=row.kind, at=json.loads(row.body)["at"])
        for row in session.connection.execute(query)
    }
