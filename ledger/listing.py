"""Lists of studies, counted by the database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import case, func, select

from ledger.database import ReadSession
from ledger.records import Study, TrialKind
from ledger.rows import STUDIES, TRIALS, study_from
from ledger.states import StudyState, TrialState


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySummary:
    study: Study
    trials: Mapping[TrialState, int]
    """How many trials are in each state; states without any are absent."""
    best_value: float | None
    """Of its complete search trials, by its objective's direction."""


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


def count_studies(session: ReadSession) -> dict[StudyState, int]:
    """How many are in each state; states without any are absent."""
    query = select(STUDIES.c.state, func.count()).group_by(STUDIES.c.state)
    rows = session.connection.execute(query)
    return {StudyState(state): int(count) for state, count in rows}
