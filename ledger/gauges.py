"""How much of everything there is now, in a few indexed counts."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Table, exists, func, or_, select, text

from ledger.database import ReadSession
from ledger.notifications import count_notifications
from ledger.pools import seen_workers
from ledger.records import PausedBy
from ledger.rows import ATTEMPTS, BUDGETS, COMMANDS, FAMILIES, STUDIES, TRIALS
from ledger.states import (
    ATTEMPT_TERMINAL,
    STUDY_TERMINAL,
    TRIAL_TERMINAL,
    AttemptState,
    FamilyState,
    StudyState,
    TrialState,
)

BUDGETED: Final = 200
"""Studies whose budgets are told of, the newest: each is a series of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Of one study that has not ended, where a limit was set."""

    study_id: str
    resource: str
    limit: float
    spent: float
    reserved: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """Who works, and what nobody works on."""

    workers: dict[tuple[str, ...], int]
    """By host, and by whether they drive a study or have nothing to do: driving, idle."""
    lease_left_s: float | None
    """Of the lease that ends soonest; None where there is none."""
    unclaimed: int
    """Studies with something to do that no live worker drives."""


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
    driven: Driven
    paused: dict[tuple[str, ...], int]
    """By reason and by whom."""
    budgets: list[Budget]
    pending: int
    pending_s: float
    """How long the oldest of them waits."""
    awaiting: int
    """Promotions that await approval."""
    notifications: dict[str, int]
    """That webhooks did not take: waiting and dead."""
    size_bytes: int
    """Of the database, without what it keeps beside its tables."""


def read_gauges(session: ReadSession, lease_s: float) -> Gauges:
    """Costs what the studies and what is under way cost, not their history. A worker that was
    not heard of for `lease_s` is none."""
    active = select(STUDIES.c.id).where(STUDIES.c.state.not_in(sorted(STUDY_TERMINAL)))
    studies = dict.fromkeys(map(str, StudyState), 0)
    studies.update(_counts(session, STUDIES, STUDIES.c.state))
    # Named one by one: an index leads to these, and to none that are not in a list.
    trials = {str(state): 0 for state in TrialState if state not in TRIAL_TERMINAL}
    open_attempts = [str(state) for state in AttemptState if state not in ATTEMPT_TERMINAL]
    trials.update(
        _counts(
            session,
            TRIALS,
            TRIALS.c.state,
            TRIALS.c.study_id.in_(active) & TRIALS.c.state.in_(sorted(trials)),
        )
    )
    live = ATTEMPTS.c.study_id.in_(active) & ATTEMPTS.c.state.in_(open_attempts)
    pending, pending_s = _pending(session)
    return Gauges(
        studies=studies,
        trials=trials,
        attempts=_counts(session, ATTEMPTS, ATTEMPTS.c.target, live),
        leases=_count(session, STUDIES, STUDIES.c.lease_expires_at > session.now()),
        driven=_driven(session, lease_s),
        pending=pending,
        pending_s=pending_s,
        paused=_paused(session),
        budgets=_budgets(session),
        awaiting=_count(session, FAMILIES, FAMILIES.c.state == FamilyState.AWAITING_APPROVAL),
        notifications=count_notifications(session),
        size_bytes=_size_bytes(session),
    )


def _driven(session: ReadSession, lease_s: float) -> Driven:
    now = session.now()
    query = select(STUDIES.c.lease_owner, func.min(STUDIES.c.lease_expires_at))
    held = query.where(STUDIES.c.lease_expires_at > now).group_by(STUDIES.c.lease_owner)
    leases = session.connection.execute(held).all()
    asked = exists().where(COMMANDS.c.study_id == STUDIES.c.id, COMMANDS.c.state == "pending")
    free = or_(STUDIES.c.lease_expires_at.is_(None), STUDIES.c.lease_expires_at <= now)
    rests = (STUDIES.c.state == StudyState.PAUSED) & (STUDIES.c.paused_by == PausedBy.OPERATOR)
    wants = asked | (STUDIES.c.state.not_in(sorted(STUDY_TERMINAL)) & ~rests)
    return Driven(
        workers=_workers({str(row[0]) for row in leases}, seen_workers(session, lease_s)),
        lease_left_s=min((float(until) - now for _, until in leases), default=None),
        unclaimed=_count(session, STUDIES, free & wants),
    )


def _workers(driving: Collection[str], seen: Iterable[str]) -> dict[tuple[str, ...], int]:
    """A command that drives the studies it was given is in no list of workers that are seen."""
    found: Counter[tuple[str, ...]] = Counter((_host(owner), "driving") for owner in driving)
    found.update((_host(owner), "idle") for owner in seen if owner not in driving)
    return dict(found)


def _host(owner: str) -> str:
    return owner.rsplit("/", 2)[0]


def _pending(session: ReadSession) -> tuple[int, float]:
    """How many commands wait, and how long the oldest of them does."""
    query = select(func.count(), func.min(COMMANDS.c.created_at)).where(
        COMMANDS.c.state == "pending"
    )
    count, oldest = session.connection.execute(query).one()
    waits_s = 0.0 if oldest is None else max(0.0, session.now() - float(oldest))
    return int(count), waits_s


def _paused(session: ReadSession) -> dict[tuple[str, ...], int]:
    keys = (STUDIES.c.reason, STUDIES.c.paused_by)
    query = select(*keys, func.count()).where(STUDIES.c.state == StudyState.PAUSED)
    rows = session.connection.execute(query.group_by(*keys))
    return {(row[0] or "none", row[1] or "none"): int(row[2]) for row in rows}


def _budgets(session: ReadSession) -> list[Budget]:
    newest = (
        select(STUDIES.c.id)
        .where(STUDIES.c.state.not_in(sorted(STUDY_TERMINAL)))
        .order_by(STUDIES.c.created_at.desc())
        .limit(BUDGETED)
    )
    query = select(BUDGETS).where(
        BUDGETS.c.study_id.in_(newest), BUDGETS.c.amount_limit.is_not(None)
    )
    rows = session.connection.execute(query.order_by(BUDGETS.c.study_id, BUDGETS.c.resource))
    return [
        Budget(
            study_id=row.study_id,
            resource=row.resource,
            limit=row.amount_limit,
            spent=row.spent,
            reserved=row.reserved,
        )
        for row in rows
    ]


def _size_bytes(session: ReadSession) -> int:
    run = session.connection.execute
    if session.dialect.name == "postgresql":
        return int(run(text("SELECT pg_database_size(current_database())")).scalar_one())
    pages = int(run(text("PRAGMA page_count")).scalar_one())
    return pages * int(run(text("PRAGMA page_size")).scalar_one())


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
