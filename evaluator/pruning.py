"""Pruning: whether a running trial's curve says that it cannot become the best any more.

Pure functions of this trial's curve so far and the finished trials' curves. Forecasts are read
at the horizon, never at the present step: a curve that is behind now may still win.
"""

import math
import statistics as plain
from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from evaluator.objective import as_maximized
from evaluator.statistics import student_t_ppf
from ledger.records import Direction
from ledger.states import Reason

Curve: TypeAlias = Sequence[tuple[int, float]]
"""(step, value) in the order reported; steps need not be distinct, values not finite."""

PackedCurve: TypeAlias = "array[float]"
"""A finished trial's curve: step, value, step, value, ... At most CURVE_POINTS pairs, which is
half a kilobyte."""

PrunerName: TypeAlias = Literal["none", "median", "power_law"]

CURVE_POINTS: Final = 32
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

_VALUE_CAP: Final = 1e60
_STEP_CAP: Final = 2**53
"""What a program says is not bounded: beyond these, sums and squares of it would overflow."""

_WARM_UP_SHARE: Final = 0.1
_SHAPES: Final = (0.1, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, -2.0, -4.0, -8.0, -16.0, -32.0)
"""Exponents of powers when positive, rates of exponentials when negative."""


def decide_pruning(
    name: PrunerName,
    *,
    curve: Curve,
    finished: Sequence[PackedCurve],
    direction: Direction,
    warmup_steps: int = 0,
    startup_trials: int = 5,
    horizon: int | None = None,
) -> Reason | None:
    """Why the trial should stop now, or None to let it run.

    `none` never stops anything. The others stop a trial whose latest value is not finite
    (`not_finite`); otherwise they wait for `warmup_steps` and for `startup_trials` finished ones.

    Args:
        curve: of the running trial, or its `thin_curve`.
        finished: `pack_curve` of trials that ran to their end, in the order of finishing;
            pruned ones must not be among them.
        direction: in which the watched metric is better.
        horizon: the step at which trials end; default: the furthest step of a finished one.
    """
    if name == "none" or not curve:
        return None
    if not _is_number(curve[-1][1]):
        return Reason.NOT_FINITE
    known = [packed for packed in finished if packed]
    if curve[-1][0] < warmup_steps or len(known) < max(startup_trials, 1):
        return None
    oriented = [(s, as_maximized(v, direction)) for s, v in curve if _is_usable(s, v)]
    if not oriented:
        return None
    if name == "median":
        doomed = _is_behind_median(oriented, known, direction)
        return Reason.PRUNED_MEDIAN if doomed else None
    end = horizon if horizon is not None else max(int(packed[-2]) for packed in known)
    doomed = _is_beyond_hope(oriented, known, direction, end)
    return Reason.PRUNED_FORECAST if doomed else None


def _is_number(value: float) -> bool:
    """Finite, and not so large that the trial has diverged all the same."""
    return math.isfinite(value) and abs(value) <= _VALUE_CAP


def _is_usable(step: int, value: float) -> bool:
    return 0 <= step <= _STEP_CAP and _is_number(value)


# --- curves ------------------------------------------------------------------------------------


def thin_curve(curve: Curve, points: int = CURVE_POINTS) -> list[tuple[int, float]]:
    """At most `points` points: means over equal widths of steps, and the last point as it is.

    Non-finite values are left out of the means. A curve that is short enough is returned as it
    was, so thinning twice changes nothing.
    """
    if len(curve) <= points:
        return list(curve)
    first, last = (min(max(step, 0), _STEP_CAP) for step in (curve[0][0], curve[-1][0]))
    width = max(last - first, 1) / (points - 1)
    buckets: dict[int, list[tuple[int, float]]] = {}
    for step, value in curve[:-1]:
        if _is_usable(step, value):
            place = min(max(int((step - first) / width), 0), points - 2)
            buckets.setdefault(place, []).append((step, value))
    thinned = [
        (round(plain.fmean(s for s, _ in bucket)), plain.fmean(v for _, v in bucket))
        for _, bucket in sorted(buckets.items())
    ]
    return [*thinned, curve[-1]]


def pack_curve(curve: Curve) -> PackedCurve:
    """A finished trial's curve as it is kept; empty when it has no finite value."""
    finite = [(step, value) for step, value in curve if _is_usable(step, value)]
    packed = array("d")
    for step, value in thin_curve(finite):
        packed.extend((float(step), value))
    return packed


def _unpack(packed: PackedCurve, direction: Direction) -> list[tuple[float, float]]:
    return [(packed[i], as_maximized(packed[i + 1], direction)) for i in range(0, len(packed), 2)]


# --- median ------------------------------------------------------------------------------------


def _is_behind_median(
    curve: Sequence[tuple[float, float]],
    finished: Sequence[PackedCurve],
    direction: Direction,
) -> bool:
    """Best value so far below the median of what the others had at this step (the median
    stopping rule of Golovin et al., 2017, on best values, which late bloomers survive longer)."""
    step = curve[-1][0]
    reached = []
    for packed in finished[-COMPARED_CURVES:]:
        so_far = [value for at, value in _unpack(packed, direction) if at <= step]
        if so_far:
            reached.append(max(so_far))
    if len(reached) < 2:
        return False
    return max(value for _, value in curve) < plain.median(reached)


# --- power law ---------------------------------------------------------------------------------


def _is_beyond_hope(
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
    own = _forecast(tuple(point for point in curve if point[0] <= step), horizon)
    if own is None:
        return None
    found = (
        _shortfall(packed.tobytes(), direction, step, horizon)
        for packed in finished[-COMPARED_CURVES:]
    )
    shortfalls = [s for s in found if s is not None]
    count = len(shortfalls)
    if count < FEWEST_CURVES:
        return None
    spread = plain.stdev(shortfalls) * math.sqrt(1.0 + 1.0 / count)
    bound = plain.fmean(shortfalls) + student_t_ppf(CONFIDENCE, count - 1) * spread
    return own + max(bound, *shortfalls)


@lru_cache(maxsize=16 * COMPARED_CURVES)
def _shortfall(packed: bytes, direction: Direction, step: float, horizon: int) -> float | None:
    """What a finished curve came to minus its forecast from what was known at `step`."""
    points = _unpack(array("d", packed), direction)
    forecast = _forecast(tuple(point for point in points if point[0] <= step), horizon)
    return None if forecast is None else points[-1][1] - forecast


@lru_cache(maxsize=256)
def _forecast(points: tuple[tuple[float, float], ...], horizon: int) -> float | None:
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
