"""Pruning: whether a running trial's curve says that it cannot become the best any more.

Pure functions of this trial's curve so far and of what the others had come to by now: a decision
is made when a value arrives, and again from the same curves it comes out the same. The forecast
is read at the horizon, never at the present step: a curve that is behind now may still win.
"""

import statistics as plain
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from evaluator.objective import as_maximized
from evaluator.pruning_curves import (
    CURVE_POINTS,
    Curve,
    OtherCurve,
    PackedCurve,
    bounded_curve,
    is_number,
    is_usable,
    pack_curve,
    thin_curve,
    unpack,
)
from evaluator.pruning_forecast import COMPARED_CURVES, is_beyond_hope
from evaluator.pruning_margin import are_items, may_still_win, packed_means, running_means
from evaluator.pruning_names import MODULES, REASONS, Margin, PrunerName, WrappedName
from evaluator.pruning_rungs import Rungs
from ledger.records import Direction
from ledger.states import Reason

__all__ = [
    "COMPARED_CURVES",
    "CURVE_POINTS",
    "Curve",
    "MODULES",
    "Margin",
    "OtherCurve",
    "PackedCurve",
    "PrunerName",
    "PrunerSettings",
    "REASONS",
    "WrappedName",
    "bounded_curve",
    "decide_pruning",
    "pack_curve",
    "thin_curve",
]

