"""How much of everything there is now, in a few indexed counts."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Table, func, select

from ledger.database import ReadSession
from ledger.notifications import count_notifications
from ledger.rows import ATTEMPTS, COMMANDS, FAMILIES, STUDIES, TRIALS
from ledger.states import (
    ATTEMPT_TERMINAL,
    STUDY_TERMINAL,
    TRIAL_TERMINAL,
    FamilyState,
    StudyState,
    TrialState,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    studies: dict[str, int]
    """By state, every state named."""
    trials: dict[str, int]
    """By state, of studies that have not ended and of trials that have not."""
    attempts: dict[str, int]
    """By target; the same."""
    leases: int
    """Studies driven by a worker whose lease is not over."""
    pending: int
    awaiting: int
    """Promotions that await approval."""
    notifications: dict[str, int]
    """That webhooks did not take: waiting and dead."""


def read_gauges(session: ReadSession) -> Gauges:
    """Costs what the studies and what is under way cost, not their history."""
    active = select(STUDIES.c.id).where(STUDIES.c.state.not_in(sorted(STUDY_TERMINAL)))
    studies = dict.fromkeys(map(str, StudyState), 0)
    studies.update(_counts(session, STUDIES, STUDIES.c.state))
    trials = {str(state): 0 for state in TrialState if state not in TRIAL_TERMINAL}
    trials.update(
        _counts(
            session,
            TRIALS,
            TRIALS.c.state,
            TRIALS.c.study_id.in_(active) & TRIALS.c.state.not_in(sorted(TRIAL_TERMINAL)),
        )
    )
    live = ATTEMPTS.c.study_id.in_(active) & ATTEMPTS.c.state.not_in(sorted(ATTEMPT_TERMINAL))
    return Gauges(
        studies=studies,
        trials=trials,
        attempts=_counts(session, ATTEMPTS, ATTEMPTS.c.target, live),
        leases=_count(session, STUDIES, STUDIES.c.lease_expires_at > session.now()),
        pending=_count(session, COMMANDS, COMMANDS.c.state == "pending"),
        awaiting=_count(session, FAMILIES, FAMILIES.c.state == FamilyState.AWAITING_APPROVAL),
        notifications=count_notifications(session),
    )


def _counts(
    session: ReadSession,
    table: Table,
    column: ColumnElement[Any],
    where: ColumnElement[bool] | None = None,
) -> dict[str, int]:
    query = select(column, func.count()).select_from(table).group_by(column)
    if where is not None:
        query = query.where(where)
    return {str(row[0]): int(row[1]) for row in session.connection.execute(query)}


def _count(session: ReadSession, table: Table, where: ColumnElement[bool]) -> int:
    query = select(func.count()).select_from(table).where(where)
    return int(session.connection.execute(query).scalar_one())
