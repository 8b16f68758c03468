"""Curves of reported values as pruning keeps them: few points, and only finite ones."""

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from evaluator.objective import as_maximized
from ledger.records import Direction

Curve: TypeAlias = Sequence[tuple[int, float]]
"""(step, value) in the order reported; steps need not be distinct, values not finite."""

PackedCurve: TypeAlias = "array[float]"
"""An ended trial's curve: step, value, step, value, ... At most CURVE_POINTS pairs, which is
half a kilobyte."""

CURVE_POINTS: Final = 32

_VALUE_CAP: Final = 1e60
_STEP_CAP: Final = 2**53
"""What a program says is not bounded: beyond these, sums and squares of it would overflow."""


@dataclass(frozen=True, slots=True)
class OtherCurve:
    """The curve of another trial: one that ran to its end, was pruned, or still runs."""

    number: int
    packed: PackedCurve
    is_complete: bool


def is_number(value: float) -> bool:
    """Finite, and not so large that the trial has diverged all the same."""
    return math.isfinite(value) and abs(value) <= _VALUE_CAP


def is_usable(step: int, value: float) -> bool:
    # A number that is none compares with nothing, so the bounds say what is_number says.
    return 0 <= step <= _STEP_CAP and -_VALUE_CAP <= value <= _VALUE_CAP


def thin_curve(curve: Curve, points: int = CURVE_POINTS) -> list[tuple[int, float]]:
    """At most `points` points: means over equal widths of steps, and the last point as it is.

    Non-finite values are left out of the means. A curve that is short enough is returned as it
    was, so thinning twice changes nothing.
    """
    if len(curve) <= points:
        return list(curve)
    first, last = (min(max(step, 0), _STEP_CAP) for step in (curve[0][0], curve[-1][0]))
    width = max(last - first, 1) / (points - 1)
    buckets: dict[int, tuple[list[int], list[float]]] = {}
    for step, value in curve[:-1]:
        if is_usable(step, value):
            place = min(max(int((step - first) / width), 0), points - 2)
            if place not in buckets:
                buckets[place] = [], []
            steps, values = buckets[place]
            steps.append(step)
            values.append(value)
    thinned = [
        (round(math.fsum(steps) / len(steps)), math.fsum(values) / len(values))
        for _, (steps, values) in sorted(buckets.items())
    ]
    return [*thinned, curve[-1]]


def bounded_curve(curve: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """A growing curve, thinned when it has become twice too long. Called after every value, it
    comes to the same however many values arrived at once."""
    return thin_curve(curve) if len(curve) > 2 * CURVE_POINTS else curve


def pack_curve(curve: Curve) -> PackedCurve:
    """A finished trial's curve as it is kept; empty when it has no finite value."""
    finite = [(step, value) for step, value in curve if is_usable(step, value)]
    packed = array("d")
    for step, value in thin_curve(finite):
        packed.extend((float(step), value))
    return packed


def unpack(packed: PackedCurve, direction: Direction) -> list[tuple[float, float]]:
    return [(packed[i], as_maximized(packed[i + 1], direction)) for i in range(0, len(packed), 2)]
