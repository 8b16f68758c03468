"""The only file that knows minimize from maximize."""

import math
from collections.abc import Iterable

from ledger.records import Direction


def is_better(a: float, b: float, direction: Direction) -> bool:
    """Whether a is strictly better than b; a non-finite number is never better."""
    if not math.isfinite(a):
        return False
    if not math.isfinite(b):
        return True
    return a < b if direction is Direction.MINIMIZE else a > b


def gain(new: float, old: float, direction: Direction) -> float:
    """How much better `new` is than `old`, positive when better, in the metric's unit."""
    return old - new if direction is Direction.MINIMIZE else new - old


def as_maximized(value: float, direction: Direction) -> float:
    """The value on a scale where higher is better; applying it twice gives the value back."""
    return -value if direction is Direction.MINIMIZE else value


def worst(values: Iterable[float], direction: Direction) -> float:
    """The worst of `values`. Raises ValueError when there are none."""
    return max(values) if direction is Direction.MINIMIZE else min(values)


def best(values: Iterable[float], direction: Direction) -> float:
    """The best of `values`. Raises ValueError when there are none."""
    return min(values) if direction is Direction.MINIMIZE else max(values)
