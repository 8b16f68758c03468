"""The margin: what a running trial may still come to, by what completed ones came to.

A trial may be ended only when two measures of the study's own completed curves agree that it
cannot become the best. The pooled forecast of its curve stays below the best one even when it
errs as far as it does for complete curves. And it is no stranger: curves that looked like it at
this step are known to the end, and none that looked like it or worse gained nearly what it
lacks. Where either cannot be told, the trial runs on, and what it comes to is the next
measurement: what was never seen is never cancelled.
"""

import math
import statistics as plain
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final

from evaluator.objective import as_maximized
from evaluator.pruning_curves import CURVE_POINTS, PackedCurve, pack_curve, thin_curve, unpack
from evaluator.pruning_forecast import COMPARED_CURVES, forecast_at
from evaluator.pruning_regression import Figures, figures_of, upper_bound
from ledger.records import Direction

LOOKS_PER_HORIZON: Final = 16
FIRST_LOOK: Final = 5
LAST_LOOK: Final = 13
"""A trial is looked at once in each of these sixteenths of the horizon: a few looks, not one per
report, none in the first five, and none when little is left to save."""
ALIKE_SHARE: Final = 0.5
"""Curves look alike when level and last rise differ by at most this part of what is lacking."""
FEWEST_ALIKE: Final = 2
FEARED_SHARE: Final = 0.25
"""One is no better than another when level and last rise exceed it by at most this part."""
EARLIER: Final = 0.8
"""A curve is compared with what others were at this part of its way, too: it may be late."""
EARLIER_SHARE: Final = 0.1
"""Then one is no better that exceeds it by at most this part of what is lacking."""
GAIN_SHARE: Final = 0.9
"""A gain of this part of what is lacking is near enough to be feared."""

_ITEMS_RATIO: Final = 1.0
"""Mean square of differences between neighbours over the variance: 2 for reports in no order, near
0 for a curve."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A curve as it stood at one step; higher is better."""

    level: float
    """The best value so far; of means, the latest."""
    rise: float
    """How much of that came in the second half of the way."""
    figures: Figures

    def is_no_better(self, other: "_Seen", width: float) -> bool:
        return self.level <= other.level + width and self.rise <= other.rise + width

    def is_like(self, other: "_Seen", width: float) -> bool:
        return self.is_no_better(other, width) and other.is_no_better(self, width)


def may_still_win(
    curve: Sequence[tuple[int, float]],
    finished: Sequence[PackedCurve],
    direction: Direction,
    horizon: int,
    *,
    of_means: bool = False,
) -> bool:
    """Whether it cannot be excluded that the trial ends above the best finished one.

    Args:
        curve: of the running trial, not empty; higher where better.
        finished: of trials that ran to their end, as reported; not empty.
        of_means: whether the curves are `running_means`, where the best so far says nothing.
    """
    look = _look_of(curve, horizon)
    if look is None:
        return True
    best = max(as_maximized(packed[-1], direction) for packed in finished)
    latest = curve[-1:] if of_means else curve
    lacking = best - max(value for _, value in latest)
    if lacking <= 0.0:
        return True
    own = _own(curve, look, horizon, of_means=of_means)
    compared = finished[-COMPARED_CURVES:]
    finals = [as_maximized(packed[-1], direction) for packed in compared]
    known = _known(compared, finals, direction, look, horizon, of_means=of_means)
    earlier = _known(compared, finals, direction, look * EARLIER, horizon, of_means=of_means)
    if _is_feared(own, known, earlier, lacking):
        return True
    bound = upper_bound(own.figures, [(seen.figures, final) for seen, final in known])
    return bound is None or bound >= best


def _look_of(curve: Sequence[tuple[float, float]], horizon: int) -> float | None:
    """The step of the first report in the present sixteenth; None where no look is taken."""
    place = _place(curve[-1][0], horizon)
    if not FIRST_LOOK <= place <= LAST_LOOK:
        return None
    return min(step for step, _ in curve if _place(step, horizon) == place)


