"""What webhooks were told: lists, and sending one again."""

from typing import Annotated, Any

from fastapi import Depends, Path, Query

from controller.api.models.commands import Nothing
from controller.api.models.notifications import NotificationCounts, NotificationOut
from controller.api.models.wire import Page
from controller.api.mutations import Mutation, mutation
from controller.api.problems import documented
from controller.api.reading import (
    LONGEST_NAME,
    Cursor,
    Limit,
    Reader,
    StudyName,
    TheService,
    study_named,
)
from controller.api.routing import new_router
from controller.api.tokens import Scope
from controller.documents.notifications import notification_document
from ledger import writes
from ledger.database import WriteSession
from ledger.errors import NotFound
from ledger.notification_records import NotificationState
from ledger.notifications import (
    count_notifications,
    get_notification,
    page_of_notifications,
)
from ledger.records import Json

router = new_router("notifications")

States = Annotated[list[NotificationState] | None, Query(description="Only these states")]
NotificationId = Annotated[str, Path(max_length=LONGEST_NAME, description="A notification's id")]
Submit = Annotated[Mutation, Depends(mutation(Scope.SUBMIT))]


@router.get("/notifications", response_model=Page[NotificationOut], responses=documented(404, 409))
def list_notifications(
    _: Reader,
    service: TheService,
    study: Annotated[str | None, Query(max_length=200, description="Only this study's")] = None,
    state: States = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> dict[str, Any]:
    """What webhooks were and are to be told, the newest first."""
    with service.ledger.read() as session:
        page = page_of_notifications(
            session,
            study_id=None if study is None else study_named(session, study).id,
            states=state,
            cursor=cursor,
            limit=limit,
        )
    items = [notification_document(one) for one in page.items]
    return {"items": items, "next_cursor": page.next_cursor}


@router.get(
    "/studies/{study}/notifications/counts",
    response_model=NotificationCounts,
    responses=documented(404, 409),
)
def count_of_notifications(_: Reader, service: TheService, study: StudyName) -> dict[str, int]:
    """How many of a study's wait, and how many were given up."""
    with service.ledger.read() as session:
        return count_notifications(session, study_named(session, study).id)


@router.get(
    "/notifications/{notification}", response_model=NotificationOut, responses=documented(404)
)
def show_notification(
    _: Reader, service: TheService, notification: NotificationId
) -> dict[str, Any]:
    """One, as it stands."""
    with service.ledger.read() as session:
        return notification_document(get_notification(session, _storable(notification)))


@router.post(
    "/notifications/{notification}/resend",
    response_model=NotificationOut,
    status_code=202,
    responses=documented(404),
)
def resend(change: Submit, notification: NotificationId, body: Nothing | None = None) -> Any:
    """Send it again, under the id that its receiver knows; a worker does."""

    def act(session: WriteSession) -> dict[str, Json]:
        writes.resend_notification(session, _storable(notification))
        return notification_document(get_notification(session, notification))

    return change.run(act, status=202).response()


def _storable(name: str) -> str:
    """PostgreSQL refuses a zero byte in any text: nothing is named so."""
    if "\0" in name:
        raise NotFound("no notification has that id")
    return name
