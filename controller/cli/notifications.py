"""`arl notifications`: what webhooks were told, what they did not take, and sending it again."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer

from controller.cli.naming import find_study
from controller.cli.opening import actor, ledger_opened, service_opened
from controller.cli.output import OK, console, print_json, table
from controller.cli.source import server_named
from controller.cli.text import clipped, plain
from controller.documents.notifications import notification_document
from ledger.database import ReadSession
from ledger.errors import InvalidInput
from ledger.notification_records import NotificationState
from ledger.notifications import get_notification, page_of_notifications
from ledger.records import Json

MOST: Final = 500

Document = Mapping[str, Json]

StudyName = Annotated[
    str | None,
    typer.Argument(metavar="[STUDY]", help="only this study's: id, unique name, or `last`"),
]
States = Annotated[
    list[NotificationState] | None, typer.Option("--state", help="only those in this state")
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=MOST, help="the newest so many")]
Resend = Annotated[
    list[str] | None,
    typer.Option("--resend", metavar="ID", help="send this one again; may be given again"),
]
ResendDead = Annotated[
    bool, typer.Option("--resend-dead", help="send again what was given up (of STUDY)")
]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]


def notifications(
    study: StudyName = None,
    state: States = None,
    limit: Limit = 50,
    resend: Resend = None,
    resend_dead: ResendDead = False,
    as_json: AsJson = False,
) -> int:
    """List what webhooks (`notify` in the study file) were told, the newest first.

    A webhook that does not answer is asked again for hours; then its notification is `dead` until
    it is sent again with --resend, under the same id.
    """
    if resend and (resend_dead or state or study):
        raise InvalidInput("--resend: it names what to send; leave STUDY and the others out")
    if resend_dead and state:
        raise InvalidInput("--resend-dead: it sends the dead ones again; leave --state out")
    if resend or resend_dead:
        found = _sent_again(study, resend)
    else:
        found = _listed(study, state or (), limit)
    if as_json:
        print_json({"notifications": [dict(one) for one in found]})
        return OK
    _print(found)
    return OK


def _listed(
    study: str | None, states: Sequence[NotificationState], limit: int
) -> Sequence[Document]:
    if server_named():
        from controller.cli.server_notifications import listed

        return listed(study, states, limit)
    with ledger_opened() as ledger, ledger.read() as session:
        page = page_of_notifications(
            session, study_id=_id_of(session, study), states=states, limit=limit
        )
    return [notification_document(one) for one in page.items]


def _id_of(session: ReadSession, study: str | None) -> str | None:
    return None if study is None else find_study(session, study).id


def _sent_again(study: str | None, ids: Sequence[str] | None) -> Sequence[Document]:
    """On a server its worker sends them; here this process does, whatever else is running."""
    if server_named():
        from controller.cli.server_notifications import sent_again

        return sent_again(study, ids)
    from controller.cli.log_lines import listen_to_the_worker
    from controller.steps.resending import resend
    from controller.worker.leases import owner_name
    from controller.worker.notifier import LAST_S, Notifier

    listen_to_the_worker()
    with service_opened() as service:
        chosen = list(ids or ())
        if ids is None:
            with service.ledger.read() as session:
                dead = page_of_notifications(
                    session,
                    study_id=_id_of(session, study),
                    states=[NotificationState.DEAD],
                    limit=MOST,
                )
            chosen = [one.id for one in reversed(dead.items)]
        for name in chosen:
            resend(service, name, actor())
        notifier = Notifier(service, owner_name(service.settings.host))
        notifier.start()
        notifier.end(LAST_S)
        with service.ledger.read() as session:
            return [notification_document(get_notification(session, name)) for name in chosen]


def _print(found: Sequence[Document]) -> None:
    if not found:
        print("none: a study's `notify` section names webhooks (docs/service.md)")
        return
    rows = [
        (
            str(one["notification"]),
            str(one["event"]),
            clipped(plain(urlsplit(str(one["webhook"])).netloc), 30),
            str(one["state"]),
            str(one["tries"]),
            str(one["created_at"] or "")[:19],
            clipped(plain(str(one["detail"])), 60),
        )
        for one in found
    ]
    columns = ("notification", "event", "to", "state", ">tries", "since (UTC)", "last failure")
    console().print(table(*columns, rows=rows))
