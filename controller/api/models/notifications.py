"""What webhooks were told, on the wire."""

from pydantic import Field, JsonValue

from controller.api.models.wire import ISO, Iso, Out, example
from controller.spec.notify import Event
from ledger.notification_records import NotificationState

_ONE: dict[str, JsonValue] = {
    "notification": "s1a2b3c4d5-72-890c61fa",
    "message": "s1a2b3c4d5-72",
    "study": "s1a2b3c4d5",
    "seq": 72,
    "event": "study_completed",
    "webhook": "https://example.org/hooks/arl",
    "signed_with": "ARL_SECRET_HOOKS",
    "state": "delivered",
    "tries": 1,
    "status": 204,
    "detail": "",
    "created_at": ISO,
    "tried_at": ISO,
    "next_at": None,
    "done_at": ISO,
}


class NotificationOut(Out):
    """One event for one webhook, and how it stands."""

    model_config = example(_ONE)
    notification: str
    message: str = Field(description="`webhook-id`: the same however often it is sent.")
    study: str
    seq: int = Field(description="Of the entry that it is made of.")
    event: Event
    webhook: str
    signed_with: str | None = Field(description="The name of the operator's secret.")
    state: NotificationState
    tries: int
    status: int | None = Field(description="Of the last answer; null where none came.")
    detail: str = Field(description="Why the last try failed.")
    created_at: Iso
    tried_at: Iso | None
    next_at: Iso | None = Field(description="When it is tried next; null once it is not.")
    done_at: Iso | None


class NotificationCounts(Out):
    """Those of a study that are not delivered."""

    model_config = example({"waiting": 1, "dead": 0})
    waiting: int
    dead: int
