"""What webhooks were told and are to be told: queues, pages, counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import and_, exists, func, or_, select, tuple_

from ledger.database import ReadSession
from ledger.errors import NotFound
from ledger.notification_records import Notification, NotificationState
from ledger.tables import Base
from ledger.time_cursors import read_cursor, write_cursor

MAX_PAGE: Final = 500
HEADS: Final = 2000

_CURSORS: Final = Base.metadata.tables["notify_cursors"]
_SENT: Final = Base.metadata.tables["notifications"]
_STUDIES: Final = Base.metadata.tables["studies"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """A study with entries that nobody looked at for its webhooks."""

    study_id: str
    state: str
    cursor: int
    head: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationPage:
    items: Sequence[Notification]
    next_cursor: str | None


def has_webhooks(session: ReadSession) -> bool:
    """Whether any study of the ledger ever named one."""
    return session.connection.execute(select(_CURSORS.c.study_id).limit(1)).first() is not None


def unseen_studies(session: ReadSession) -> list[Unseen]:
    query = select(_STUDIES.c.id, _STUDIES.c.state, _CURSORS.c.seq, _STUDIES.c.head_seq).join(
        _CURSORS, (_CURSORS.c.study_id == _STUDIES.c.id) & (_CURSORS.c.seq < _STUDIES.c.head_seq)
    )
    return [
        Unseen(study_id=row[0], state=row[1], cursor=row[2], head=row[3])
        for row in session.connection.execute(query)
    ]


def next_in_queues(session: ReadSession) -> list[Notification]:
    """The first that waits of each study's queue for each webhook, the soonest first. One behind
    another is never sent before it, so a receiver gets a study's events in their order."""
    before = _SENT.alias("earlier")
    waits = NotificationState.WAITING
    is_earlier = or_(
        before.c.queued_at < _SENT.c.queued_at,
        and_(before.c.queued_at == _SENT.c.queued_at, before.c.seq < _SENT.c.seq),
    )
    blocked = exists().where(
        before.c.study_id == _SENT.c.study_id,
        before.c.webhook == _SENT.c.webhook,
        before.c.state == waits,
        is_earlier,
    )
    query = (
        select(_SENT)
        .where(_SENT.c.state == waits, ~blocked)
        .order_by(_SENT.c.next_at, _SENT.c.id)
        .limit(HEADS)
    )
    return [_notification(row) for row in session.connection.execute(query)]


def get_notification(session: ReadSession, notification_id: str) -> Notification:
    """Raises NotFound."""
    query = select(_SENT).where(_SENT.c.id == notification_id)
    row = session.connection.execute(query).first()
    if row is None:
        raise NotFound(f"no notification has the id {notification_id}")
    return _notification(row)


def page_of_notifications(
    session: ReadSession,
    *,
    study_id: str | None = None,
    states: Sequence[NotificationState] | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> NotificationPage:
    """The newest first. Raises InvalidInput."""
    query = select(_SENT)
    if study_id is not None:
        query = query.where(_SENT.c.study_id == study_id)
    if states:
        query = query.where(_SENT.c.state.in_([str(state) for state in states]))
    order = (_SENT.c.created_at, _SENT.c.id)
    if cursor is not None:
        query = query.where(tuple_(*order) < tuple_(*read_cursor(cursor)))
    query = query.order_by(*(column.desc() for column in order)).limit(limit + 1)
    rows = session.connection.execute(query).all()
    last = rows[limit - 1] if len(rows) > limit else None
    return NotificationPage(
        items=[_notification(row) for row in rows[:limit]],
        next_cursor=None if last is None else write_cursor(last.created_at, last.id),
    )


def count_notifications(session: ReadSession, study_id: str | None = None) -> dict[str, int]:
    """Those that are not delivered, by state; both states named."""
    found = {str(NotificationState.WAITING): 0, str(NotificationState.DEAD): 0}
    query = select(_SENT.c.state, func.count()).where(_SENT.c.state.in_(list(found)))
    if study_id is not None:
        query = query.where(_SENT.c.study_id == study_id)
    for state, count in session.connection.execute(query.group_by(_SENT.c.state)):
        found[state] = count
    return found


def _notification(row: Any) -> Notification:
    return Notification(
        id=row.id,
        study_id=row.study_id,
        seq=row.seq,
        event=row.event,
        webhook=row.webhook,
        secret=row.secret,
        body=row.body,
        state=NotificationState(row.state),
        tries=row.tries,
        status=row.status,
        detail=row.detail,
        created_at=row.created_at,
        queued_at=row.queued_at,
        next_at=row.next_at,
        tried_at=row.tried_at,
        done_at=row.done_at,
        lease_owner=row.lease_owner,
        lease_expires_at=row.lease_expires_at,
    )
