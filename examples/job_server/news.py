"""Which attempts changed, for clients that wait to be told."""

import secrets
import threading
from typing import NamedTuple

NAMES_AT_ONCE = 10_000


class Changes(NamedTuple):
    names: list[str]
    cursor: str
    reset: bool
    """The cursor was of another session, or too much changed: look at everything."""


class NewsBoard:
    """Numbers every change; a cursor is the last number that a client has seen. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._session = secrets.token_hex(8)
        self._numbers: dict[str, int] = {}
        self._number = 0
        self._closed = False

    def note(self, name: str) -> None:
        with self._changed:
            self._number += 1
            self._numbers[name] = self._number
            self._changed.notify_all()

    def forget(self, name: str) -> None:
        with self._changed:
            self._numbers.pop(name, None)

    def since(self, cursor: str, wait_s: float) -> Changes:
        """What changed after a cursor, once something did; at once for a foreign cursor."""
        session, _, number = cursor.partition(":")
        with self._changed:
            if session != self._session or not number.isdecimal():
                return Changes([], self._cursor(), reset=True)
            seen = int(number)
            self._changed.wait_for(lambda: self._number > seen or self._closed, wait_s)
            names = [name for name, changed in self._numbers.items() if changed > seen]
            if len(names) > NAMES_AT_ONCE:
                return Changes([], self._cursor(), reset=True)
            return Changes(names, self._cursor(), reset=False)

    def close(self) -> None:
        """Let go of everybody who waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _cursor(self) -> str:
        return f"{self._session}:{self._number}"
