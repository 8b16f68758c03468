"""Plots over the space: parallel coordinates, slices, contours."""

import math
from collections.abc import Sequence
from typing import Final

from controller.plots.columns import Axis, Sample, short
from ledger.plot_reads import OUTCOMES
from ledger.records import Json

MOST_NUMBERS: Final = 24_000
"""In one answer: at some ten bytes each it stays below 300 kB."""
GRID: Final = 24
_PASSES: Final = 6
"""Cells that far from any trial say nothing: they stay empty."""


def coordinates(sample: Sample, axes: Sequence[Axis]) -> dict[str, Json]:
    """Every parameter's column beside the value's; for parallel coordinates and for slices."""
    shown = sample.thinned(max(50, MOST_NUMBERS // (len(axes) + 3)))
    return {
        "of": sample.of,
        "sampled": len(shown.numbers) < sample.of,
        "outcomes": list(OUTCOMES),
        "number": list(shown.numbers),
        "value": [short(value) for value in shown.values],
        "outcome": list(shown.outcomes),
        "axes": [
            {
                **axis.document(),
                "values": [axis.place(params.get(axis.name)) for params in shown.params],
            }
            for axis in axes
        ],
    }


def contour(sample: Sample, x: Axis, y: Axis) -> dict[str, Json]:
    """The mean value in each cell of a grid; empty cells get what lies around them."""
    placed = [
        (_unit(x, a), _unit(y, b), value)
        for params, value in zip(sample.params, sample.values, strict=True)
        if (a := x.place(params.get(x.name))) is not None
        and (b := y.place(params.get(y.name))) is not None
    ]
    wide, high = _size(x), _size(y)
    cells: list[list[list[float]]] = [[[] for _ in range(wide)] for _ in range(high)]
    for a, b, value in placed:
        cells[min(high - 1, int(b * high))][min(wide - 1, int(a * wide))].append(value)
    known = [[_mean(cell) if cell else None for cell in row] for row in cells]
    smooth = x.categories is None and y.categories is None
    return {
        "of": sample.of,
        "sampled": sample.is_sampled,
        "x": {**x.document(), "cells": _centres(x, wide)},
        "y": {**y.document(), "cells": _centres(y, high)},
        "mean": [[None if v is None else short(v) for v in row] for row in _filled(known)]
        if smooth and placed
        else [[None if v is None else short(v) for v in row] for row in known],
        "count": [[len(cell) for cell in row] for row in cells],
    }


def _size(axis: Axis) -> int:
    if axis.categories is not None:
        return max(1, len(axis.categories))
    return _integers(axis) or GRID


def _integers(axis: Axis) -> int:
    """How many values an axis of few integers has, each a cell of its own; else 0."""
    if axis.kind != "int" or axis.low is None or axis.high is None:
        return 0
    count = int(axis.high) - int(axis.low) + 1
    return count if 0 < count <= GRID else 0


def _unit(axis: Axis, place: float) -> float:
    """From 0 to 1 along the axis."""
    if axis.categories is not None:
        return (place + 0.5) / max(1, len(axis.categories))
    low, high = axis.low, axis.high
    if low is None or high is None or high <= low:
        return 0.5
    if count := _integers(axis):
        return min(1.0, max(0.0, (place - low + 0.5) / count))
    if axis.log and low > 0 and place > 0:
        low, high, place = math.log(low), math.log(high), math.log(place)
    return min(1.0, max(0.0, (place - low) / (high - low)))


def _centres(axis: Axis, count: int) -> list[Json]:
    if axis.categories is not None:
        return list(axis.categories)
    low = 0.0 if axis.low is None else axis.low
    high = 1.0 if axis.high is None else axis.high
    if _integers(axis):
        return [int(low) + n for n in range(count)]
    if axis.log and low > 0:
        a, b = math.log(low), math.log(high)
        return [short(math.exp(a + (b - a) * (n + 0.5) / count)) for n in range(count)]
    return [short(low + (high - low) * (n + 0.5) / count) for n in range(count)]


def _mean(values: Sequence[float]) -> float:
    """Each divided first: the sum of values near the largest there are would be no number."""
    return math.fsum(value / len(values) for value in values)


def _filled(known: list[list[float | None]]) -> list[list[float | None]]:
    """Empty cells become the mean of their filled neighbours, ring after ring."""
    grid = [list(row) for row in known]
    high, wide = len(grid), len(grid[0])
    for _ in range(_PASSES):
        empty = [(r, c) for r in range(high) for c in range(wide) if grid[r][c] is None]
        if not empty:
            break
        found: list[tuple[int, int, float]] = []
        for r, c in empty:
            around = [
                value
                for i in range(max(0, r - 1), min(high, r + 2))
                for value in grid[i][max(0, c - 1) : c + 2]
                if value is not None
            ]
            if around:
                found.append((r, c, _mean(around)))
        for r, c, value in found:
            grid[r][c] = value
    return grid