_ONLY_ITSELF: Final = frozenset({"threshold", "patient"})
"""Pruners whose own rule compares a trial with no other one."""
_FIRST_RUNG_SHARE: Final = 9
"""Without a min_resource the first rung is at this part of the horizon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunerSettings:
    """How one pruner judges; each field is documented in the study file's `pruning`."""

    name: PrunerName
    warmup_steps: int = 0
    startup_trials: int = 5
    horizon: int | None = None
    """The step at which trials end; default: the furthest step of a complete one."""
    percentile: float = 25.0
    reduction_factor: int = 3
    min_resource: int | None = None
    lower: float | None = None
    upper: float | None = None
    patience: int = 0
    min_delta: float = 0.0
    wrapped: WrappedName | None = None
    p_threshold: float = 0.05
    margin: Margin = "auto"

    @property
    def compares_all(self) -> bool:
        """Whether pruned and running trials are compared with too."""
        return bool({self.name, self.wrapped} & {"asha", "hyperband"})

    @property
    def needs_finished(self) -> bool:
        """Whether it waits for finished trials: all but a threshold, and patience without a
        margin."""
        if self.name == "patient":
            return self.margin == "auto" and self.wrapped != "threshold"
        return self.name != "threshold"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What a pruner may look at; values are higher where they are better."""

    settings: PrunerSettings
    number: int
    curve: Sequence[tuple[int, float]]
    direction: Direction
    finished: Sequence[PackedCurve]
    others: Sequence[OtherCurve]

    @property
    def horizon(self) -> int:
        if self.settings.horizon is not None:
            return self.settings.horizon
        return max(int(packed[-2]) for packed in self.finished)

    @property
    def judges_once(self) -> bool:
        """Whether a rung decides when it is reached, or never: what a margin spared there is
        judged again when the margin ends."""
        return self.settings.margin == "none"

    @property
    def rungs(self) -> Rungs:
        horizon = self.horizon
        return Rungs(
            first=self.settings.min_resource or max(1, horizon // _FIRST_RUNG_SHARE),
            factor=self.settings.reduction_factor,
            horizon=horizon,
        )


def decide_pruning(
    settings: PrunerSettings,
    *,
    curve: Curve,
    finished: Sequence[PackedCurve],
    direction: Direction,
    others: Sequence[OtherCurve] = (),
    number: int = 0,
) -> Reason | None:
    """Why the trial should stop now, or None to let it run.

    `none` never stops anything. The others stop a trial whose latest value is not finite
    (`not_finite`); otherwise they wait for `warmup_steps` and, where they compare trials, for
    `startup_trials` finished ones.

    Args:
        curve: of the running trial, or its `thin_curve`.
        finished: `pack_curve` of trials that ran to their end, in the order of finishing;
            pruned ones must not be among them.
        direction: in which the watched metric is better.
        others: every other trial's curve up to now: complete, pruned and running. Rungs
            (asha, hyperband) are competed for by all that reached them.
        number: of the running trial; Hyperband deals its brackets by it.
    """
    if settings.name == "none" or not curve:
        return None
    if not is_number(curve[-1][1]):
        return Reason.NOT_FINITE
    known = [packed for packed in finished if packed]
    if curve[-1][0] < settings.warmup_steps:
        return None
    if settings.needs_finished and len(known) < max(settings.startup_trials, 1):
        return None
    oriented = [(s, as_maximized(v, direction)) for s, v in curve if is_usable(s, v)]
    if not oriented:
        return None
    look = _Look(
        settings=settings,
        number=number,
        curve=oriented,
        direction=direction,
        finished=known,
        others=others,
    )
    if settings.name == "patient":
        return _when_patience_ends(look)
    return _verdict(settings.name, look)


def _verdict(name: PrunerName, look: _Look) -> Reason | None:
    """What one rule says, after the margin: a trial that may still win is spared by all but a
    threshold, which is an order."""
    if look.settings.margin == "auto" and name != "threshold" and _is_spared(name, look):
        return None
    return REASONS[name] if _JUDGES[name](look) else None


def _is_spared(name: PrunerName, look: _Look) -> bool:
    curve, finished = look.curve, look.finished
    of_means = name == "wilcoxon" and are_items(finished)
    if of_means:
        curve, finished = running_means(curve), [packed_means(packed) for packed in finished]
    return may_still_win(curve, finished, look.direction, look.horizon, of_means=of_means)


def _misses_rung(look: _Look) -> bool:
    # Optuna takes half a second to import: only for studies that use it.
    from evaluator.pruning_optuna import misses_rung

    return misses_rung(
        look.curve, look.others, look.direction, rungs=look.rungs, once=look.judges_once
    )


def _misses_bracket_rung(look: _Look) -> bool:
    from evaluator.pruning_optuna import misses_bracket_rung

    return misses_bracket_rung(
        look.curve,
        look.others,
        look.direction,
        rungs=look.rungs,
        number=look.number,
        once=look.judges_once,
    )


def _fails_wilcoxon(look: _Look) -> bool:
    from evaluator.pruning_optuna import fails_wilcoxon

    level = look.settings.p_threshold
    return fails_wilcoxon(look.curve, look.finished, look.direction, p_threshold=level)


def _is_beyond_hope(look: _Look) -> bool:
    if look.settings.margin == "auto":
        return True  # the margin is its own forecast, and more
    return is_beyond_hope(look.curve, look.finished, look.direction, look.horizon)


def _is_behind_median(look: _Look) -> bool:
    return _is_behind(look, 50.0)


def _is_behind_percentile(look: _Look) -> bool:
    return _is_behind(look, look.settings.percentile)


def _is_behind(look: _Look, percentile: float) -> bool:
    """Best value so far below what the best `percentile` per cent of the others had at this step
    (with 50 the median stopping rule of Golovin et al., 2017, on best values, which late bloomers
    survive longer)."""
    step = look.curve[-1][0]
    reached = []
    for packed in look.finished[-COMPARED_CURVES:]:
        so_far = [value for at, value in unpack(packed, look.direction) if at <= step]
        if so_far:
            reached.append(max(so_far))
    if len(reached) < 2:
        return False
    return max(value for _, value in look.curve) < _quantile(reached, 1.0 - percentile / 100.0)


def _quantile(values: Sequence[float], share: float) -> float:
    """Linear between the nearest two."""
    if share == 0.5:
        return plain.median(values)
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = min(int(place), len(ordered) - 2)
    return ordered[below] + (ordered[below + 1] - ordered[below]) * (place - below)


def _is_out_of_bounds(look: _Look) -> bool:
    value = as_maximized(look.curve[-1][1], look.direction)
    lower, upper = look.settings.lower, look.settings.upper
    return (lower is not None and value < lower) or (upper is not None and value > upper)


def _when_patience_ends(look: _Look) -> Reason | None:
    """Nothing better by more than `min_delta` for `patience` steps; then what is wrapped has
    the last word, where something is."""
    settings = look.settings
    turn = look.curve[-1][0] - settings.patience
    before = [value for step, value in look.curve if step < turn]
    since = [value for step, value in look.curve if step >= turn]
    if not before or max(since) > max(before) + settings.min_delta:
        return None
    if settings.wrapped is None:
        return _verdict("patient", look)
    needs_others = settings.wrapped not in _ONLY_ITSELF
    if needs_others and len(look.finished) < max(settings.startup_trials, 1):
        return None
    return _verdict(settings.wrapped, look)


def _always(look: _Look) -> bool:
    return True


_JUDGES: Final[Mapping[PrunerName, Callable[[_Look], bool]]] = {
    "median": _is_behind_median,
    "percentile": _is_behind_percentile,
    "asha": _misses_rung,
    "hyperband": _misses_bracket_rung,
    "patient": _always,
    "threshold": _is_out_of_bounds,
    "wilcoxon": _fails_wilcoxon,
    "power_law": _is_beyond_hope,
}
