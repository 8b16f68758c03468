"""Stops asking a place that is away, for a while: each try would hold up everything else."""

import email.utils
import random
import threading
import time
from collections.abc import Mapping

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


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """What an answer asks to wait, in seconds; None when it does not say."""
    text = headers.get("retry-after", "").strip()
    if text.isdecimal() and len(text) < 9:
        return float(text)
    if not text:
        return None
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None
