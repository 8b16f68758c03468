"""Which parameters separate the best trials from the others."""

import bisect
from collections.abc import Sequence
from typing import Final

from controller.plots.columns import Axis, Sample, short
from ledger.records import Json

TOP_SHARE: Final = 0.1
LEAST: Final = 20
"""Trials with a value below which nothing is said."""
MOST_CELLS: Final = 16


def importances(sample: Sample, axes: Sequence[Axis], *, maximize: bool) -> dict[str, Json]:
    """Shares that add up to one, by parameter, the greatest first.

    PED-ANOVA in one dimension (Watanabe, Bansal and Hutter, IJCAI 2023, equation 10): of each
    parameter the Pearson divergence of where the best tenth lies from where all lie, over cells
    that hold equally many trials, less what chance alone would show. Interactions between
    parameters are not seen.
    """
    count = len(sample.numbers)
    top_count = max(round(TOP_SHARE * count), LEAST // 4)
    why = ""
    if count < LEAST:
        why = f"trials with a value: {count}; it takes {LEAST}"
    elif len(set(sample.values)) < 2:
        why = "every trial has the same value"
    shares: list[tuple[str, float]] = []
    if not why:
        ranked = sorted(range(count), key=lambda i: sample.values[i], reverse=maximize)
        top = set(ranked[:top_count])
        found = {axis.name: _divergence(sample, axis, top) for axis in axes}
        total = sum(found.values())
        if total <= 0:
            why = "no parameter separates the best tenth from the rest"
        else:
            shares = [(name, short(value / total)) for name, value in found.items()]
    shares.sort(key=lambda pair: -pair[1])
    return {
        "method": "ped_anova",
        "of": sample.of,
        "used": count,
        "sampled": sample.is_sampled,
        "why_empty": why or None,
        "importances": [{"name": name, "share": share} for name, share in shares],
    }


def _divergence(sample: Sample, axis: Axis, top: set[int]) -> float:
    places = [axis.place(params.get(axis.name)) for params in sample.params]
    cells = _cells(places, is_ordered=axis.categories is None)
    everywhere: dict[int, int] = {}
    in_top: dict[int, int] = {}
    for i, cell in enumerate(cells):
        everywhere[cell] = everywhere.get(cell, 0) + 1
        if i in top:
            in_top[cell] = in_top.get(cell, 0) + 1
    if len(everywhere) < 2:
        return 0.0
    count, best = len(cells), len(top)
    divergence = 0.0
    for cell, size in everywhere.items():
        expected = size / count
        divergence += expected * (in_top.get(cell, 0) / best / expected - 1) ** 2
    by_chance = (len(everywhere) - 1) / best * (1 - best / count)
    return max(0.0, divergence - by_chance)


def _cells(places: Sequence[float | int | None], *, is_ordered: bool) -> list[int]:
    """The cell of each trial; those without the parameter share one."""
    if not is_ordered:
        return [-1 if place is None else int(place) for place in places]
    known = sorted(place for place in places if place is not None)
    cells = min(MOST_CELLS, max(2, len(known) // LEAST))
    edges = sorted({known[n * len(known) // cells] for n in range(1, cells)}) if known else []
    return [-1 if place is None else bisect.bisect_right(edges, place) for place in places]
