"""Pages of a study's trials: filtered, sorted and cut by the database, behind opaque cursors."""

import base64
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, func, or_, select, tuple_

from ledger.column_file import Place
from ledger.database import ReadSession
from ledger.digests import canonical_json
from ledger.errors import InvalidInput
from ledger.records import Candidate, ParamValue, Trial, TrialKind, Verdict
from ledger.rows import CANDIDATES, TRIALS, candidate_from, trial_from
from ledger.sort_columns import KEPT, SortColumns, looked_up, narrowed
from ledger.states import Reason, TrialState
from ledger.study_reads import get_study
from ledger.trial_fields import (
    Condition,
    Field,
    Source,
    condition_clause,
    has_param,
    is_textual,
    joined,
    key_of,
    parse_field,
)

MAX_PAGE: Final = 500
_NUMBER: Final = Field(Source.NUMBER)
SERVED: Final = "served"
_VERDICTS: Final = {
    "kept": Verdict.KEEP,
    "discarded": Verdict.DISCARD,
    "measured": Verdict.MEASURED,
}
_SQL_WORDS: Final = str.maketrans({"%": r"\%", "_": r"\_", "\\": r"\\"})


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
    outcomes: Sequence[str] | None = None
    """How they ended: kept, discarded, measured, served, or a state that is not complete."""
    reasons: Sequence[Reason] | None = None
    proposers: Sequence[str] | None = None
    candidate: str | None = None
    family: str | None = None
    conditions: Sequence[Condition] = ()
    text: str | None = None
    """Occurs, in whatever case, in a trial's or its candidate's id, detail, parameters or
    rationale."""


