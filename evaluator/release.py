"""How little of a score a proposer that could overfit to it is told."""

import math

from evaluator.objective import gain
from ledger.records import Direction


def rounded(value: float, step: float) -> float:
    """`value` to the nearest multiple of the noise floor: its digits below are noise.

    A step of 0 (or none measured) leaves the value as it is, as does a non-finite value.
    """
    if not step > 0.0 or not math.isfinite(value) or not math.isfinite(step):
        return value
    multiples = value / step
    if not math.isfinite(multiples):
        return value
    return round(multiples) * step


def next_best(released: float | None, value: float, *, step: float, direction: Direction) -> float:
    """The best-so-far as released after one more score: the Ladder (Blum & Hardt 2015, alg. 1).

    It moves only when the new score beats the released best by more than `step`, and then to
    the rounded score, so that asking often teaches little. Start with None.
    """
    if not math.isfinite(value):
        if released is None:
            raise ValueError(f"{value} cannot be the first released score")
        return released
    if released is None:
        return rounded(value, step)
    return rounded(value, step) if gain(value, released, direction) > step else released
