"""What each proposer (or arm of a hybrid) brought: wins, failures, and how its values moved.

Counted once per trial and never again: what is remembered of an arm does not grow with its trials.
"""

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from controller.plots.columns import short
from ledger.plot_reads import OUTCOMES, FinishedColumns
from ledger.records import Json
from ledger.sampling import kept_positions

WINDOW: Final = 20
"""Trials whose mean a point of a learning curve is."""
CURVE_POINTS: Final = 200
REMEMBERED: Final = 4096
"""Points of an arm's curve; beyond, of each block of trials only the least and the greatest."""


@dataclass(slots=True)
class Arm:
    """One of them, as of the trials that were counted."""

    counts: list[int] = field(default_factory=lambda: [0] * len(OUTCOMES))
    improved: int = 0
    best: float | None = None
    valued: int = 0
    """Trials with a finite value."""
    window: list[float] = field(default_factory=list)
    """The last values, at most WINDOW."""
    block: int = 2
    """Means of which two points are remembered."""
    finish: "array[int]" = field(default_factory=lambda: array("i"))
    mean: "array[float]" = field(default_factory=lambda: array("d"))
    """Points of whole blocks, in order; behind them those of the last one, not full yet."""
    open: int = 0
    """How many of the last points are of that one."""

    def add(self, finish: int, value: float) -> None:
        self.valued += 1
        self.window.append(value)
        if len(self.window) > WINDOW:
            self.window.pop(0)
        self.finish.append(finish)
        # Of the window alone: taking a huge value off a running sum leaves nothing of the others.
        self.mean.append(sum(self.window) / len(self.window))
        self.open += 1
        if self.open == self.block:
            self._close()

    def _close(self) -> None:
        """The last block is full: of it the extremes are enough, and of all of them together
        not more than is remembered."""
        self._thin(len(self.mean) - self.open, self.block)
        self.open = 0
        if len(self.mean) >= REMEMBERED:
            self.block *= 2
            self._thin(0, 4)

    def _thin(self, start: int, size: int) -> None:
        """Two points of every so many, from a place on."""
        kept: list[int] = []
        for at in range(start, len(self.mean), size):
            block = range(at, min(at + size, len(self.mean)))
            low, high = (
                min(block, key=self.mean.__getitem__),
                max(block, key=self.mean.__getitem__),
            )
            kept += sorted((low, high)) if low != high else (at, block[-1])
        self.finish[start:] = array("i", [self.finish[i] for i in kept])
        self.mean[start:] = array("d", [self.mean[i] for i in kept])


@dataclass(slots=True)
class Arms:
    """Every arm of a study; brought up to date when its columns have grown."""

    maximize: bool
    seen: int = 0
    """Trials that are counted."""
    best: float | None = None
    steps: int = 0
    """How often the best value so far got better, whoever did it."""
    arms: dict[str, Arm] = field(default_factory=dict)

    def update(self, columns: FinishedColumns, names: Iterable[str]) -> None:
        """Count the trials that are not counted yet; `names` says who proposed each of them."""
        for name in names:
            place = self.seen
            self.seen += 1
            arm = self.arms.setdefault(name, Arm())
            arm.counts[columns.outcome[place]] += 1
            value = columns.value[place]
            if not math.isfinite(value):
                continue
            arm.add(columns.finish[place], value)
            if self._is_better(value, arm.best):
                arm.best = value
            if self._is_better(value, self.best):
                self.best = value
                self.steps += 1
                arm.improved += 1

    def _is_better(self, value: float, best: float | None) -> bool:
        return best is None or (value > best if self.maximize else value < best)

    def document(self) -> list[Json]:
        """One for each name, the one with the most improvements first."""
        return [
            _document(name, arm, self.steps)
            for name, arm in sorted(self.arms.items(), key=lambda pair: -pair[1].improved)
        ]


def _document(name: str, arm: Arm, steps: int) -> Json:
    return {
        "name": name,
        "trials": sum(arm.counts),
        "outcomes": {word: n for word, n in zip(OUTCOMES, arm.counts, strict=True) if n},
        "improved": arm.improved,
        "share_of_wins": short(arm.improved / steps) if steps else None,
        "best_value": arm.best,
        "curve": _curve(arm),
    }


def _curve(arm: Arm) -> Json:
    """The mean of the last trials of the arm, as it went."""
    kept = kept_positions(arm.mean, CURVE_POINTS)
    return {
        "finish": [arm.finish[i] for i in kept],
        "mean": [short(arm.mean[i]) if math.isfinite(arm.mean[i]) else None for i in kept],
        "window": WINDOW,
        "sampled": len(kept) < arm.valued,
    }
