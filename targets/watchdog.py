"""Notices that a program does nothing any more, or holds too much memory.

Standard library only.
"""

import os
from collections.abc import Sequence
from typing import Final

from targets import layout, linux
from targets.program_log import LogWriter
from targets.spawning import Launch

_MEMORY_CHECK_S: Final = 0.5
_STALL_CHECKS: Final = 8
"""A stall is noticed at most this fraction of `stall_s` late."""
_NEVER: Final = float("inf")


class Watchdog:
    """Two limits of one attempt that no kernel event tells of. Costs nothing when neither is
    set. Times are of the monotonic clock."""

    def __init__(
        self, directory: str, launch: Launch, logs: Sequence[LogWriter], now: float
    ) -> None:
        self._directory = directory
        self._memory_bytes: int | None = launch["memory_bytes"]
        self._stall_s: float | None = launch["stall_s"]
        self._logs = logs
        self._activity_at = now
        self._activity: tuple[int, ...] = ()
        self._memory_check_at = self._stall_check_at = _NEVER
        if self._memory_bytes is not None:
            self._memory_check_at = now + _MEMORY_CHECK_S
        if self._stall_s is not None:
            self._stall_check_at = now + self._stall_s / _STALL_CHECKS

    def due_at(self) -> float:
        return min(self._memory_check_at, self._stall_check_at)

    def is_over_memory(self, now: float) -> bool:
        """Whether the tree below this process holds more than allowed; looks when it is time."""
        if self._memory_bytes is None or now < self._memory_check_at:
            return False
        self._memory_check_at = now + _MEMORY_CHECK_S
        return linux.memory_below(os.getpid()) > self._memory_bytes

    def is_stalled(self, now: float) -> bool:
        """Whether it neither reported nor logged for too long; looks when it is time."""
        if self._stall_s is None or now < self._stall_check_at:
            return False
        self._stall_check_at = now + self._stall_s / _STALL_CHECKS
        activity = self._read_activity()
        if activity != self._activity:
            self._activity = activity
            self._activity_at = now
        return now - self._activity_at >= self._stall_s

    def _read_activity(self) -> tuple[int, ...]:
        logged = tuple(log.total for log in self._logs)
        try:
            reports = os.stat(f"{self._directory}/{layout.REPORTS}")
        except OSError:
            return logged
        return (reports.st_size, reports.st_mtime_ns, *logged)