def _place(step: float, horizon: int) -> int:
    return int(step * LOOKS_PER_HORIZON // max(horizon, 1))


def _known(
    compared: Sequence[PackedCurve],
    finals: Sequence[float],
    direction: Direction,
    step: float,
    horizon: int,
    *,
    of_means: bool,
) -> list[tuple[_Seen, float]]:
    """How complete curves stood at a step, and what they came to."""
    seen = (_seen_of(p.tobytes(), direction, step, horizon, of_means=of_means) for p in compared)
    return [(s, final) for s, final in zip(seen, finals, strict=True) if s is not None]


def _is_feared(
    own: _Seen,
    known: Sequence[tuple[_Seen, float]],
    earlier: Sequence[tuple[_Seen, float]],
    lacking: float,
) -> bool:
    """Whether too few that looked alike are known, or one that looked no better, now or earlier
    on its way, gained nearly as much as this one lacks."""
    alike = sum(seen.is_like(own, ALIKE_SHARE * lacking) for seen, _ in known)
    return alike < FEWEST_ALIKE or any(
        seen.is_no_better(own, share * lacking) and final - seen.level >= GAIN_SHARE * lacking
        for found, share in ((known, FEARED_SHARE), (earlier, EARLIER_SHARE))
        for seen, final in found
    )


def _own(
    curve: Sequence[tuple[int, float]], look: float, horizon: int, *, of_means: bool
) -> _Seen:
    """The running curve, with as few points on its way as a finished one keeps: means of several
    reports are smoother than reports."""
    points = [point for point in curve if point[0] <= look]
    most = max(2, round(CURVE_POINTS * look / max(horizon, 1)))
    return _seen(tuple(thin_curve(points, most)), horizon, of_means=of_means)


@lru_cache(maxsize=32 * COMPARED_CURVES)
def _seen_of(
    packed: bytes, direction: Direction, step: float, horizon: int, *, of_means: bool
) -> _Seen | None:
    points = _until(unpack(array("d", packed), direction), step)
    return _seen(tuple(points), horizon, of_means=of_means) if points else None


def _until(points: Sequence[tuple[float, float]], step: float) -> list[tuple[float, float]]:
    """The curve up to a step, with the value between two reports where it has none there."""
    known = [point for point in points if point[0] <= step]
    if 0 < len(known) < len(points) and known[-1][0] < step:
        (at, was), (then, value) = known[-1], points[len(known)]
        if then > at:
            known.append((step, was + (value - was) * (step - at) / (then - at)))
    return known


@lru_cache(maxsize=256)
def _seen(points: tuple[tuple[float, float], ...], horizon: int, *, of_means: bool) -> _Seen:
    middle = points[-1][0] / 2.0
    before = [value for step, value in points if step <= middle] or [points[0][1]]
    level, was = (
        (points[-1][1], before[-1])
        if of_means
        else (max(value for _, value in points), max(before))
    )
    figures = figures_of([value for _, value in points], forecast_at(points, horizon))
    return _Seen(level, level - was, figures)


# --- items ---------------------------------------------------------------------------------------


def are_items(finished: Sequence[PackedCurve]) -> bool:
    """Whether reports are scores of items in no order (folds, problems), not a curve: those of
    most finished trials do not depend on the one before."""
    found = (_turning(packed.tobytes()) for packed in finished[-COMPARED_CURVES:])
    ratios = [ratio for ratio in found if ratio is not None]
    return bool(ratios) and plain.median(ratios) >= _ITEMS_RATIO


@lru_cache(maxsize=2 * COMPARED_CURVES)
def _turning(packed: bytes) -> float | None:
    values = array("d", packed)[1::2]
    mean = plain.fmean(values)
    spread = math.fsum((value - mean) ** 2 for value in values)
    if spread <= 0.0:
        return None
    return math.fsum((b - a) ** 2 for a, b in pairwise(values)) / spread


def running_means(curve: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """What a trial came to with each item, where its result is their mean."""
    totals = accumulate(value for _, value in curve)
    return [
        (step, total / n)
        for n, ((step, _), total) in enumerate(zip(curve, totals, strict=True), 1)
    ]


def packed_means(packed: PackedCurve) -> PackedCurve:
    points = [(int(packed[i]), packed[i + 1]) for i in range(0, len(packed), 2)]
    return pack_curve(running_means(points))
