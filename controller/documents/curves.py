"""Reported values of a trial as curves, sampled where they are long."""

import math
from array import array
from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from ledger.records import IntermediateValue, Json
from ledger.sampling import kept_positions


@dataclass(slots=True)
class Curve:
    """Steps and values of one metric in the order of reporting."""

    steps: "array[int]" = field(default_factory=lambda: array("q"))
    values: "array[float]" = field(default_factory=lambda: array("d"))


def curves_of(values: Iterable[IntermediateValue], metrics: Set[str] | None) -> dict[str, Curve]:
    """By metric; of those asked for, or of all."""
    found: dict[str, Curve] = {}
    for value in values:
        if metrics is not None and value.metric not in metrics:
            continue
        curve = found.setdefault(value.metric, Curve())
        curve.steps.append(value.step)
        curve.values.append(value.value)
    return found


def curve_document(metric: str, curve: Curve, points: int) -> dict[str, Json]:
    """At most `points` of a curve; every number that is not finite is flagged by position."""
    kept = kept_positions(curve.values, points)
    values: list[Json] = []
    flags: dict[str, Json] = {}
    for place, position in enumerate(kept):
        value = curve.values[position]
        values.append(value if math.isfinite(value) else None)
        if not math.isfinite(value):
            flags[str(place)] = str(value)
    return {
        "metric": metric,
        "steps": [curve.steps[position] for position in kept],
        "values": values,
        "non_finite": flags,
        "sampled": len(kept) < len(curve.values),
        "of": len(curve.values),
    }
