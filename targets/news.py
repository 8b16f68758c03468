"""Waiting for attempts to have news, without polling: one subscription shared by all threads."""

import os
import select
import threading
import time
from collections.abc import Collection
from typing import Final

from ledger.errors import TargetUnavailable
from targets.supervisor_link import Connection, Daemon, connect

_TRIES: Final = 5


class News:
    """Which attempts have something new since they were last asked about. Thread-safe.

    One waiting thread at a time reads the subscription; the others sleep until it has read.
    """

    def __init__(self, root: str, daemon: Daemon | None = None) -> None:
        self._root = root
        self._daemon = daemon
        self._changed = threading.Condition()
        self._connection: Connection | None = None
        self._reading = False
        self._interrupted = False
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._known: set[str] = set()
        """Running, or ended with an event: nothing about them can have been missed."""
        self._fresh: set[str] = set()
        self._ended: set[str] = set()

    def wait(self, names: Collection[str], timeout_s: float) -> set[str]:
        """As targets.protocol.Target.wait. Raises TargetUnavailable."""
        until = time.monotonic() + timeout_s
        with self._changed:
            while True:
                self._subscribe()
                found = self._take(names)
                left_s = until - time.monotonic()
                if found or self._interrupted or left_s <= 0:
                    self._interrupted = False
                    return found
                if self._reading:
                    self._changed.wait(left_s)
                else:
                    self._read(left_s)

    def interrupt(self) -> None:
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()
            if self._bell >= 0:
                os.eventfd_write(self._bell, 1)

    def expect(self, name: str) -> None:
        """From now on nothing about this attempt can be missed: it is about to be launched, or
        was just seen running. Subscribes first. Raises TargetUnavailable."""
        with self._changed:
            self._subscribe()
            self._known.add(name)

    def is_known(self, name: str) -> bool:
        """Whether the attempt's end could not have been missed so far."""
        with self._changed:
            if not self._reading:
                self._read(0.0)
            return name in self._known

    def forget(self, name: str) -> None:
        with self._changed:
            for names in (self._known, self._fresh, self._ended):
                names.discard(name)

    def close(self) -> None:
        """No other thread may be waiting any more."""
        with self._changed:
            self._disconnect()
            if self._bell >= 0:
                os.close(self._bell)
                self._bell = -1

    def _subscribe(self) -> None:
        for _ in range(_TRIES):
            if self._connection is not None:
                return
            connection = connect(self._root, self._daemon)
            try:
                connection.call("subscribe")
                connection.socket.settimeout(0)
            except OSError:  # the supervisor died just now: another one is started
                connection.close()
            else:
                self._connection = connection
        if self._connection is None:
            raise TargetUnavailable(
                f"the daemon of {self._root} went away {_TRIES} times in a row"
            )

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        # Whatever happens until the next subscription will have been missed.
        self._known.clear()
        self._ended.clear()

    def _take(self, names: Collection[str]) -> set[str]:
        found = {
            name
            for name in names
            if name in self._fresh or name in self._ended or name not in self._known
        }
        self._fresh -= found
        self._known |= found
        return found

    def _read(self, timeout_s: float) -> None:
        """Wait for events or the bell with the lock released, then note what came."""
        connection = self._connection
        if connection is None:
            return
        poll = select.poll()
        poll.register(connection.socket, select.POLLIN)
        poll.register(self._bell, select.POLLIN)
        self._reading = True
        self._changed.release()
        try:
            ready = poll.poll(timeout_s * 1000)
        finally:
            self._changed.acquire()
            self._reading = False
            self._changed.notify_all()
        for descriptor, _ in ready:
            if descriptor == self._bell:
                os.eventfd_read(self._bell)
            elif connection is self._connection:
                self._note(connection)

    def _note(self, connection: Connection) -> None:
        try:
            events = connection.events()
        except BlockingIOError:
            return
        except OSError:
            self._disconnect()
            return
        for event in events:
            name = event["name"]
            self._fresh.add(name)
            if event["event"] == "exit":
                self._ended.add(name)
