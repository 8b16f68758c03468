"""The power-law forecast: what a running trial's curve may come to at the horizon."""

import math
import statistics as plain
from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from evaluator.objective import as_maximized
from evaluator.pruning_curves import PackedCurve, unpack
from evaluator.statistics import student_t_ppf
from ledger.records import Direction

COMPARED_CURVES: Final = 64
"""Medians and the forecast's error are taken from so many latest finished curves."""
FEWEST_POINTS: Final = 5
"""A forecast from fewer is not made."""
FEWEST_CURVES: Final = 4
"""Nor is its error known from fewer finished curves, whatever `startup_trials` says."""
CONFIDENCE: Final = 0.95
RUNGS_PER_HORIZON: Final = 16
FIRST_RUNG: Final = 2
LAST_RUNG: Final = 10
"""Forecasts are made at these sixteenths of the horizon: a few looks, not one per report, and
none when little is left to save."""

_WARM_UP_SHARE: Final = 0.1
_SHAPES: Final = (0.1, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, -2.0, -4.0, -8.0, -16.0, -32.0)
"""Exponents of powers when positive, rates of exponentials when negative."""


def is_beyond_hope(
    curve: Sequence[tuple[float, float]],
    finished: Sequence[PackedCurve],
    direction: Direction,
    horizon: int,
) -> bool:
    """Whether even an optimistic forecast at the horizon stays below the best finished trial, at
    the last rung the trial has passed and at the one before: one bad look is not enough."""
    rung = math.floor(curve[-1][0] * RUNGS_PER_HORIZON / max(horizon, 1))
    if not FIRST_RUNG < rung <= LAST_RUNG:
        return False
    best = max(as_maximized(packed[-1], direction) for packed in finished)
    for look in (rung, rung - 1):
        step = look * horizon / RUNGS_PER_HORIZON
        hope = _hope(curve, finished, direction, step, horizon)
        if hope is None or hope >= best:
            return False
    return True


def _hope(
    curve: Sequence[tuple[float, float]],
    finished: Sequence[PackedCurve],
    direction: Direction,
    step: float,
    horizon: int,
) -> float | None:
    """The most a curve that is known up to `step` may come to at the horizon; None: unknown.

    The optimism is measured, not assumed: the same forecast, made from the finished curves as
    they stood at that step, fell short of what they came to by so much. The allowance is the
    larger of the worst shortfall and the upper prediction bound of the next one.
    """
    own = forecast_at(tuple(point for point in curve if point[0] <= step), horizon)
    if own is None:
        return None
    found = (
        _shortfall(packed.tobytes(), direction, step, horizon)
        for packed in finished[-COMPARED_CURVES:]
    )
    shortfalls = [s for s in found if s is not None]
    allowance = allowance_for(shortfalls)
    return None if allowance is None else own + allowance


def allowance_for(shortfalls: Sequence[float]) -> float | None:
    """The larger of the worst shortfall and the upper prediction bound of the next one; None
    where too few are known."""
    count = len(shortfalls)
    if count < FEWEST_CURVES:
        return None
    spread = plain.stdev(shortfalls) * math.sqrt(1.0 + 1.0 / count)
    bound = plain.fmean(shortfalls) + _t_quantile(count - 1) * spread
    return max(bound, *shortfalls)


@lru_cache(maxsize=COMPARED_CURVES)
def _t_quantile(degrees: int) -> float:
    return student_t_ppf(CONFIDENCE, degrees)


@lru_cache(maxsize=16 * COMPARED_CURVES)
def _shortfall(packed: bytes, direction: Direction, step: float, horizon: int) -> float | None:
    """What a finished curve came to minus its forecast from what was known at `step`."""
    points = unpack(array("d", packed), direction)
    forecast = forecast_at(tuple(point for point in points if point[0] <= step), horizon)
    return None if forecast is None else points[-1][1] - forecast


@lru_cache(maxsize=256)
def forecast_at(points: tuple[tuple[float, float], ...], horizon: int) -> float | None:
    """The value at the horizon of a + b x(t), averaged over shapes x by how well each fits.

    Shapes are powers t^-c and exponentials e^-kt of t = share of the horizon. For one shape a
    and b are least squares; its weight is its likelihood under normal errors of unknown size.
    The first tenth of what is known is left out: warm-up follows no law.
    """
    known = [point for point in points if point[0] >= points[-1][0] * _WARM_UP_SHARE]
    if len(known) < FEWEST_POINTS:
        return None
    centre = plain.fmean(value for _, value in known)
    total = math.fsum((value - centre) ** 2 for _, value in known)
    floor = max(total * 1e-9, 1e-300)
    fits = [_fit(shape, known, centre, horizon) for shape in _SHAPES]
    best = max(min(fit[0] for fit in fits), floor)
    weights = [(max(fit[0], floor) / best) ** (-len(known) / 2.0) for fit in fits]
    weighted = math.fsum(w * fit[1] for w, fit in zip(weights, fits, strict=True))
    return weighted / math.fsum(weights)


def _fit(
    shape: float, known: Sequence[tuple[float, float]], centre: float, horizon: int
) -> tuple[float, float]:
    """Squared error of one shape, and its value at the horizon."""
    xs = [_shape(shape, (step + 1.0) / (horizon + 1.0)) for step, _ in known]
    middle = plain.fmean(xs)
    width = math.fsum((x - middle) ** 2 for x in xs)
    if width <= 0.0:
        return 0.0, centre
    slope = sum((x - middle) * (v - centre) for x, (_, v) in zip(xs, known, strict=True)) / width
    errors = math.fsum(
        (v - centre - slope * (x - middle)) ** 2 for x, (_, v) in zip(xs, known, strict=True)
    )
    return errors, centre + slope * (_shape(shape, 1.0) - middle)


def _shape(shape: float, share: float) -> float:
    return share**-shape if shape > 0.0 else math.exp(shape * share)
