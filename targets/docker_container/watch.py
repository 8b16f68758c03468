"""Notices that a program in a container is silent, or uses what neither the kernel nor the engine
counts. Standard library only."""

import os
from collections.abc import Callable, Sequence
from typing import Final

from inner_trials.contract import SCORE_BYTES
from targets import layout
from targets.docker_container.usage import Usage
from targets.program_log import LogWriter
from targets.spawning import Launch
from targets.watchdog import Watchdog

_CHECK_S: Final = 1.0
_SCORE_ROOM: Final = 4
"""A score may be that many times too long before its evaluator is ended: nobody reads it."""


class BoxWatch(Watchdog):
    """The limits of one attempt that are not told by an event. Times are of the monotonic
    clock."""

    def __init__(
        self,
        directory: str,
        launch: Launch,
        logs: Sequence[LogWriter],
        now: float,
        measure: Callable[[], Usage],
    ) -> None:
        super().__init__(directory, launch, logs, now)
        self._measure = measure
        self._check_at = self._tree_check_at = now + _CHECK_S

    def find_excess(self, now: float) -> str | None:
        self.detail = self._disk.find_excess(now)
        if self.detail:
            return "too_much_data"
        if now < self._check_at:
            return None
        self._check_at = self._tree_check_at = now + _CHECK_S
        if not os.path.lexists(f"{self._directory}/{layout.RECORD}"):
            return "lost"  # someone deleted the attempt under it: nobody will ever collect it
        if self._measure().refused_forks:
            return "too_many_processes"
        if self._score_bytes() > _SCORE_ROOM * SCORE_BYTES:
            self.detail = "what it wrote on its score channel is too long to be a score"
            return "too_much_data"
        return None

    def _score_bytes(self) -> int:
        try:
            return os.stat(f"{self._directory}/{layout.SCORE}", follow_symlinks=False).st_size
        except OSError:
            return 0
