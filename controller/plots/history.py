"""Values in the order trials ended, the best so far, and what ended without a value."""

import heapq
import math
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from controller.plots.columns import short
from ledger.plot_reads import OUTCOMES, FinishedColumns
from ledger.records import Json
from ledger.sampling import kept_positions

BLOCK: Final = 64
"""Trials with a value of which a long history remembers the least and the greatest."""
TOP: Final = 500
"""Best trials that are remembered."""
_KEPT: Final = OUTCOMES.index("kept")


@dataclass(slots=True)
class Summary:
    """What histories need of columns; brought up to date when those have grown."""

    maximize: bool
    seen: int = 0
    valued: "array[int]" = field(default_factory=lambda: array("i"))
    """Places of trials with a finite value."""
    other: "array[int]" = field(default_factory=lambda: array("i"))
    extremes: "array[int]" = field(default_factory=lambda: array("i"))
    """Of each whole block the places of its least and greatest value, in order."""
    best: list[int] = field(default_factory=list)
    """Places at which the best value so far got better."""
    kept: list[int] = field(default_factory=list)
    top: list[int] = field(default_factory=list)
    """Places of the best trials, the best first."""

    def update(self, columns: FinishedColumns) -> None:
        values, outcomes = columns.value, columns.outcome
        sign = 1.0 if self.maximize else -1.0
        best = sign * values[self.best[-1]] if self.best else -math.inf
        for place in range(self.seen, len(columns)):
            value = values[place]
            if not math.isfinite(value):
                self.other.append(place)
                continue
            self.valued.append(place)
            if sign * value > best:
                best = sign * value
                self.best.append(place)
            if outcomes[place] == _KEPT:
                self.kept.append(place)
            if len(self.valued) % BLOCK == 0:
                block = self.valued[-BLOCK:]
                ends = {min(block, key=values.__getitem__), max(block, key=values.__getitem__)}
                self.extremes.extend(sorted(ends))
        fresh = self.valued[bisect_left(self.valued, self.seen) :]
        self.top = heapq.nsmallest(TOP, (*self.top, *fresh), key=lambda i: (-sign * values[i], i))
        self.seen = len(columns)

    def candidates(self, points: int) -> Sequence[int]:
        """Places to choose from: all of few; of many the extremes, the first and the latest."""
        if len(self.valued) <= BLOCK * points // 4:
            return self.valued
        tail = self.valued[len(self.valued) - len(self.valued) % BLOCK - 1 :]
        return sorted({self.valued[0], *self.extremes, *tail})


def history(columns: FinishedColumns, summary: Summary, *, points: int) -> dict[str, Json]:
    """At most `points` trials with a value, extremes and the latest improvements among them; at
    most a quarter as many without one; the best so far as the trials that improved it."""
    kept = _shown(columns, summary, points)
    other, spread = summary.other, max(1, points // 4)
    if len(other) > spread:
        other = array("i", (other[n * len(other) // spread] for n in range(spread)))
    best = summary.best
    return {
        "of": len(columns),
        "sampled": len(kept) < len(summary.valued) or len(other) < len(summary.other),
        "outcomes": list(OUTCOMES),
        "points": {
            "finish": [columns.finish[i] for i in kept],
            "number": [columns.number[i] for i in kept],
            "value": [short(columns.value[i]) for i in kept],
            "outcome": [columns.outcome[i] for i in kept],
        },
        "without_value": {
            "finish": [columns.finish[i] for i in other],
            "number": [columns.number[i] for i in other],
            "outcome": [columns.outcome[i] for i in other],
        },
        "best": {
            "finish": [columns.finish[i] for i in best],
            "number": [columns.number[i] for i in best],
            "value": [columns.value[i] for i in best],
        },
    }


def _shown(columns: FinishedColumns, summary: Summary, points: int) -> list[int]:
    if len(summary.valued) <= points:
        return list(summary.valued)
    quarter = points // 4
    always = {*summary.best[-quarter:], *summary.kept[-quarter:]}
    places = summary.candidates(points)
    positions = kept_positions([columns.value[i] for i in places], points - len(always))
    return sorted(always | {places[position] for position in positions})
