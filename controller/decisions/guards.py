"""Guard metrics: what a promoted candidate must not pay for its gain with."""

from collections.abc import Sequence
from dataclasses import dataclass

from controller.decisions.families import Guard
from evaluator.statistics import tie_tolerance, welch

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardVerdict:
    holds: bool
    max_drop: float
    drop: float | None
    """Mean of the incumbent minus mean of the candidate; None when nobody measured it."""
    drop_bound95: float | None
    """One-sided: the true drop is smaller than this with 95 % confidence."""


def judge_guard(
    guard: Guard,
    *,
    new: Sequence[float | None],
    old: Sequence[float | None],
    pooled: Sequence[float],
) -> GuardVerdict:
    """Non-inferiority (one-sided Welch): the bound of the drop lies within `max_drop`, not just
    the drop itself. A missing value, that of a failed run, counts as the worst value seen.

    Args:
        new: of the candidate's confirmation runs, at least two.
        old: of the incumbent's.
        pooled: further values of the incumbent, from its pool.
    """
    seen = [v for v in (*new, *old, *pooled) if v is not None]
    if not seen:
        return GuardVerdict(holds=False, max_drop=guard.max_drop, drop=None, drop_bound95=None)
    worst = min(seen)
    new_values = [worst if v is None else v for v in new]
    old_values = [*(worst if v is None else v for v in old), *pooled]
    comparison = welch(new_values, old_values)
    bound = -comparison.lower_bound(CONFIDENCE)
    return GuardVerdict(
        holds=bound <= guard.max_drop + tie_tolerance([*new_values, *old_values]),
        max_drop=guard.max_drop,
        drop=-comparison.difference,
        drop_bound95=bound,
    )
