"""Time as the controller sees it: durations are monotonic, wall time is for display only."""

import time
from typing import Final, Protocol

JUMP_S: Final = 1.0
"""A wall clock that moved by more than this beside the monotonic one was set, not slewed."""


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds from an arbitrary origin; never jumps."""
        ...

    def ahead(self) -> float:
        """How many seconds the wall clock is ahead of `monotonic`: as long as nobody sets the
        clock it stays as it is."""
        ...


class SystemClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def ahead(self) -> float:
        return time.time() - time.monotonic()
