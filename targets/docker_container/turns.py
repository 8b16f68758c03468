"""How a thread that follows one attempt waits: for messages of its keeper, for what containers
write, for their first processes to end, and for time to pass. Standard library only."""

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

_LONGEST_S: Final = 3600.0

Message = tuple[str, str]
"""What it is about, and which container; see the constants."""
STOP: Final = "stop"
KILL: Final = "kill"
LOOK: Final = "look"
"""The engine was away: whatever happened meanwhile was not told."""
WAKE: Final = "wake"
EVENT: Final = "event:"
"""Before what the engine tells of a container, as it names that."""
DIED: Final = f"{EVENT}die"
OUT_OF_MEMORY: Final = f"{EVENT}oom"
SIGNALLED: Final = f"{EVENT}kill"
"""Somebody told the engine to signal it, or the engine does as it stops."""


class Turns:
    """Messages may be posted from any thread; the rest is for the one that waits."""

    def __init__(self, on_message: Callable[[Message], None]) -> None:
        self._on_message = on_message
        self._messages: deque[Message] = deque()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._closing = threading.Lock()
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)
        self._sources: dict[int, Callable[[], bool]] = {}

    def post(self, what: str, container: str = "") -> None:
        self._messages.append((what, container))
        with self._closing:
            if self._bell >= 0:
                os.eventfd_write(self._bell, 1)

    def ring(self) -> None:
        self.post(WAKE)

    def add(self, descriptor: int, on_ready: Callable[[], bool]) -> None:
        """Call `on_ready` whenever it is readable, until that returns False."""
        self._sources[descriptor] = on_ready
        self._poll.register(descriptor, select.POLLIN)

    def has(self, descriptor: int) -> bool:
        return descriptor in self._sources

    def wait(self, until: float) -> None:
        """Until something happened, which is dealt with, or the monotonic clock says `until`."""
        timeout_s = min(max(until - time.monotonic(), 0.0), _LONGEST_S)
        for descriptor, _ in self._poll.poll(timeout_s * 1000):
            if descriptor == self._bell:
                os.eventfd_read(self._bell)
                self._read_messages()
            elif not self._sources[descriptor]():
                self.drop(descriptor)

    def drop(self, descriptor: int) -> None:
        if self._sources.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def _read_messages(self) -> None:
        while self._messages:
            self._on_message(self._messages.popleft())

    def close(self) -> None:
        """Messages posted from now on are not read."""
        with self._closing:
            bell, self._bell = self._bell, -1
            os.close(bell)
