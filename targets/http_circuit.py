"""Stops asking a place that is away, for a while: each try would hold up everything else."""

import random
import threading
import time

from ledger.errors import TargetUnavailable


class Circuit:
    """Open after calls that failed, for a time that doubles. Thread-safe."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._lock = threading.Lock()
        self._rest_s = 0.0
        self._until = 0.0
        self._why = ""

    def check(self, url: str) -> None:
        with self._lock:
            if time.monotonic() < self._until:
                raise TargetUnavailable(f"the job service {url} is away: {self._why}")

    def opened(self, why: str) -> None:
        with self._lock:
            self._rest_s = min(max(self._rest_s * 2, 0.5), self._longest_s)
            self._until = time.monotonic() + random.uniform(self._rest_s / 2, self._rest_s)
            self._why = why

    def closed(self) -> None:
        with self._lock:
            self._rest_s, self._until = 0.0, 0.0
