"""The statistics behind every decision: pure functions on numbers, standard library only.

Larger is better throughout; callers orient their values with `evaluator.objective` first.
"""

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

PERMUTATION_CAP: Final = 20_000
"""Up to so many splits are enumerated; beyond, so many are drawn with a fixed seed."""

_RELATIVE_TIE: Final = 1e-12
"""Two sums closer than this share of their scale differ by rounding only."""


def mean(values: Sequence[float]) -> float:
    """Raises ValueError when there are none."""
    if not values:
        raise ValueError("the mean of no values")
    return math.fsum(values) / len(values)


def _sum_of_squares(values: Sequence[float]) -> float:
    """Of the deviations from the mean; exactly 0 when they differ by rounding only."""
    centre = mean(values)
    total = math.fsum((v - centre) ** 2 for v in values)
    rounding = _RELATIVE_TIE * max(abs(v) for v in values)
    return total if total > len(values) * rounding**2 else 0.0


def variance(values: Sequence[float]) -> float:
    """The unbiased sample variance. Raises ValueError for fewer than two values."""
    if len(values) < 2:
        raise ValueError("the variance of fewer than two values")
    return _sum_of_squares(values) / (len(values) - 1)


# --- the noise floor ---------------------------------------------------------------------------


def pooled_sd(groups: Iterable[Sequence[float]]) -> float | None:
    """sqrt(sum of the groups' squared deviations / sum of their degrees of freedom).

    A group is the repeated measurements of one candidate; groups of one say nothing about noise.
    None when no group has two values.
    """
    squares, freedom = 0.0, 0
    for group in groups:
        if len(group) > 1:
            squares += _sum_of_squares(group)
            freedom += len(group) - 1
    return math.sqrt(squares / freedom) if freedom else None


def noise_floor(groups: Iterable[Sequence[float]], *, resolution: float = 0.0) -> float | None:
    """The larger of the pooled standard deviation and the metric's resolution.

    Baselines are one group; replicates and replays join, one group per candidate. None when
    nothing was measured twice: then nothing can be decided.
    """
    spread = pooled_sd(groups)
    return None if spread is None else max(spread, resolution)


# --- Student's t -------------------------------------------------------------------------------


def _log_beta_half(a: float) -> float:
    """ln B(a, 1/2), without the cancellation that lgamma differences suffer at large a."""
    if a < 50.0:
        return math.lgamma(a) + math.lgamma(0.5) - math.lgamma(a + 0.5)
    # ln Gamma(a + 1/2) - ln Gamma(a), Abramowitz & Stegun 6.1.47 in logarithmic form.
    ratio = 0.5 * math.log(a) - 1 / (8 * a) + 1 / (192 * a**3) - 1 / (640 * a**5)
    return math.lgamma(0.5) - ratio - 17 / (14336 * a**7)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function (DLMF 8.17.22), modified Lentz."""
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        step = 1.0
        for term in (even, odd):
            d = 1.0 + term * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + term / c
            c = c if abs(c) > tiny else tiny
            step = c * d
            value *= step
        if abs(step - 1.0) < 1e-16:
            break
    return value


def student_t_sf(t: float, df: float) -> float:
    """P(T > t) for Student's t with `df` > 0 degrees of freedom, not necessarily whole.

    P(|T| > t) = I_x(df/2, 1/2) with x = df / (df + t^2) (DLMF 8.17; A&S 26.7.1).
    """
    if not df > 0:
        raise ValueError(f"degrees of freedom must be positive, not {df}")
    if math.isnan(t):
        return math.nan
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    a, x, y = df / 2.0, df / (df + t * t), t * t / (df + t * t)
    log_front = a * -math.log1p(t * t / df) + 0.5 * math.log(y) if y > 0 else -math.inf
    front = math.exp(log_front - _log_beta_half(a))
    if x < (a + 1.0) / (a + 2.5):
        both_tails = front * _beta_fraction(a, 0.5, x) / a
    else:
        both_tails = 1.0 - front * _beta_fraction(0.5, a, y) / 0.5
    return both_tails / 2.0 if t > 0 else 1.0 - both_tails / 2.0


def student_t_ppf(q: float, df: float) -> float:
    """The value below which Student's t lies with probability q in (0, 1), by bisection."""
    if not 0.0 < q < 1.0:
        raise ValueError(f"a probability between 0 and 1 is needed, not {q}")
    if q == 0.5:
        return 0.0
    tail = min(q, 1.0 - q)
    high = 1.0
    while student_t_sf(high, df) > tail:
        high *= 2.0
    low = 0.0
    while True:
        middle = (low + high) / 2.0
        if middle in (low, high):
            return middle if q > 0.5 else -middle
        if student_t_sf(middle, df) > tail:
            low = middle
        else:
            high = middle


