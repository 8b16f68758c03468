"""Replay families of every study: what was, or waits to be, promoted."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select, tuple_

from ledger.database import ReadSession
from ledger.errors import NotFound
from ledger.records import Family, Incumbent, Trial
from ledger.rows import (
    FAMILIES,
    INCUMBENTS,
    STUDIES,
    TRIALS,
    family_from,
    incumbent_from,
    trial_from,
)
from ledger.states import FamilyState
from ledger.time_cursors import read_cursor, write_cursor

MAX_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyPage:
    items: Sequence[Family]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummary:
    """A name under which candidates are promoted."""

    model: str
    incumbent: Incumbent | None
    """Who has it now; None before the first promotion."""
    families: int
    awaiting: int
    """Families that wait for an approval."""


def page_of_families(
    session: ReadSession,
    *,
    states: Sequence[FamilyState] | None = None,
    model: str | None = None,
    study_id: str | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> FamilyPage:
    """The newest first. Raises InvalidInput."""
    query = select(FAMILIES)
    if states is not None:
        query = query.where(FAMILIES.c.state.in_(list(states)))
    if model is not None:
        query = query.where(FAMILIES.c.model == model)
    if study_id is not None:
        query = query.where(FAMILIES.c.study_id == study_id)
    order = (FAMILIES.c.created_at, FAMILIES.c.id)
    if cursor is not None:
        query = query.where(tuple_(*order) < tuple_(*read_cursor(cursor)))
    query = query.order_by(*(column.desc() for column in order)).limit(limit + 1)
    rows = session.connection.execute(query).all()
    last = rows[limit - 1] if len(rows) > limit else None
    return FamilyPage(
        items=[family_from(row) for row in rows[:limit]],
        next_cursor=None if last is None else write_cursor(last.created_at, last.id),
    )


def get_family(session: ReadSession, family_id: str) -> Family:
    """Raises NotFound."""
    row = session.connection.execute(select(FAMILIES).where(FAMILIES.c.id == family_id)).first()
    if row is None:
        raise NotFound(f"no family has the id {family_id}")
    return family_from(row)


def replays_of(session: ReadSession, family_id: str) -> list[Trial]:
    """Trials that were made for a family, by number."""
    query = select(TRIALS).where(TRIALS.c.family_id == family_id).order_by(TRIALS.c.number)
    return [trial_from(row) for row in session.connection.execute(query)]


def trials_named(session: ReadSession, trial_ids: Sequence[str]) -> list[Trial]:
    """Those of them that exist, by number."""
    query = select(TRIALS).where(TRIALS.c.id.in_(list(trial_ids))).order_by(TRIALS.c.number)
    return [trial_from(row) for row in session.connection.execute(query)]


def study_names(session: ReadSession, study_ids: Sequence[str]) -> dict[str, str]:
    """By id."""
    query = select(STUDIES.c.id, STUDIES.c.name).where(STUDIES.c.id.in_(list(study_ids)))
    return {row.id: row.name for row in session.connection.execute(query)}


def list_models(session: ReadSession) -> list[ModelSummary]:
    """Every model that a family or a promotion names, by name."""
    waits = FamilyState.AWAITING_APPROVAL
    query = select(
        FAMILIES.c.model,
        func.count().label("families"),
        func.count().filter(FAMILIES.c.state == waits).label("awaiting"),
    ).group_by(FAMILIES.c.model)
    counted = {row.model: row for row in session.connection.execute(query)}
    newest = (
        select(INCUMBENTS.c.model, func.max(INCUMBENTS.c.seq).label("seq"))
        .group_by(INCUMBENTS.c.model)
        .subquery()
    )
    held = select(INCUMBENTS).join(
        newest, (newest.c.model == INCUMBENTS.c.model) & (newest.c.seq == INCUMBENTS.c.seq)
    )
    incumbents = {row.model: incumbent_from(row) for row in session.connection.execute(held)}
    return [
        ModelSummary(
            model=model,
            incumbent=incumbents.get(model),
            families=counted[model].families if model in counted else 0,
            awaiting=counted[model].awaiting if model in counted else 0,
        )
        for model in sorted(counted.keys() | incumbents.keys())
    ]


def page_of_incumbents(
    session: ReadSession, model: str, *, before: int | None, limit: int
) -> list[Incumbent]:
    """Positions of one model's pointer, the newest first, older than position `before`."""
    query = select(INCUMBENTS).where(INCUMBENTS.c.model == model)
    if before is not None:
        query = query.where(INCUMBENTS.c.seq < before)
    rows = session.connection.execute(query.order_by(INCUMBENTS.c.seq.desc()).limit(limit))
    return [incumbent_from(row) for row in rows]
