"""What a webhook was, or will be, told: one event of one study."""

from dataclasses import dataclass
from enum import StrEnum


class NotificationState(StrEnum):
    WAITING = "waiting"
    DELIVERED = "delivered"
    DEAD = "dead"
    """Given up; an operator may send it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNotification:
    """One that is to be queued."""

    study_id: str
    seq: int
    """Of the entry that it is made of."""
    event: str
    webhook: str
    secret: str | None
    """The name of ARL's environment variable; never what it holds."""
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    id: str
    study_id: str
    seq: int
    event: str
    webhook: str
    secret: str | None
    body: str
    state: NotificationState
    tries: int
    status: int | None
    """HTTP's, of the last try; None where no answer came."""
    detail: str
    created_at: float
    queued_at: float
    next_at: float
    tried_at: float | None
    done_at: float | None
    lease_owner: str | None
    lease_expires_at: float | None

    @property
    def message_id(self) -> str:
        """What its receiver knows it by: the same however often it is sent, also after a crash."""
        return message_id(self.study_id, self.seq)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What one try of sending it came to."""

    state: NotificationState
    status: int | None
    detail: str
    wait_s: float = 0.0
    """Until the next try, where it waits."""


def message_id(study_id: str, seq: int) -> str:
    """An entry is at most one event, so its place names the event."""
    return f"{study_id}-{seq}"