# --- comparisons -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Welch:
    """Welch's comparison of two means (Welch 1947; Satterthwaite's degrees of freedom)."""

    difference: float
    """Mean of the first minus mean of the second."""
    standard_error: float
    degrees_of_freedom: float
    p_greater: float
    """One-sided: of a difference this large if the first were no larger."""

    def interval(self, confidence: float = 0.95) -> Interval:
        if self.standard_error == 0.0:
            return Interval(self.difference, self.difference)
        t = student_t_ppf(0.5 + confidence / 2.0, self.degrees_of_freedom)
        return Interval(
            self.difference - t * self.standard_error, self.difference + t * self.standard_error
        )

    def lower_bound(self, confidence: float = 0.95) -> float:
        """One-sided: the difference is larger than this with the given confidence."""
        if self.standard_error == 0.0:
            return self.difference
        return self.difference - self.standard_error * student_t_ppf(
            confidence, self.degrees_of_freedom
        )


def welch(new: Sequence[float], old: Sequence[float]) -> Welch:
    """Compare two samples of at least two values each; raises ValueError for fewer.

    Without any variance the difference is exact: p is 0 if it is positive beyond rounding,
    else 1.
    """
    a, b = variance(new) / len(new), variance(old) / len(old)
    difference = mean(new) - mean(old)
    total = a + b
    if total <= 0.0:
        positive = difference > tie_tolerance([*new, *old])
        return Welch(difference, 0.0, math.inf, 0.0 if positive else 1.0)
    freedom = total * total / (a * a / (len(new) - 1) + b * b / (len(old) - 1))
    error = math.sqrt(total)
    return Welch(difference, error, freedom, student_t_sf(difference / error, freedom))


def tie_tolerance(values: Sequence[float]) -> float:
    """Differences of means or sums of `values` no larger than this are rounding."""
    return _RELATIVE_TIE * math.fsum(map(abs, values))


def permutation_p(
    new: Sequence[float], old: Sequence[float], *, cap: int = PERMUTATION_CAP, seed: int = 0
) -> float:
    """One-sided two-sample permutation test of means: the share of all ways to call len(new) of
    the values "new" whose sum is at least the observed one (Fisher; Pitman 1937). Ties count.

    Exact up to `cap` ways. Beyond, `cap` seeded draws with the observed one counted in, which
    keeps the test valid (Phipson & Smyth 2010).
    """
    if not new or not old:
        raise ValueError("a permutation test needs values on both sides")
    values, size = [*new, *old], len(new)
    enough = math.fsum(new) - tie_tolerance(values)
    if (ways := math.comb(len(values), size)) <= cap:
        return sum(s >= enough for s in map(sum, combinations(values, size))) / ways
    draws = random.Random(seed)
    reached = 1
    for _ in range(cap):
        # A partial shuffle by random() alone, whose sequence Python promises never to change.
        for i in range(size):
            j = i + int(draws.random() * (len(values) - i))
            values[i], values[j] = values[j], values[i]
        reached += sum(values[:size]) >= enough
    return reached / (cap + 1)


# --- intervals ---------------------------------------------------------------------------------


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Student's interval of a mean. Raises ValueError for fewer than two values."""
    error = math.sqrt(variance(values) / len(values))
    centre = mean(values)
    if error == 0.0:
        return Interval(centre, centre)
    t = student_t_ppf(0.5 + confidence / 2.0, len(values) - 1)
    return Interval(centre - t * error, centre + t * error)


def wilson_interval(successes: float, count: int, z: float = 1.959963984540054) -> Interval:
    """Wilson's score interval of a proportion (Wilson 1927); z defaults to 95 %."""
    if count < 1 or not 0 <= successes <= count:
        raise ValueError(f"{successes} successes of {count} is not a proportion")
    share = successes / count
    scale = 1 + z * z / count
    centre = (share + z * z / (2 * count)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return Interval(max(0.0, centre - half), min(1.0, centre + half))
