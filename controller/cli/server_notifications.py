"""`arl notifications` against a server."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from controller.cli.server_source import ServerSource
from controller.client import Client
from ledger.notification_records import NotificationState

Document = dict[str, Any]


def listed(study: str | None, states: Sequence[NotificationState], limit: int) -> list[Document]:
    """The newest first."""
    with Client() as client:
        found = client.notifications(
            study=None if study is None else ServerSource(client).study_id(study),
            state=[str(state) for state in states] or None,
        )
        return [one.model_dump(mode="json") for one in islice(found, limit)]


def sent_again(study: str | None, ids: Sequence[str] | None) -> list[Document]:
    """Those named, or all that were given up (of a study); how they stand once that is asked."""
    chosen = ids
    if chosen is None:
        dead = listed(study, [NotificationState.DEAD], 500)
        chosen = [str(one["notification"]) for one in reversed(dead)]
    with Client() as client:
        return [client.resend(name).model_dump(mode="json") for name in chosen]
