"""Sends one notification: signed as standard webhooks are, to checked addresses, bounded."""

import re
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from controller.decisions.message_signing import signed_headers, signing_key
from controller.decisions.notifying import Answered
from controller.settings import Settings, read_secret
from ledger.errors import ArlError
from ledger.notification_records import Notification
from targets.outbound_addresses import parse_policy

if TYPE_CHECKING:
    from targets.outbound import Outbound

SEND_S: Final = 10.0
"""For resolving, connecting, sending, and the head of the answer; nothing more of it is read."""


class Webhooks:
    """Thread-safe; opens nothing before the first is sent."""

    def __init__(self, settings: Settings, secret_of: Callable[[str], str] = read_secret) -> None:
        allowed = settings.notify_allow_private
        self._policy = parse_policy(
            "1" if allowed is None else allowed, variable="ARL_NOTIFY_ALLOW_PRIVATE"
        )
        self._secret_of = secret_of
        self._lock = threading.Lock()
        self._outbound: Outbound | None = None
        self._aborted = False

    def send(self, one: Notification) -> Answered:
        """What its receiver says to it."""
        from proposers.chat_answer import retry_after_s

        body = one.body.encode()
        try:
            headers = signed_headers(one.message_id, int(time.time()), body, self._key(one))
            answer = self._open().request(
                "POST",
                one.webhook,
                timeout_s=SEND_S,
                max_bytes=0,
                content=body,
                headers={
                    "content-type": "application/json",
                    "user-agent": f"arl/{version('arl')}",
                    **headers,
                },
                head_only=True,
            )
        except ArlError as error:
            return Answered(status=None, detail=_without_address(error, one.webhook))
        taken = 200 <= answer.status < 300
        moved = " and redirects are not followed" if 300 <= answer.status < 400 else ""
        return Answered(
            status=answer.status,
            detail="" if taken else f"the receiver answered {answer.status}{moved}",
            retry_after_s=retry_after_s(answer.headers),
        )

    def _key(self, one: Notification) -> bytes | None:
        return None if one.secret is None else signing_key(self._secret_of(one.secret), one.secret)

    def _open(self) -> "Outbound":
        from targets.outbound import GuardedTransport, Outbound

        with self._lock:
            if self._outbound is None:
                self._outbound = Outbound(GuardedTransport(self._policy))
                if self._aborted:
                    self._outbound.abort()
            return self._outbound

    def abort(self) -> None:
        """Cut what is under way, for good."""
        with self._lock:
            self._aborted = True
            if self._outbound is not None:
                self._outbound.abort()

    def close(self) -> None:
        with self._lock:
            if self._outbound is not None:
                self._outbound.close()
                self._outbound = None


def _without_address(error: ArlError, webhook: str) -> str:
    """An address may be a key of its own, and stands beside the error anyway."""
    text = str(error)
    head, colon, rest = text.partition(": ")
    words = rest if colon and webhook.startswith(head) else text
    return re.sub(r"^\[Errno -?[0-9]+\] ", "", words)[:500]
