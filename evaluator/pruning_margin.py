"""The margin: what a running trial may still come to, by what completed ones came to.

A trial may be ended only when two measures of the study's own completed curves agree that it
cannot become the best. The forecast of its curve stays below the best one even when it errs as
far as forecasts at this step erred before. And it is no stranger: curves that looked like it at
this step are known to the end, and none that looked like it or worse gained nearly what it
lacks. Where either cannot be told, the trial runs on, and what it comes to is the next
measurement: what was never seen is never cancelled.
"""

import math
import statistics as plain
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final, TypeAlias

from evaluator.objective import as_maximized
from evaluator.pruning_curves import PackedCurve, pack_curve, unpack
from evaluator.pruning_forecast import COMPARED_CURVES, allowance_for, forecast_at
from ledger.records import Direction

LOOKS_PER_HORIZON: Final = 16
FIRST_LOOK: Final = 4
LAST_LOOK: Final = 13
"""A trial is looked at once in each of these sixteenths of the horizon: a few looks, not one per
report, none in the first quarter, and none when little is left to save."""
ALIKE_SHARE: Final = 0.5
"""Curves look alike when level and last rise differ by at most this part of what is lacking."""
FEWEST_ALIKE: Final = 2
EARLIER: Final = 2 / 3
"""A curve is compared with what others were at this part of its way, too: it may be late."""
EARLIER_SHARE: Final = 0.25
"""Then it must be no better by more than this part of what is lacking."""
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
    forecast: float | None
    """Of the value at the horizon; None from too few reports."""

    def is_no_better(self, other: "_Seen", width: float) -> bool:
        return self.level <= other.level + width and self.rise <= other.rise + width

    def is_like(self, other: "_Seen", width: float) -> bool:
        return self.is_no_better(other, width) and other.is_no_better(self, width)


_Known: TypeAlias = tuple[float, _Seen, _Seen]
"""What a finished curve came to, how it stood at the look, and how it had stood earlier."""


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
        finished: of trials that ran to their end, as reported.
        of_means: whether the curves are `running_means`, where the best so far says nothing.
    """
    look = _look_of(curve, horizon)
    if look is None:
        return True
    known = list(_known(finished, direction, look, horizon, of_means=of_means))
    best = max((final for final, _, _ in known), default=math.inf)
    latest = curve[-1:] if of_means else curve
    lacking = best - max(value for _, value in latest)
    own = _seen([point for point in curve if point[0] <= look], horizon, of_means=of_means)
    if own is None or not known or lacking <= 0.0:
        return True
    return _reaches(own, known, best) or _is_feared(own, known, lacking)


def _look_of(curve: Sequence[tuple[float, float]], horizon: int) -> float | None:
    """The step of the first report in the present sixteenth; None where no look is taken."""
    place = _place(curve[-1][0], horizon)
    if not FIRST_LOOK <= place <= LAST_LOOK:
        return None
    return min(step for step, _ in curve if _place(step, horizon) == place)


def _place(step: float, horizon: int) -> int:
    return int(step * LOOKS_PER_HORIZON // max(horizon, 1))


def _known(
    finished: Sequence[PackedCurve],
    direction: Direction,
    look: float,
    horizon: int,
    *,
    of_means: bool,
) -> Iterator[_Known]:
    for packed in finished[-COMPARED_CURVES:]:
        code = packed.tobytes()
        now = _seen_of(code, direction, look, horizon, of_means=of_means)
        before = _seen_of(code, direction, look * EARLIER, horizon, of_means=of_means)
        if now is not None:
            yield as_maximized(packed[-1], direction), now, before or now


def _reaches(own: _Seen, known: Sequence[_Known], best: float) -> bool:
    """Whether the forecast comes to the best one if it errs as others did. From too few reports
    for a forecast, the level stands in for it, in all of them."""
    if own.forecast is None:
        hope, errors = own.level, [final - now.level for final, now, _ in known]
    else:
        hope = own.forecast
        errors = [final - now.forecast for final, now, _ in known if now.forecast is not None]
    allowance = allowance_for(errors)
    return allowance is None or hope + allowance >= best


def _is_feared(own: _Seen, known: Sequence[_Known], lacking: float) -> bool:
    """Whether too few that looked alike are known, or one that looked no better, now or earlier
    on its way, gained nearly as much as this one lacks."""
    alike = sum(now.is_like(own, ALIKE_SHARE * lacking) for _, now, _ in known)
    if alike < FEWEST_ALIKE:
        return True
    enough = GAIN_SHARE * lacking
    return any(
        (now.is_no_better(own, ALIKE_SHARE * lacking) and final - now.level >= enough)
        or (before.is_no_better(own, EARLIER_SHARE * lacking) and final - before.level >= enough)
        for final, now, before in known
    )


@lru_cache(maxsize=32 * COMPARED_CURVES)
def _seen_of(
    packed: bytes, direction: Direction, step: float, horizon: int, *, of_means: bool
) -> _Seen | None:
    points = _until(unpack(array("d", packed), direction), step)
    return _seen(points, horizon, of_means=of_means)


def _until(points: Sequence[tuple[float, float]], step: float) -> list[tuple[float, float]]:
    """The curve up to a step, with the value between two reports where it has none there."""
    known = [point for point in points if point[0] <= step]
    if 0 < len(known) < len(points) and known[-1][0] < step:
        (at, was), (then, value) = known[-1], points[len(known)]
        if then > at:
            known.append((step, was + (value - was) * (step - at) / (then - at)))
    return known


def _seen(points: Sequence[tuple[float, float]], horizon: int, *, of_means: bool) -> _Seen | None:
    if not points:
        return None
    middle = points[-1][0] / 2.0
    before = [value for step, value in points if step <= middle] or [points[0][1]]
    level, was = (
        (points[-1][1], before[-1])
        if of_means
        else (max(value for _, value in points), max(before))
    )
    return _Seen(level, level - was, forecast_at(tuple(points), horizon))


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
