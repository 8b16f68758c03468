"""What each proposer (or arm of a hybrid) brought: wins, failures, and how its values moved."""

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from controller.plots.columns import short
from controller.plots.history import improvements
from ledger.plot_reads import OUTCOMES, ArmColumn, FinishedColumns
from ledger.records import Json
from ledger.sampling import kept_positions

WINDOW: Final = 20
"""Trials whose mean a point of a learning curve is."""
CURVE_POINTS: Final = 200


@dataclass(slots=True)
class _Arm:
    counts: list[int] = field(default_factory=lambda: [0] * len(OUTCOMES))
    values: "array[float]" = field(default_factory=lambda: array("d"))
    finish: "array[int]" = field(default_factory=lambda: array("l"))
    improved: int = 0


def arms_document(columns: FinishedColumns, arms: ArmColumn, *, maximize: bool) -> list[Json]:
    """One for each name, the one with the most improvements first."""
    found = [_Arm() for _ in arms.names]
    valued = []
    for i in range(len(columns)):
        arm = found[arms.place[i]]
        arm.counts[columns.outcome[i]] += 1
        if math.isfinite(columns.value[i]):
            valued.append(i)
            arm.values.append(columns.value[i])
            arm.finish.append(columns.finish[i])
    steps = improvements(columns, valued, maximize=maximize)
    for i in steps:
        found[arms.place[i]].improved += 1
    listed: list[Json] = [
        _document(name, arm, len(steps), maximize=maximize)
        for name, arm in sorted(
            zip(arms.names, found, strict=True), key=lambda pair: -pair[1].improved
        )
    ]
    return listed


def _document(name: str, arm: _Arm, steps: int, *, maximize: bool) -> Json:
    best = None
    if arm.values:
        best = max(arm.values) if maximize else min(arm.values)
    return {
        "name": name,
        "trials": sum(arm.counts),
        "outcomes": {word: n for word, n in zip(OUTCOMES, arm.counts, strict=True) if n},
        "improved": arm.improved,
        "share_of_wins": short(arm.improved / steps) if steps else None,
        "best_value": best,
        "curve": _curve(arm.finish, arm.values),
    }


def _curve(finish: Sequence[int], values: Sequence[float]) -> Json:
    """The mean of the last trials of the arm, as it went."""
    means: list[float] = []
    total = 0.0
    for place, value in enumerate(values):
        total += value
        if place >= WINDOW:
            total -= values[place - WINDOW]
        means.append(total / min(place + 1, WINDOW))
    kept = kept_positions(means, CURVE_POINTS)
    return {
        "finish": [finish[i] for i in kept],
        "mean": [short(means[i]) if math.isfinite(means[i]) else None for i in kept],
        "window": WINDOW,
        "sampled": len(kept) < len(means),
    }
