"""Conditions that hold a study by themselves until they clear."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from controller.disk_space import Disk
from ledger.states import Reason

CONDITION_EVERY_S: Final = 2.0
LONGEST_HOLD_S: Final = 16.0
SOON_S: Final = 10.0
"""A condition that comes back within this time had not really cleared."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Why the study is held."""

    reason: Reason
    detail: str


@dataclass(slots=True)
class Pace:
    """How soon a held study is tried again: later each time the condition comes right back,
    since each pause and its end are two entries."""

    _held_s: float = CONDITION_EVERY_S
    _cleared_at: float = -math.inf

    def next_look(self, now: float) -> float:
        """When to look again at a condition that was just met."""
        again = now - self._cleared_at < SOON_S
        self._held_s = min(2 * self._held_s, LONGEST_HOLD_S) if again else CONDITION_EVERY_S
        return now + self._held_s

    def clear(self, now: float) -> None:
        self._cleared_at = now


def find_low_disk(disks: Sequence[Disk], *, was_low: bool) -> Condition | None:
    """Why nothing may start: too little is free on a disk, or was, and not enough is yet."""
    for disk in disks:
        wanted = disk.enough_bytes if was_low else disk.min_free_bytes
        if disk.free_bytes < wanted:
            return Condition(
                Reason.DISK_FULL,
                f"{disk.free_bytes} bytes are free on the disk that holds {disk.holds}, and "
                f"{disk.min_free_bytes} are wanted; waiting for space",
            )
    return None
