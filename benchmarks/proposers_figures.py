"""The arithmetic of the proposers' benchmark: ranks, ratios, win rates and their intervals."""

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

FLOOR: Final = 1e-4
"""Regrets below this share of the way from the best to a usual point are as good as none."""
RESAMPLES: Final = 1_000
Z95: Final = 1.959963984540054


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One method on one problem with one batch size: a list of regrets for each seed."""

    problem: str
    kind: str
    method: str
    batch: int
    marks: list[int]
    """Trials after which each search was looked at."""
    regrets: list[list[float]]
    """By seed, then by mark."""
    ms_per_proposal: float
    arms: Mapping[str, int]

    def at(self, mark: int) -> list[float]:
        """By seed. Raises ValueError for a mark that it was not looked at."""
        place = self.marks.index(mark)
        return [row[place] for row in self.regrets]


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure and where it lies with 95 % confidence."""

    value: float
    low: float
    high: float


def ranks(values: Sequence[float]) -> list[float]:
    """Of each value among all, the lowest first; equal ones share the mean of their places."""
    return [
        1.0
        + sum(other < value for other in values)
        + (sum(other == value for other in values) - 1) / 2
        for value in values
    ]


def mean_ranks(by_method: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, float]:
    """The mean over problems and seeds of each method's rank. Each method has, problem by
    problem, one regret for each seed."""
    methods = list(by_method)
    sums = dict.fromkeys(methods, 0.0)
    count = 0
    for rows in zip(*by_method.values(), strict=True):
        for values in zip(*rows, strict=True):
            count += 1
            # Differences below the floor are none.
            for method, rank in zip(methods, ranks([max(v, FLOOR) for v in values]), strict=True):
                sums[method] += rank
    return {method: total / count for method, total in sums.items()}


def log_ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [math.log(max(a, FLOOR) / max(b, FLOOR)) for a, b in zip(ours, theirs, strict=True)]


def median_ratio(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> Interval:
    """The median over problems and seeds of our regret over theirs, seed by seed; the interval
    resamples problems, and seeds within them."""
    groups = [log_ratios(a, b) for a, b in zip(ours, theirs, strict=True)]
    found = resampled(groups, statistics.median)
    return Interval(math.exp(found.value), math.exp(found.low), math.exp(found.high))


def resampled(
    groups: Sequence[Sequence[float]], figure: Callable[[Sequence[float]], float]
) -> Interval:
    """A figure of all values together, with a bootstrap over groups and within them."""
    rng = random.Random("resampled")
    drawn = []
    for _ in range(RESAMPLES):
        values: list[float] = []
        for group in rng.choices(groups, k=len(groups)):
            values += rng.choices(group, k=len(group))
        drawn.append(figure(values))
    drawn.sort()
    whole = [value for group in groups for value in group]
    low, high = drawn[round(0.025 * RESAMPLES)], drawn[round(0.975 * RESAMPLES) - 1]
    return Interval(figure(whole), low, high)


def wins(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """How often ours is lower, seed by seed; a tie is half a win."""
    pairs = [(max(a, FLOOR), max(b, FLOOR)) for a, b in zip(ours, theirs, strict=True)]
    return sum(1.0 if a < b else 0.5 if a == b else 0.0 for a, b in pairs)


def win_rate(won: float, of: int) -> Interval:
    """Wilson's score interval (1927)."""
    rate = won / of
    spread = Z95 * math.sqrt(rate * (1 - rate) / of + Z95**2 / (4 * of * of))
    middle, scale = rate + Z95**2 / (2 * of), 1 + Z95**2 / of
    return Interval(rate, (middle - spread) / scale, (middle + spread) / scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainstArms:
    """A hybrid beside its arms, each alone, on one problem."""

    problem: str
    hybrid: float
    """Mean regret."""
    better: str
    """The arm whose mean regret is lower."""
    better_regret: float
    behind: Interval
    """By how much more regret the hybrid is left with; below 0 it is ahead."""


def against_arms(
    problem: str, hybrid: Sequence[float], arms: Mapping[str, Sequence[float]]
) -> AgainstArms:
    means = {name: statistics.fmean(values) for name, values in arms.items()}
    better = min(means, key=lambda name: means[name])
    differences = [a - b for a, b in zip(hybrid, arms[better], strict=True)]
    return AgainstArms(
        problem=problem,
        hybrid=statistics.fmean(hybrid),
        better=better,
        better_regret=means[better],
        behind=resampled([differences], statistics.fmean),
    )
