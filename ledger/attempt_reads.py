"""Reads of attempts by themselves: one, and those that run."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select

from ledger.database import ReadSession
from ledger.records import Attempt, Study
from ledger.rows import ARTIFACTS, ATTEMPTS, STUDIES, attempt_from, study_from
from ledger.states import STUDY_TERMINAL, AttemptState


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveAttempts:
    """How many attempts of a study are in one state, where."""

    study_id: str
    host: str
    target: str
    state: AttemptState
    count: int


def find_attempt(session: ReadSession, attempt_id: str) -> Attempt | None:
    row = session.connection.execute(select(ATTEMPTS).where(ATTEMPTS.c.id == attempt_id)).first()
    return None if row is None else attempt_from(row)


def live_attempts(session: ReadSession) -> Sequence[LiveAttempts]:
    """Launching or running, of studies that have not ended."""
    live = (AttemptState.LAUNCHING, AttemptState.RUNNING)
    keys = (ATTEMPTS.c.study_id, ATTEMPTS.c.host, ATTEMPTS.c.target, ATTEMPTS.c.state)
    unfinished = select(STUDIES.c.id).where(STUDIES.c.state.not_in(sorted(STUDY_TERMINAL)))
    query = (
        select(*keys, func.count().label("attempts"))
        .where(ATTEMPTS.c.study_id.in_(unfinished), ATTEMPTS.c.state.in_(live))
        .group_by(*keys)
        .order_by(*keys)
    )
    return [
        LiveAttempts(
            study_id=row.study_id,
            host=row.host,
            target=row.target,
            state=AttemptState(row.state),
            count=row.attempts,
        )
        for row in session.connection.execute(query)
    ]


def leased_studies(session: ReadSession) -> Sequence[Study]:
    """Studies that a worker claimed, whether or not it still lives."""
    query = select(STUDIES).where(STUDIES.c.lease_owner.is_not(None))
    rows = session.connection.execute(query.order_by(STUDIES.c.lease_owner, STUDIES.c.id))
    return [study_from(row) for row in rows]


def is_artifact(session: ReadSession, digest: str) -> bool:
    """Whether a trial left this tree: inputs and evaluators are stored beside, and are not."""
    query = select(ARTIFACTS.c.digest).where(
        ARTIFACTS.c.digest == digest, ARTIFACTS.c.trial_id.is_not(None)
    )
    return session.connection.execute(query.limit(1)).first() is not None
