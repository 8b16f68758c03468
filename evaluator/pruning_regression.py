"""The pooled forecast: what curves that looked so came to, learned from a study's complete ones.

A weighted least squares fit of final values on a few figures of the curve at one step. The figures
(recent level, best value, level at half the way, power-law forecast) and the way the error grows
with a curve's roughness are those under which the complete curves are likeliest. Which trials
completed depends on these very figures, so that pruning, unlike an average over what is left,
does not bias the fit.
"""

import math
import statistics as plain
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final, TypeAlias

from evaluator.statistics import student_t_ppf

FEWEST_CURVES: Final = 8
"""Nothing is learned from fewer complete curves."""
CONFIDENCE: Final = 0.95

_KINDS: Final = (("recent",), ("best",), ("recent", "before"), ("forecast",))
_ROUGH_SHARE: Final = 0.25
"""A curve without any roughness errs like one with this part of the typical one."""
_RIDGE: Final = 1e-3
_LEVERAGE_CAP: Final = 0.9
_CHOICES: Final = 1
"""The fit is one of several: as if one more figure had been estimated."""


@dataclass(frozen=True, slots=True)
class Figures:
    """A curve as it stood at one step; higher is better."""

    recent: float
    """Mean of the latest quarter of the reports, two at least."""
    best: float
    before: float
    """As `recent`, at half the way."""
    rough: float
    """Root mean square of the differences between neighbours."""
    forecast: float | None
    """Of the value at the horizon; None from too few reports."""


Known: TypeAlias = tuple[Figures, float]
"""A complete curve's figures at the step, and what it came to."""
_Row: TypeAlias = list[float]


@dataclass(frozen=True, slots=True)
class _Fit:
    kind: tuple[str, ...]
    centres: _Row
    widths: _Row
    inverse: list[_Row]
    weights: _Row
    typical_rough: float | None
    """None: all curves err alike."""
    allowance: float
    log_likelihood: float

    def row(self, figures: Figures) -> _Row:
        values = (getattr(figures, name) for name in self.kind)
        ready = zip(values, self.centres, self.widths, strict=True)
        return [1.0, *((value - centre) / width for value, centre, width in ready)]


def figures_of(values: Sequence[float], forecast: float | None) -> Figures:
    """From the values of the reports so far, of which there is one at least."""
    count = len(values)
    recent = values[-max(2, count // 4) :]
    half = max(1, count // 2)
    before = values[max(0, half - max(1, count // 4)) : half]
    steps = [(b - a) ** 2 for a, b in pairwise(values)]
    rough = math.sqrt(plain.fmean(steps)) if steps else 0.0
    return Figures(plain.fmean(recent), max(values), plain.fmean(before), rough, forecast)


def upper_bound(own: Figures, known: Sequence[Known]) -> float | None:
    """The most the curve may come to at the horizon if it errs as complete ones do; None where
    too few are known to tell.

    The allowance is the larger of the upper prediction bound and the worst shortfall when each
    complete curve is forecast from the others.
    """
    if len(known) < FEWEST_CURVES:
        return None
    fit = _best_fit(tuple(known), own.forecast is not None)
    row = fit.row(own)
    scale = _scale(own, fit.typical_rough)
    reach = math.sqrt(1.0 + _leverage(row, fit.inverse) / scale**2)
    return math.fsum(map(float.__mul__, row, fit.weights)) + fit.allowance * scale * reach


@lru_cache(maxsize=256)
def _best_fit(known: tuple[Known, ...], has_forecast: bool) -> _Fit:  # noqa: FBT001 - a cache key
    kinds = [kind for kind in _KINDS if kind != ("forecast",)]
    if has_forecast and all(figures.forecast is not None for figures, _ in known):
        kinds = list(_KINDS)
    rough = plain.median(figures.rough for figures, _ in known)
    roughs = [None, rough] if rough > 0.0 else [None]
    fits = [_fit(known, kind, typical) for kind in kinds for typical in roughs]
    return max(fits, key=lambda fit: fit.log_likelihood)


def _scale(figures: Figures, typical_rough: float | None) -> float:
    return 1.0 if typical_rough is None else figures.rough / typical_rough + _ROUGH_SHARE


def _fit(known: Sequence[Known], kind: tuple[str, ...], typical_rough: float | None) -> _Fit:
    columns = [[float(getattr(figures, name)) for figures, _ in known] for name in kind]
    centres = [plain.fmean(column) for column in columns]
    widths = [_width(column) for column in columns]
    scales = [_scale(figures, typical_rough) for figures, _ in known]
    standard = [
        [(value - centre) / width for value in column]
        for column, centre, width in zip(columns, centres, widths, strict=True)
    ]
    rows = [
        [1.0 / scale, *(value / scale for value in values)]
        for scale, *values in zip(scales, *standard, strict=True)
    ]
    finals = [final / scale for (_, final), scale in zip(known, scales, strict=True)]
    size, count = len(kind) + 1, len(known)
    products = [
        [math.fsum(row[i] * row[j] for row in rows) for j in range(size)] for i in range(size)
    ]
    for place in range(1, size):
        products[place][place] += _RIDGE * count
    inverse = _inverse(products)
    moments = [
        math.fsum(row[i] * final for row, final in zip(rows, finals, strict=True))
        for i in range(size)
    ]
    weights = [math.fsum(map(float.__mul__, line, moments)) for line in inverse]
    misses = [
        (final - math.fsum(map(float.__mul__, row, weights)))
        / (1.0 - min(_leverage(row, inverse), _LEVERAGE_CAP))
        for row, final in zip(rows, finals, strict=True)
    ]
    spread = math.sqrt(plain.fmean(miss * miss for miss in misses))
    likely = -count * math.log(max(spread, 1e-300)) - math.fsum(map(math.log, scales))
    bound = _t_quantile(count - size - _CHOICES) * spread
    return _Fit(
        kind, centres, widths, inverse, weights, typical_rough, max(bound, *misses), likely
    )


def _width(column: Sequence[float]) -> float:
    centre = plain.fmean(column)
    return math.sqrt(plain.fmean((value - centre) ** 2 for value in column)) or 1.0


def _leverage(row: _Row, inverse: list[_Row]) -> float:
    return math.fsum(a * b * inverse[i][j] for i, a in enumerate(row) for j, b in enumerate(row))


def _inverse(matrix: list[_Row]) -> list[_Row]:
    """Of a positive definite matrix, by Gauss and Jordan."""
    size = len(matrix)
    lines = [[*row, *(float(i == j) for j in range(size))] for i, row in enumerate(matrix)]
    for place in range(size):
        pivot = lines[place][place]
        lines[place] = [value / pivot for value in lines[place]]
        for other in range(size):
            if other != place:
                factor = lines[other][place]
                lines[other] = [
                    a - factor * b for a, b in zip(lines[other], lines[place], strict=True)
                ]
    return [line[size:] for line in lines]


@lru_cache(maxsize=128)
def _t_quantile(degrees: int) -> float:
    return student_t_ppf(CONFIDENCE, degrees)
