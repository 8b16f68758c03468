"""Rungs: the steps at which ASHA and Hyperband compare trials."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32


@dataclass(frozen=True, slots=True, kw_only=True)
class Rungs:
    """At which steps trials are compared: first, first * factor, … below the horizon."""

    first: int
    factor: int
    horizon: int

    def steps(self, bracket: int = 0) -> list[int]:
        """In bracket b the first b rungs are left out: its trials are judged later."""
        found = [self.first * self.factor**bracket]
        while found[-1] * self.factor < self.horizon:
            found.append(found[-1] * self.factor)
        return found

    def bracket_of(self, number: int) -> int:
        """Hyperband's bracket of a trial: dealt by its number, in the shares of Li et al., 2018,
        algorithm 1 (as many trials to a bracket as it has resources for)."""
        count = len(self.steps())
        rounds = range(count - 1, -1, -1)
        shares = [math.ceil(count * self.factor**s / (s + 1)) for s in rounds]
        place = crc32(str(number).encode()) % sum(shares)
        for bracket, share in enumerate(shares):
            place -= share
            if place < 0:
                return bracket
        return count - 1


def passed_rungs(points: Sequence[tuple[float, float]], steps: Sequence[int]) -> dict[str, float]:
    """What was first reported at or after each rung, under Optuna's names for it."""
    passed: dict[str, float] = {}
    for rung, at in enumerate(steps):
        value = next((value for step, value in points if step >= at), None)
        if value is None:
            break
        passed[f"completed_rung_{rung}"] = value
    return passed