@dataclass(frozen=True, slots=True)
class _Position:
    """Where a page begins: after this key (None: among those without one) and number."""

    key: float | str | None
    number: int

    @property
    def place(self) -> Place | None:
        return None if self.key is None else (self.key, self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    field: Field
    key: ColumnElement[Any]
    textual: bool
    descending: bool

    def by(self, *, keyed: bool) -> list[ColumnElement[Any]]:
        columns: list[ColumnElement[Any]] = [TRIALS.c.number]
        if keyed and self.field != _NUMBER:
            columns.insert(0, self.key)
        return [column.desc() for column in columns] if self.descending else columns

    def after(self, position: _Position, *, keyed: bool) -> ColumnElement[bool]:
        mine: tuple[Any, ...] = (TRIALS.c.number,)
        theirs: tuple[Any, ...] = (position.number,)
        if keyed and self.field != _NUMBER:
            mine, theirs = (self.key, *mine), (position.key, *theirs)
        here, there = tuple_(*mine), tuple_(*theirs)
        return here < there if self.descending else here > there


def list_trials(
    session: ReadSession,
    study_id: str,
    *,
    where: TrialFilter | None = None,
    sort: str = "number",
    descending: bool = False,
    cursor: str | None = None,
    limit: int = 100,
    columns: SortColumns | None = None,
) -> TrialPage:
    """One page of a study's trials with their candidates. Trials without what they are sorted
    by come last whichever way. A page starts after its cursor, so trials that are added
    meanwhile neither repeat nor hide others. With `columns`, which many calls share, the page is
    the same and comes sooner.

    Raises:
        InvalidInput: limit is not 1..500, `sort` names no column, a condition cannot be asked,
            or the cursor is none that this list gave out.
    """
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidInput(f"limit: {limit} is not between 1 and {MAX_PAGE}")
    field = parse_field({"duration": "wall_s"}.get(sort, sort))
    order = _order(session, study_id, field, descending=descending)
    position = None if cursor is None else _read_cursor(cursor, order)
    clauses = filter_clauses(session, study_id, where or TrialFilter(), columns)
    base = joined(select(TRIALS, order.key.label("sort_key")), field)
    base = base.where(TRIALS.c.study_id == study_id, *clauses)
    keyed = None
    if columns is not None and field.source in KEPT and _is_keyed(position):
        start = None if position is None else position.place
        study = get_study(session, study_id)
        if column := columns.sorted(session, study, field):
            places = column.places(start, descending=descending)
            keyed = looked_up(session, base, places, limit + 1, is_filtered=bool(clauses))
    rows = _rows(session, base, order, position, limit + 1, keyed)
    trials = [trial_from(row) for row in rows[:limit]]
    candidates = find_candidates(session, {trial.candidate_id for trial in trials})
    last = rows[limit - 1] if len(rows) > limit else None
    return TrialPage(
        items=[ListedTrial(trial=t, candidate=candidates[t.candidate_id]) for t in trials],
        next_cursor=None if last is None else _write_cursor(field, last.sort_key, last.number),
    )


def count_trials(
    session: ReadSession,
    study_id: str,
    where: TrialFilter,
    columns: SortColumns | None = None,
) -> int:
    """How many there are in all pages of a list."""
    clauses = filter_clauses(session, study_id, where, columns)
    query = select(func.count()).select_from(TRIALS).where(TRIALS.c.study_id == study_id, *clauses)
    return int(session.connection.execute(query).scalar_one())


def find_candidates(session: ReadSession, ids: Set[str]) -> dict[str, Candidate]:
    """The candidates with these ids, by id; at most a page of them."""
    query = select(CANDIDATES).where(CANDIDATES.c.id.in_(sorted(ids)))
    return {row.id: candidate_from(row) for row in session.connection.execute(query)}


def _order(session: ReadSession, study_id: str, field: Field, *, descending: bool) -> _Order:
    textual = False
    if field.source is Source.PARAMS:
        textual = is_textual(get_study(session, study_id), field)
    key = key_of(session, field, textual=textual)
    return _Order(field=field, key=key, textual=textual, descending=descending)


def _rows(
    session: ReadSession,
    base: Select[Any],
    order: _Order,
    position: _Position | None,
    count: int,
    keyed: list[Any] | None,
) -> list[Any]:
    """Those with a key first, unless they are known, then those without."""
    rows: list[Any] = list(keyed or ())
    if keyed is None and _is_keyed(position):
        query = base if order.field == _NUMBER else base.where(order.key.is_not(None))
        if position is not None:
            query = query.where(order.after(position, keyed=True))
        rows += session.connection.execute(query.order_by(*order.by(keyed=True)).limit(count))
    if len(rows) < count and order.field != _NUMBER:
        query = base.where(order.key.is_(None))
        if position is not None and position.key is None:
            query = query.where(order.after(position, keyed=False))
        left = count - len(rows)
        rows += session.connection.execute(query.order_by(*order.by(keyed=False)).limit(left))
    return rows


def _is_keyed(position: _Position | None) -> bool:
    """Whether a page begins among the trials that have what they are sorted by."""
    return position is None or position.key is not None


def filter_clauses(
    session: ReadSession,
    study_id: str,
    where: TrialFilter,
    columns: SortColumns | None = None,
) -> list[ColumnElement[bool]]:
    """As conditions on trials alone. Raises InvalidInput, NotFound."""
    chosen = (
        (TRIALS.c.state, where.states),
        (TRIALS.c.kind, where.kinds),
        (TRIALS.c.reason, where.reasons),
        (TRIALS.c.candidate_id, None if where.candidate is None else [where.candidate]),
        (TRIALS.c.family_id, None if where.family is None else [where.family]),
    )
    clauses: list[ColumnElement[bool]] = [
        column.in_(list(values)) for column, values in chosen if values is not None
    ]
    of_candidate: list[ColumnElement[bool]] = [
        has_param(session, *pair) for pair in (where.params or {}).items()
    ]
    if where.proposers is not None:
        of_candidate.append(CANDIDATES.c.proposer.in_(list(where.proposers)))
    if of_candidate:
        fitting = and_(CANDIDATES.c.study_id == study_id, *of_candidate)
        clauses.append(TRIALS.c.candidate_id.in_(select(CANDIDATES.c.id).where(fitting)))
    if where.outcomes is not None:
        clauses.append(_ended(where.outcomes))
    if where.conditions:
        study = get_study(session, study_id)
        among = len(where.conditions)
        for condition in where.conditions:
            clause = condition_clause(session, study, condition)
            clauses.append(narrowed(session, study, condition, clause, columns, among=among))
    if where.text:
        clauses.append(_mentions(study_id, where.text))
    return clauses


def _ended(outcomes: Sequence[str]) -> ColumnElement[bool]:
    verdicts = [_VERDICTS[word] for word in outcomes if word in _VERDICTS]
    states = [state for state in TrialState if state in outcomes]
    ways: list[ColumnElement[bool]] = [TRIALS.c.state.in_(states), TRIALS.c.verdict.in_(verdicts)]
    if SERVED in outcomes:
        complete = TRIALS.c.state == TrialState.COMPLETE
        ways.append(and_(complete, TRIALS.c.verdict.is_(None)))
    return or_(*ways)


def _mentions(study_id: str, text: str) -> ColumnElement[bool]:
    pattern = f"%{text.translate(_SQL_WORDS)}%"
    own = [TRIALS.c.id, TRIALS.c.detail]
    theirs = [CANDIDATES.c.id, CANDIDATES.c.params, CANDIDATES.c.rationale]
    named = or_(*(column.ilike(pattern, escape="\\") for column in theirs))
    candidates = select(CANDIDATES.c.id).where(CANDIDATES.c.study_id == study_id, named)
    return or_(
        *(column.ilike(pattern, escape="\\") for column in own),
        TRIALS.c.candidate_id.in_(candidates),
    )


def _write_cursor(field: Field, key: float | str | None, number: int) -> str:
    text = canonical_json([str(field), key, number])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_cursor(cursor: str, order: _Order) -> _Position:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        decoded = base64.b64decode(padded, altchars=b"-_", validate=True)
        written, key, number = json.loads(decoded, parse_constant=_refuse)
        if written != str(order.field) or type(number) is not int or abs(number) >= 2**63:
            raise ValueError(written)
        wanted = (str,) if order.textual else (int, float)
        if key is not None and type(key) not in wanted:
            raise TypeError(key)
        return _Position(float(key) if isinstance(key, int) else key, number)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InvalidInput(
            "cursor: it is none of this list's; leave it out to start again"
        ) from error


def _refuse(word: str) -> float:
    raise ValueError(word)
