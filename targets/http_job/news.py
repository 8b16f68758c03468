"""Waiting for attempts of a job service to have news: one long poll for all who wait."""

import logging
import random
import threading
import time
from collections.abc import Callable, Collection
from typing import Final

from ledger.errors import ArlError
from targets.http_job.client import JobClient
from targets.http_job.documents import NewsDoc

log = logging.getLogger("arl.targets.http")

POLL_S: Final = 10.0
"""How long the service may hold an answer back."""
IDLE_S: Final = 60.0
"""The poll ends once nobody has waited for so long."""


class Bell:
    """Wakes whoever waits for news of any service. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rung = 0
        self._interrupted = False

    def ring(self) -> None:
        with self._changed:
            self._rung += 1
            self._changed.notify_all()

    def interrupt(self) -> None:
        """Make the current, or next, wait return at once."""
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def wait(self, take: Callable[[], set[str]], timeout_s: float) -> set[str]:
        """What `take` gives once that is something; nothing after an interrupt or the time.
        Raises what it raises."""
        until = time.monotonic() + timeout_s
        while True:
            with self._changed:
                rung = self._rung
                if self._interrupted:
                    self._interrupted = False
                    return set()
            found = take()
            left_s = until - time.monotonic()
            if found or left_s <= 0:
                return found
            with self._changed:
                if self._rung == rung and not self._interrupted:
                    self._changed.wait(left_s)


class HttpNews:
    """Which attempts have something new since they were last asked about. Thread-safe.

    One thread per service polls while somebody waits; it survives whatever the service does.
    """

    def __init__(self, client: JobClient, interrupted: Callable[[], None]) -> None:
        self._client = client
        self._tell = interrupted
        self._lock = threading.Lock()
        self._cursor = ""
        self._known: set[str] = set()
        """Nothing about them can have been missed."""
        self._fresh: set[str] = set()
        self._ended: set[str] = set()
        self._away: ArlError | None = None
        self._polling: threading.Thread | None = None
        self._wanted_at = 0.0
        self._closed = False

    def take(self, names: Collection[str]) -> set[str]:
        """Those with news; raises TargetUnavailable when the service is away. Polls from now
        on."""
        with self._lock:
            self._wanted_at = time.monotonic()
            if names:
                self._start()
            found = {
                name
                for name in names
                if name in self._fresh or name in self._ended or name not in self._known
            }
            if not found and self._away is not None:
                error, self._away = self._away, None
                raise error
            self._fresh -= found
            self._known |= found
            return found

    def expect(self, name: str) -> None:
        """It is about to be launched: whatever happens to it from now on will be told. Raises
        TargetUnavailable."""
        with self._lock:
            self._wanted_at = time.monotonic()
            cursor = self._cursor
        if not cursor:
            news = self._client.ask("GET", "/v1/news", NewsDoc)
            with self._lock:
                self._cursor = self._cursor or news.cursor
        with self._lock:
            self._known.add(name)
            self._start()

    def ended(self, name: str) -> None:
        with self._lock:
            self._ended.add(name)

    def forget(self, name: str) -> None:
        with self._lock:
            for names in (self._known, self._fresh, self._ended):
                names.discard(name)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            polling = self._polling
        self._client.stop()
        if polling is not None:
            polling.join(POLL_S)
        self._client.close()

    def _start(self) -> None:
        if self._polling is None and not self._closed:
            self._polling = threading.Thread(target=self._poll, name="arl-http-news", daemon=True)
            self._polling.start()

    def _poll(self) -> None:
        pause_s = 0.0
        while self._goes_on():
            try:
                self._note(self._ask())
                pause_s = 0.0
            except (ArlError, RuntimeError) as error:  # RuntimeError: the client is closed
                pause_s = min(max(pause_s * 2, 0.2), 5.0)
                self._note_away(error)
            if pause_s:
                time.sleep(random.uniform(pause_s / 2, pause_s))

    def _goes_on(self) -> bool:
        with self._lock:
            idle = time.monotonic() - self._wanted_at > IDLE_S
            if self._closed or idle:
                self._polling = None
                self._known.clear()  # what happens now will be missed
                self._cursor = ""
                return False
            return True

    def _ask(self) -> NewsDoc:
        # The first answer comes at once: it gives the cursor that nothing is missed after.
        wait_s = POLL_S if self._cursor else 0.0
        query = {"after": self._cursor, "wait": wait_s}
        return self._client.ask("GET", "/v1/news", NewsDoc, query=query, wait_s=wait_s)

    def _note(self, news: NewsDoc) -> None:
        with self._lock:
            self._away = None
            if news.reset or not self._cursor:
                self._known.clear()
                self._ended.clear()
            self._cursor = news.cursor
            for change in news.changed:
                if change.name in self._known:  # the others are news whenever they are asked about
                    (self._fresh if change.running else self._ended).add(change.name)
            told = bool(news.changed or news.reset)
        if told:
            self._tell()

    def _note_away(self, error: ArlError | RuntimeError) -> None:
        with self._lock:
            if self._closed:
                return
            if isinstance(error, ArlError):
                self._away = error
        log.debug("job service %s: %s", self._client.url, error)
        self._tell()
