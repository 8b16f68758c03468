"""Queues what webhooks are to be told, and notes what came of it. No chain is touched."""

from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import insert, or_, select, update

from ledger.database import WriteSession
from ledger.digests import sha256_hex
from ledger.errors import NotFound
from ledger.notification_records import (
    NewNotification,
    NotificationState,
    Tried,
    message_id,
)
from ledger.records import Json
from ledger.tables import Base

_CURSORS: Final = Base.metadata.tables["notify_cursors"]
_SENT: Final = Base.metadata.tables["notifications"]


def open_cursor(session: WriteSession, study_id: str, spec: Mapping[str, Json]) -> None:
    """Look at the study's entries from now on, if its file names webhooks."""
    if spec.get("notify"):
        session.connection.execute(insert(_CURSORS).values(study_id=study_id, seq=0))


def queue_notifications(
    session: WriteSession,
    study_id: str,
    found: Sequence[NewNotification],
    *,
    current: int,
    new: int,
) -> bool:
    """Queue what the entries from `current` up to `new` amount to, in one transaction with the
    cursor: each entry is looked at exactly once. False where another worker was faster."""
    moved = session.connection.execute(
        update(_CURSORS)
        .where(_CURSORS.c.study_id == study_id, _CURSORS.c.seq == current)
        .values(seq=new)
    )
    if moved.rowcount != 1:
        return False
    now = session.now()
    if found:
        session.connection.execute(insert(_SENT), [_row(one, now) for one in found])
    return True


def claim_notification(
    session: WriteSession, notification_id: str, owner: str, lease_s: float, *, gone: str | None
) -> bool:
    """Take it for one try; `gone` is an owner whose process is known to have ended."""
    now = session.now()
    free = [
        _SENT.c.lease_owner.is_(None),
        _SENT.c.lease_expires_at <= now,
        _SENT.c.lease_expires_at > now + lease_s,  # the clock was set back
    ]
    if gone is not None:
        free.append(_SENT.c.lease_owner == gone)
    taken = session.connection.execute(
        update(_SENT)
        .where(_SENT.c.id == notification_id, _SENT.c.state == NotificationState.WAITING)
        .where(or_(*free))
        .values(lease_owner=owner, lease_expires_at=now + lease_s)
    )
    return taken.rowcount == 1


def settle_notification(
    session: WriteSession, notification_id: str, owner: str, tried: Tried
) -> bool:
    """Note a try that `owner` made. False where the lease was somebody else's by then."""
    now = session.now()
    done = tried.state is not NotificationState.WAITING
    settled = session.connection.execute(
        update(_SENT)
        .where(_SENT.c.id == notification_id, _SENT.c.lease_owner == owner)
        .where(_SENT.c.state == NotificationState.WAITING)
        .values(
            state=str(tried.state),
            tries=_SENT.c.tries + 1,
            status=tried.status,
            detail=tried.detail,
            next_at=now + tried.wait_s,
            tried_at=now,
            done_at=now if done else None,
            lease_owner=None,
            lease_expires_at=None,
        )
    )
    return settled.rowcount == 1


def release_notification(session: WriteSession, notification_id: str, owner: str) -> None:
    """Give it back untried: whoever took it ends."""
    session.connection.execute(
        update(_SENT)
        .where(_SENT.c.id == notification_id, _SENT.c.lease_owner == owner)
        .values(lease_owner=None, lease_expires_at=None)
    )


def resend_notification(session: WriteSession, notification_id: str) -> None:
    """Try it again as if for the first time, behind what waits for the same webhook; one that
    still waits keeps its place, and it and those before it wait no longer. Raises NotFound."""
    query = select(_SENT).where(_SENT.c.id == notification_id)
    found = session.connection.execute(query).first()
    if found is None:
        raise NotFound(f"no notification has the id {notification_id}")
    now, waits = session.now(), str(NotificationState.WAITING)
    again = {"state": waits, "tries": 0, "next_at": now, "done_at": None}
    if found.state != waits:
        again |= {"queued_at": now, "status": None, "detail": ""}
    change = update(_SENT).where(_SENT.c.id == notification_id)
    session.connection.execute(change.values(again))
    session.connection.execute(
        update(_SENT)
        .where(_SENT.c.study_id == found.study_id, _SENT.c.webhook == found.webhook)
        .where(_SENT.c.state == waits, _SENT.c.next_at > now)
        .values(next_at=now)
    )


def _row(new: NewNotification, now: float) -> dict[str, object]:
    of_webhook = sha256_hex(new.webhook.encode())[:8]
    return {
        "id": f"{message_id(new.study_id, new.seq)}-{of_webhook}",
        "study_id": new.study_id,
        "seq": new.seq,
        "event": new.event,
        "webhook": new.webhook,
        "secret": new.secret,
        "body": new.body,
        "state": str(NotificationState.WAITING),
        "tries": 0,
        "status": None,
        "detail": "",
        "created_at": now,
        "queued_at": now,
        "next_at": now,
        "tried_at": None,
        "done_at": None,
        "lease_owner": None,
        "lease_expires_at": None,
    }
