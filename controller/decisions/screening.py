"""Screening: what one evaluated trial is worth. Advisory: kept means in line for replay."""

import math
from collections.abc import Sequence
from typing import Final

from evaluator.objective import gain
from evaluator.statistics import mean
from ledger.records import Decision, Direction, Verdict
from ledger.states import Reason

MARGIN_FLOORS: Final = 1.0
"""The margin in noise floors. A candidate no better than the leader passes one floor by luck in
about a quarter of trials; screening may err so, because the gate does not rely on it."""

_ROUNDING: Final = 1e-12


def decide_screening(
    *,
    value: float | None,
    leader_value: float | None,
    leader_id: str | None,
    baseline: Sequence[float],
    noise_floor: float,
    direction: Direction,
    is_feasible: bool = True,
) -> Decision:
    """Keep a trial that beats the leader by more than the margin; a tie is discarded.

    The leader is the best candidate kept so far, at first the baseline's mean. Nothing is kept
    while fewer than two baselines have been measured, since there is no noise floor then.

    Args:
        value: the trial's objective on the search split; None or non-finite is never kept.
        noise_floor: the larger of the pooled standard deviation and the metric's resolution.
        is_feasible: whether every constraint of the study holds.
    """
    margin = MARGIN_FLOORS * noise_floor
    reference = leader_value
    if reference is None and baseline:
        reference = mean(baseline)
    verdict, reason = Verdict.DISCARD, Reason.TIE
    if value is None or not math.isfinite(value):
        reason = Reason.NOT_FINITE
    elif not is_feasible:
        reason = Reason.INFEASIBLE
    elif reference is not None and len(baseline) >= 2:
        better = gain(value, reference, direction)
        slack = margin + _ROUNDING * (abs(value) + abs(reference))
        if better > slack:
            verdict, reason = Verdict.KEEP, Reason.BETTER
        elif better < -slack:
            reason = Reason.WORSE
    return Decision(
        verdict=verdict,
        reason=reason,
        compared_with=leader_id,
        margin=margin,
        noise_floor=noise_floor,
    )
