"""Tells webhooks beside the loop: a thread that looks and claims, and a few that send."""

import logging
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final
from urllib.parse import urlsplit

from controller.decisions.notifying import Patience, decide_next
from controller.wiring import Service
from controller.worker.leases import is_owner_gone
from controller.worker.noticing import Noticing
from controller.worker.webhooks import SEND_S, Webhooks
from ledger import writes
from ledger.commit_watch import CommitWatch
from ledger.errors import ArlError
from ledger.notification_records import Notification, NotificationState, Tried
from ledger.notifications import count_notifications, has_webhooks, next_in_queues

log = logging.getLogger("arl.worker")

LOOK_EVERY_S: Final = 0.5
"""How soon an entry is noticed; a look costs nothing while nothing was committed."""
SHORTEST_S: Final = 0.02
LONGEST_SLEEP_S: Final = 3600.0
TROUBLE_S: Final = 2.0
HURRY_S: Final = 0.1
SENDERS: Final = 4
LEASE_S: Final = 2 * SEND_S + 40.0
"""Longer than a try can take: who holds one that is over has ended, or is stuck."""
LAST_S: Final = 10.0
"""How long the end of a command may wait for what is being sent."""


class Notifier:
    """Of one process. Where it is killed its claims run out, and the next one goes on: what was
    sent and not noted is sent again, under the same id."""

    def __init__(self, service: Service, owner: str, patience: Patience | None = None) -> None:
        self._ledger = service.ledger
        self._host = service.settings.host
        self._owner = owner
        self._patience = patience or Patience()
        self._noticing = Noticing(service.ledger, service.settings)
        self._webhooks = Webhooks(service.settings)
        self._watch: CommitWatch | None = None
        self._look_again = True
        self._due_at = 0.0
        """Monotonic: when the next one that waits is due."""
        self._in_flight: dict[str, str] = {}
        """Host by id of what is being sent."""
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._draining = False
        self._hurried = False
        self._idle = threading.Event()
        self._senders = ThreadPoolExecutor(SENDERS, thread_name_prefix="arl-webhook")
        self._turns = ThreadPoolExecutor(1, thread_name_prefix="arl-notify")
        self._thread = threading.Thread(target=self._run, name="arl-notifier", daemon=True)

    def start(self, *, only_if_needed: bool = False) -> None:
        """Begin; with `only_if_needed` only where some study of the ledger names a webhook."""
        if not only_if_needed or self._is_needed():
            self._thread.start()

    def _is_needed(self) -> bool:
        try:
            with self._ledger.read() as session:
                return has_webhooks(session)
        except ArlError:
            return True  # nobody knows before the ledger answers

    def hurry(self) -> None:
        """Let `end` wait no longer; callable from a signal handler."""
        self._hurried = True

    def end(self, within_s: float) -> None:
        """Let go. With time left, first give everything that is due its try; nothing that has to
        be tried again is waited for."""
        if not self._thread.is_alive():
            return
        until = time.monotonic() + within_s
        if within_s > 0:
            self._draining = True
            self._wake.set()
        while not self._hurried and not self._idle.wait(min(HURRY_S, until - time.monotonic())):
            if time.monotonic() >= until:
                break
        self._ending.set()
        self._wake.set()
        self._webhooks.abort()
        self._thread.join()
        self._turns.shutdown()
        self._senders.shutdown()
        self._webhooks.close()
        if self._watch is not None:
            self._watch.close()
        if within_s > 0 and not self._hurried:
            self._tell_what_is_left()

    def _run(self) -> None:
        while not self._ending.is_set():
            # As a task of its own, so that whatever goes wrong in one turn does not end the next.
            error = self._turns.submit(self._turn).exception()
            if error is not None:
                self._look_again = True
                log.warning("webhooks wait: %s: %s", type(error).__name__, error)
            self._wake.wait(TROUBLE_S if error is not None else self._pause_s())
            self._wake.clear()

    def _pause_s(self) -> float:
        return min(max(self._due_at - time.monotonic(), SHORTEST_S), LOOK_EVERY_S)

    def _turn(self) -> None:
        """Notice what is new, and begin to send what is due."""
        draining = self._draining
        if self._watch is None:
            self._watch = CommitWatch(self._ledger)
        if self._watch.has_news() or self._look_again or draining:
            self._look_again = False
            while self._noticing.look() and not self._ending.is_set():
                continue
        elif time.monotonic() < self._due_at:
            return
        # Asked before: what ends from here on may have another one behind it.
        is_sending = bool(self._in_flight)
        began = self._send_due()
        if draining and not began and not is_sending:
            self._idle.set()

    def _send_due(self) -> int:
        with self._ledger.read() as session:
            now, found = session.now(), next_in_queues(session)
        began, wait_s = 0, LONGEST_SLEEP_S
        for one in found:
            waits_s = one.next_at - now
            if 0 < waits_s <= self._patience.longest_s + self._patience.longest_asked_s:
                wait_s = min(wait_s, waits_s)
            elif not self._is_free(one, now):
                wait_s = min(wait_s, LOOK_EVERY_S)
            elif self._begin(one):  # due, or queued before the clock was set back
                began += 1
        self._due_at = time.monotonic() + wait_s
        return began

    def _is_free(self, one: Notification, now: float) -> bool:
        """Whether nobody sends it, and nothing else is being sent to its host: a receiver that
        does not answer holds up its own notifications only."""
        with self._lock:
            if _host(one) in self._in_flight.values() or len(self._in_flight) >= SENDERS:
                return False
        left_s = (one.lease_expires_at or now) - now
        if one.lease_owner is None or not 0 < left_s <= LEASE_S:
            return True
        return is_owner_gone(one.lease_owner, self._host)

    def _begin(self, one: Notification) -> bool:
        gone = one.lease_owner
        with self._ledger.write() as session:
            if not writes.claim_notification(session, one.id, self._owner, LEASE_S, gone=gone):
                return False
        with self._lock:
            self._in_flight[one.id] = _host(one)
        self._senders.submit(self._send, one).add_done_callback(self._sent(one))
        return True

    def _sent(self, one: Notification) -> Callable[["Future[None]"], None]:
        def done(future: "Future[None]") -> None:
            with self._lock:
                self._in_flight.pop(one.id, None)
            error = future.exception()
            if error is not None:  # its claim runs out, and it is sent again
                log.warning("notification %s: %s: %s", one.id, type(error).__name__, error)
            self._look_again = True
            self._wake.set()

        return done

    def _send(self, one: Notification) -> None:
        answered = self._webhooks.send(one)
        with self._ledger.write() as session:
            if answered.status is None and self._ending.is_set():
                writes.release_notification(session, one.id, self._owner)
                return
            tried = decide_next(
                answered,
                tries=one.tries + 1,
                queued_for_s=session.now() - one.queued_at,
                chance=random.random(),
                patience=self._patience,
            )
            writes.settle_notification(session, one.id, self._owner, tried)
        _tell(one, tried)

    def _tell_what_is_left(self) -> None:
        try:
            with self._ledger.read() as session:
                waiting = count_notifications(session)["waiting"]
        except ArlError:
            return
        if waiting:
            log.warning(
                "%d notifications wait for their webhooks: whatever works on this ledger next "
                "sends them (`arl notifications`)",
                waiting,
            )


def _host(one: Notification) -> str:
    return urlsplit(one.webhook).netloc


def _tell(one: Notification, tried: Tried) -> None:
    """The first failure and the last one; an address may be a key, so only its host is named."""
    what = f"notification {one.id} ({one.event}) to {_host(one)}"
    if tried.state is NotificationState.DEAD:
        log.warning("%s: %s: `arl notifications --resend %s`", what, tried.detail, one.id)
    elif tried.state is NotificationState.WAITING and one.tries == 0:
        log.warning("%s: %s; again in %.0f s", what, tried.detail, tried.wait_s)
