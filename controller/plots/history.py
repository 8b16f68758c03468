"""Values in the order trials ended, the best so far, and what ended without a value."""

import heapq
import math
from collections.abc import Sequence

from controller.plots.columns import short
from ledger.plot_reads import OUTCOMES, FinishedColumns
from ledger.records import Json
from ledger.sampling import kept_positions


def history(columns: FinishedColumns, *, maximize: bool, points: int) -> dict[str, Json]:
    """At most `points` trials with a value, extremes and every improvement among them; at most a
    quarter as many without one; the best so far as the trials that improved it."""
    valued = [i for i, value in enumerate(columns.value) if math.isfinite(value)]
    other = [i for i, value in enumerate(columns.value) if not math.isfinite(value)]
    best = improvements(columns, valued, maximize=maximize)
    kept = _shown(columns, valued, best, points)
    spread = max(1, points // 4)
    if len(other) > spread:
        other_kept = [other[n * len(other) // spread] for n in range(spread)]
    else:
        other_kept = other
    return {
        "of": len(columns),
        "sampled": len(kept) < len(valued) or len(other_kept) < len(other),
        "outcomes": list(OUTCOMES),
        "points": {
            "finish": [columns.finish[i] for i in kept],
            "number": [columns.number[i] for i in kept],
            "value": [short(columns.value[i]) for i in kept],
            "outcome": [columns.outcome[i] for i in kept],
        },
        "without_value": {
            "finish": [columns.finish[i] for i in other_kept],
            "number": [columns.number[i] for i in other_kept],
            "outcome": [columns.outcome[i] for i in other_kept],
        },
        "best": {
            "finish": [columns.finish[i] for i in best],
            "number": [columns.number[i] for i in best],
            "value": [columns.value[i] for i in best],
        },
    }


def improvements(columns: FinishedColumns, places: Sequence[int], *, maximize: bool) -> list[int]:
    """Places at which the best value so far got better."""
    found: list[int] = []
    best = -math.inf if maximize else math.inf
    values = columns.value
    for place in places:
        value = values[place]
        if (value > best) if maximize else (value < best):
            best = value
            found.append(place)
    return found


def _shown(
    columns: FinishedColumns, valued: Sequence[int], best: Sequence[int], points: int
) -> list[int]:
    if len(valued) <= points:
        return list(valued)
    always = set(best[-(points // 4) :])
    kept_ones = [i for i in valued if columns.outcome[i] == 0][-(points // 4) :]
    always.update(kept_ones)
    positions = kept_positions([columns.value[i] for i in valued], points - len(always))
    return sorted(always | {valued[position] for position in positions})


def best_numbers(columns: FinishedColumns, count: int, *, maximize: bool) -> list[int]:
    """Numbers of the best trials, the best first."""
    places = (i for i, value in enumerate(columns.value) if math.isfinite(value))
    pick = heapq.nlargest if maximize else heapq.nsmallest
    return [columns.number[i] for i in pick(count, places, key=columns.value.__getitem__)]
