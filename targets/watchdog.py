"""Notices that a program does nothing any more, holds too much memory or disk, or multiplies.

Standard library only.
"""

import os
import signal
from collections.abc import Sequence
from typing import Final

from targets import layout, linux
from targets.disk_use import DiskWatch, quotas_of
from targets.program_log import LogWriter
from targets.spawning import Launch

_MEMORY_CHECK_S: Final = 0.5
_PROCESS_CHECK_S: Final = 1.0
_STALL_CHECKS: Final = 8
"""A stall is noticed at most this fraction of `stall_s` late."""
_NEVER: Final = float("inf")


class Watchdog:
    """The limits of one attempt that no kernel event tells of. Costs nothing while it is
    young. Times are of the monotonic clock."""

    def __init__(
        self, directory: str, launch: Launch, logs: Sequence[LogWriter], now: float
    ) -> None:
        self._directory = directory
        self._memory_bytes: int | None = launch["memory_bytes"]
        self._stall_s: float | None = launch["stall_s"]
        self._logs = logs
        self._activity_at = now
        self._activity: tuple[int, ...] = ()
        self._max_processes: int = launch["max_processes"]
        self._check_every_s = _PROCESS_CHECK_S if self._memory_bytes is None else _MEMORY_CHECK_S
        self._tree_check_at = now + self._check_every_s
        self._stall_check_at = _NEVER
        if self._stall_s is not None:
            self._stall_check_at = now + self._stall_s / _STALL_CHECKS
        self._longest_file: int | None = launch.get("longest_file")
        quotas = quotas_of(directory, launch.get("output_bytes"), launch.get("scratch_bytes"))
        self._disk = DiskWatch(directory, quotas, now)
        self.detail = ""
        """What was too much, for a person, where the cause alone does not say it."""
        self.apart = 0
        """A child that is not the program's, nor is what it started."""

    def due_at(self) -> float:
        return min(self._tree_check_at, self._stall_check_at, self._disk.due_at())

    def find_excess(self, now: float) -> str | None:
        """The cause to end it for if it uses more than it is allowed to; looks when it is
        time."""
        self.detail = self.detail or self._disk.find_excess(now)
        if self.detail:
            return "too_much_data"
        if now < self._tree_check_at:
            return None
        self._tree_check_at = now + self._check_every_s
        if not os.path.lexists(f"{self._directory}/{layout.RECORD}"):
            return "lost"  # someone deleted the attempt under it: nobody will ever collect it
        tree = linux.descendants_of(os.getpid())
        if self.apart:
            tree -= {self.apart, *linux.descendants_of(self.apart)}
        if len(tree) > self._max_processes:
            return "too_many_processes"
        if self._memory_bytes is not None and linux.memory_of(tree) > self._memory_bytes:
            return "out_of_memory"
        return None

    def find_last_excess(self, status: int | None) -> str | None:
        """The same about a program that ended by itself with `status`, nothing of which runs."""
        if status == -signal.SIGXFSZ and self._longest_file is not None:
            self.detail = f"a file of it passed {self._longest_file} bytes"
        else:
            self.detail = self._disk.find_last_excess()
        return "too_much_data" if self.detail else None

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
