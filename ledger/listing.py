"""Pages of trials and lists of studies, counted and sorted by the database."""

import base64
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import ColumnElement, Select, and_, case, func, literal, or_, select

from ledger.database import ReadSession
from ledger.digests import canonical_json
from ledger.errors import InvalidInput
from ledger.records import Candidate, ParamValue, Study, Trial, TrialKind
from ledger.rows import CANDIDATES, STUDIES, TRIALS, candidate_from, study_from, trial_from
from ledger.states import StudyState, TrialState

TrialSort: TypeAlias = Literal["number", "value", "duration"]

MAX_PAGE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySummary:
    study: Study
    trials: Mapping[TrialState, int]
    """How many trials are in each state; states without any are absent."""
    best_value: float | None
    """Of its complete search trials, by its objective's direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTrial:
    trial: Trial
    candidate: Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPage:
    items: Sequence[ListedTrial]
    next_cursor: str | None
    """Give it back for the next page; None on the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFilter:
    """What a listed trial must satisfy; None asks nothing."""

    states: Sequence[TrialState] | None = None
    kinds: Sequence[TrialKind] | None = None
    params: Mapping[str, ParamValue] | None = None
    """Parameters with exactly these values."""


def list_studies(
    session: ReadSession, *, states: Sequence[StudyState] | None = None
) -> list[StudySummary]:
    """Every study with its counts and best value, newest first, in one statement."""
    counts = [
        func.count(case((TRIALS.c.state == state, 1))).label(f"n_{state}") for state in TrialState
    ]
    scored = case(
        (
            (TRIALS.c.kind == TrialKind.SEARCH) & (TRIALS.c.state == TrialState.COMPLETE),
            TRIALS.c.value,
        )
    )
    totals = (
        select(
            TRIALS.c.study_id,
            func.min(scored).label("lowest"),
            func.max(scored).label("highest"),
            *counts,
        )
        .group_by(TRIALS.c.study_id)
        .subquery()
    )
    query = select(STUDIES, totals).outerjoin(totals, totals.c.study_id == STUDIES.c.id)
    if states is not None:
        query = query.where(STUDIES.c.state.in_(states))
    query = query.order_by(STUDIES.c.created_at.desc(), STUDIES.c.id)
    return [_summary(row) for row in session.connection.execute(query)]


def _summary(row: Any) -> StudySummary:
    study = study_from(row)
    counts = {state: int(getattr(row, f"n_{state}") or 0) for state in TrialState}
    return StudySummary(
        study=study,
        trials={state: count for state, count in counts.items() if count},
        best_value=row.highest if maximizes(study) else row.lowest,
    )


def maximizes(study: Study) -> bool:
    """Whether higher values are better in this study."""
    objective = study.spec.get("objective")
    return isinstance(objective, Mapping) and objective.get("direction") == "maximize"


def list_trials(
    session: ReadSession,
    study_id: str,
    *,
    where: TrialFilter | None = None,
    sort: TrialSort = "number",
    descending: bool = False,
    cursor: str | None = None,
    limit: int = 100,
) -> TrialPage:
    """One page of a study's trials with their candidates. Trials without a value (or duration)
    come last whichever way they are sorted. A page starts after its cursor, so trials that are
    added meanwhile neither repeat nor hide others.

    Raises:
        InvalidInput: limit is not 1..500, or the cursor is none that this list gave out.
    """
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidInput(f"limit: {limit} is not between 1 and {MAX_PAGE}")
    key = _sort_key(sort)
    query = select(TRIALS, key.label("sort_key")).where(TRIALS.c.study_id == study_id)
    query = _filtered(session, query, where or TrialFilter())
    if cursor is not None:
        after = _after(key, _read_cursor(cursor, sort), descending=descending)
        query = query.where(after)
    query = query.order_by(*_order(sort, key, descending=descending))
    rows = session.connection.execute(query.limit(limit + 1)).all()
    trials = [trial_from(row) for row in rows[:limit]]
    candidates = find_candidates(session, {trial.candidate_id for trial in trials})
    last = rows[limit - 1] if len(rows) > limit else None
    return TrialPage(
        items=[ListedTrial(trial=t, candidate=candidates[t.candidate_id]) for t in trials],
        next_cursor=None if last is None else _write_cursor(sort, last.sort_key, last.number),
    )


def find_candidates(session: ReadSession, ids: Set[str]) -> dict[str, Candidate]:
    """The candidates with these ids, by id; at most a page of them."""
    query = select(CANDIDATES).where(CANDIDATES.c.id.in_(sorted(ids)))
    return {row.id: candidate_from(row) for row in session.connection.execute(query)}


def _sort_key(sort: TrialSort) -> ColumnElement[Any]:
    if sort == "value":
        return TRIALS.c.value
    if sort == "duration":
        return TRIALS.c.ended_at - TRIALS.c.started_at
    return TRIALS.c.number


def _order(
    sort: TrialSort, key: ColumnElement[Any], *, descending: bool
) -> list[ColumnElement[Any]]:
    order: list[ColumnElement[Any]] = [TRIALS.c.number]
    if sort != "number":
        order = [key, *order]
    if descending:
        order = [column.desc() for column in order]
    return order if sort == "number" else [key.is_(None), *order]


def _after(
    key: ColumnElement[Any], position: tuple[float | None, int], *, descending: bool
) -> ColumnElement[bool]:
    value, number = position
    column = TRIALS.c.number
    later = column < number if descending else column > number
    if value is None:
        return and_(key.is_(None), later)
    beyond = key < value if descending else key > value
    return or_(beyond, and_(key == value, later), key.is_(None))


def _filtered(session: ReadSession, query: Select[Any], where: TrialFilter) -> Select[Any]:
    if where.states is not None:
        query = query.where(TRIALS.c.state.in_(where.states))
    if where.kinds is not None:
        query = query.where(TRIALS.c.kind.in_(where.kinds))
    if where.params:
        query = query.join(CANDIDATES, CANDIDATES.c.id == TRIALS.c.candidate_id)
        for name, value in where.params.items():
            query = query.where(_has_param(session, name, value))
    return query


def _has_param(session: ReadSession, name: str, value: ParamValue) -> ColumnElement[bool]:
    """Parameters are canonical JSON of one level, so `,"name":value,` occurs in `,...,` exactly
    when the parameter has that value: a quote inside a string would be written with a backslash.
    """
    params = CANDIDATES.c.params
    inside = literal(",").concat(func.substr(params, 2, func.length(params) - 2)).concat(",")
    wanted = f",{canonical_json({name: value})[1:-1]},"
    find = func.instr if session.dialect.name == "sqlite" else func.strpos
    return find(inside, wanted) > 0


def _write_cursor(sort: TrialSort, value: float | None, number: int) -> str:
    text = canonical_json([sort, value, number])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_cursor(cursor: str, sort: TrialSort) -> tuple[float | None, int]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        written, value, number = json.loads(base64.urlsafe_b64decode(padded))
        if written != sort or not isinstance(number, int):
            raise ValueError(written)
        return (None if value is None else float(value)), number
    except (ValueError, TypeError) as error:
        raise InvalidInput(
            "cursor: it is none of this list's; leave it out to start again"
        ) from error
