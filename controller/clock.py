"""Time as the controller sees it: durations are monotonic, wall time is for display only."""

import time
from typing import Protocol


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds from an arbitrary origin; never jumps."""
        ...


class SystemClock:
    def monotonic(self) -> float:
        return time.monotonic()
