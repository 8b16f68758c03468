"""Puts a notification back in its webhook's queue, on an operator's word."""

from controller.wiring import Service
from ledger import writes
from ledger.notification_records import Notification
from ledger.notifications import get_notification
from ledger.service_entries import RequestMade

ROUTE = "/notifications/{notification}/resend"


def resend(service: Service, notification_id: str, actor: str) -> Notification:
    """Send it again, and note in the service chain who wanted so. Raises NotFound."""
    asked = RequestMade(
        method="POST",
        route=ROUTE,
        subject=f"notification={notification_id}",
        body_digest="",
        status=202,
        actor=actor,
    )
    with service.ledger.write() as session:
        writes.resend_notification(session, notification_id)
        writes.append_service(session, [asked])
        return get_notification(session, notification_id)
