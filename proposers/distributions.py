"""What one parameter may be: immutable ranges and choices."""

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

from ledger.records import ParamValue

Conditions: TypeAlias = tuple[tuple[str, tuple[ParamValue, ...]], ...]
"""Categorical parameters and the values each must have: the parameter exists only then."""

_LOG_DIGITS: Final = 12
"""Log-uniform draws are rounded so that two libms' exp() give the same number."""


@dataclass(frozen=True, slots=True)
class Float:
    """Real numbers in [low, high], or low, low + step, low + 2 step, … where `step` is set.

    With `log`, draws are uniform in the logarithm; steps stay equal distances.
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None
    when: Conditions = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"low must be below high, got {self.low} and {self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"a log range starts above 0, got {self.low}")
        if self.step is not None and not self.step > 0:
            raise ValueError(f"step must be above 0, got {self.step}")

    @property
    def size(self) -> int | None:
        """How many values there are; None for a continuous range."""
        if self.step is None:
            return None
        return (_exact(self.high) - _exact(self.low)) // _exact(self.step) + 1

    def at(self, index: int) -> float:
        """The value at `index`, as its decimal would be typed: 0.3, not 0.30000000000000004.

        Raises ValueError without a step.
        """
        if self.step is None:
            raise ValueError("a continuous range has no points; give it a step")
        return float(_exact(self.low) + index * _exact(self.step))

    def sample(self, rng: random.Random) -> float:
        if self.step is None:
            return self._clamp(self._draw_log(rng) if self.log else self._draw(rng))
        size = self.size or 1
        if not self.log:
            return self.at(rng.randrange(size))
        last = self.at(size - 1)
        drawn = _log_uniform(rng, *_widened(self.low, last, self.step))
        return self.at(self._nearest_index(drawn))

    def contains(self, value: ParamValue) -> bool:
        """Only floats: 1 is not a value of a float range, 1.0 is."""
        if type(value) is not float or not self.low <= value <= self.high:
            return False
        return self.step is None or self.at(self._nearest_index(value)) == value

    def middle(self) -> float:
        """Halfway, in the logarithm where `log` is set, on the nearest step."""
        if self.log:
            half = _round_log(math.exp((math.log(self.low) + math.log(self.high)) / 2))
        else:
            half = float((_exact(self.low) + _exact(self.high)) / 2)
        return self._clamp(half) if self.step is None else self.at(self._nearest_index(half))

    def _draw(self, rng: random.Random) -> float:
        share = rng.random()
        # Not low + share * (high - low): that difference may overflow.
        return self.low * (1 - share) + self.high * share

    def _draw_log(self, rng: random.Random) -> float:
        return _round_log(_log_uniform(rng, self.low, self.high))

    def _clamp(self, value: float) -> float:
        return min(max(value, self.low), self.high)

    def _nearest_index(self, value: float) -> int:
        if self.step is None:
            raise ValueError("a continuous range has no points; give it a step")
        nearest = round((_exact(value) - _exact(self.low)) / _exact(self.step))
        return min(max(nearest, 0), (self.size or 1) - 1)


@dataclass(frozen=True, slots=True)
class Int:
    """low, low + step, low + 2 step, … up to high. With `log`, small values come up more often."""

    low: int
    high: int
    log: bool = False
    step: int = 1
    when: Conditions = ()

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"low must be below high, got {self.low} and {self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"a log range starts above 0, got {self.low}")
        if self.step < 1:
            raise ValueError(f"step must be at least 1, got {self.step}")

    @property
    def size(self) -> int:
        return (self.high - self.low) // self.step + 1

    def at(self, index: int) -> int:
        return self.low + index * self.step

    def sample(self, rng: random.Random) -> int:
        if not self.log:
            return self.at(rng.randrange(self.size))
        last = self.at(self.size - 1)
        return self._nearest(_log_uniform(rng, *_widened(self.low, last, self.step)))

    def contains(self, value: ParamValue) -> bool:
        """Only integers: neither 1.0 nor true is a value of an integer range."""
        return (
            type(value) is int
            and self.low <= value <= self.high
            and (value - self.low) % self.step == 0
        )

    def middle(self) -> int:
        """Halfway, in the logarithm where `log` is set, on the nearest step."""
        if self.log:
            return self._nearest(math.exp((math.log(self.low) + math.log(self.high)) / 2))
        return self.at((self.size - 1) // 2)

    def _nearest(self, value: float) -> int:
        nearest = round(Fraction(round(value) - self.low) / self.step)
        return self.at(min(max(nearest, 0), self.size - 1))


@dataclass(frozen=True, slots=True)
class Categorical:
    """One of several values, in no order. 1, 1.0 and true are different values."""

    choices: tuple[ParamValue, ...]
    when: Conditions = ()

    def __post_init__(self) -> None:
        if not self.choices:
            raise ValueError("at least one choice is needed")

    @property
    def size(self) -> int:
        return len(self.choices)

    def at(self, index: int) -> ParamValue:
        return self.choices[index]

    def sample(self, rng: random.Random) -> ParamValue:
        return self.choices[rng.randrange(self.size)]

    def contains(self, value: ParamValue) -> bool:
        return is_among(value, self.choices)

    def middle(self) -> ParamValue:
        """The first choice: there is no middle, and people write the usual one first."""
        return self.choices[0]


Distribution: TypeAlias = Float | Int | Categorical


def is_among(value: ParamValue, values: Iterable[ParamValue]) -> bool:
    """1, 1.0 and true are different values."""
    return any(type(value) is type(other) and value == other for other in values)


def _exact(value: float) -> Fraction:
    """The decimal a float is written as, exactly."""
    return Fraction(repr(value))


def _log_uniform(rng: random.Random, low: float, high: float) -> float:
    first, last = math.log(low), math.log(high)
    return math.exp(first + (last - first) * rng.random())


def _round_log(value: float) -> float:
    return float(f"{value:.{_LOG_DIGITS}g}")


def _widened(low: float, last: float, step: float) -> tuple[float, float]:
    """Half a step more on both sides, so that the end points are drawn like the others."""
    return max(low - step / 2, low / 2), last + step / 2
