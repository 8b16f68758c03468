"""Immutable distributions, and the search space made of them.

The order of a space's parameters never matters: whatever walks one goes by name, so that a
space read back from a store that sorts its keys gives the same proposals.
"""

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

from ledger.records import Params, ParamValue

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
        return any(type(value) is type(choice) and value == choice for choice in self.choices)

    def middle(self) -> ParamValue:
        """The first choice: there is no middle, and people write the usual one first."""
        return self.choices[0]


Distribution: TypeAlias = Float | Int | Categorical
SearchSpace: TypeAlias = Mapping[str, Distribution]


def cardinality(space: SearchSpace) -> int | None:
    """How many points there are: None when a range is continuous, 0 for a space without
    parameters (there is nothing to vary)."""
    if not space:
        return 0
    total = 1
    for distribution in space.values():
        size = distribution.size
        if size is None:
            return None
        total *= size
    return total


def point(space: SearchSpace, index: int) -> dict[str, ParamValue]:
    """The point at `index` of a finite space: parameters by name, the last one changing fastest
    (mixed radix). Raises ValueError when a range is continuous, IndexError past the end."""
    params: dict[str, ParamValue] = {}
    for name in sorted(space, reverse=True):
        size = space[name].size
        if size is None:
            raise ValueError(f"{name} is continuous: give it a step")
        index, digit = divmod(index, size)
        params[name] = space[name].at(digit)
    if index:
        raise IndexError("the space has fewer points")
    return dict(sorted(params.items()))


def sample(space: SearchSpace, rng: random.Random) -> dict[str, ParamValue]:
    """One independent draw of every parameter, in the order of their names."""
    return {name: space[name].sample(rng) for name in sorted(space)}


def faults(space: SearchSpace, params: Params) -> Iterator[str]:
    """Why `params` is not a point of the space, one sentence each; none when it is."""
    for name in sorted(space.keys() - params.keys()):
        yield f"{name} is missing"
    for name in sorted(params.keys() - space.keys()):
        yield f"{name} is not a parameter of the space"
    for name in sorted(space.keys() & params.keys()):
        if not space[name].contains(params[name]):
            yield f"{name}: {params[name]!r} is outside {describe(space[name])}"


def describe(distribution: Distribution) -> str:
    """What a distribution allows, for a message."""
    if isinstance(distribution, Categorical):
        return "the choices " + ", ".join(repr(choice) for choice in distribution.choices)
    kind = "floats" if isinstance(distribution, Float) else "integers"
    step = distribution.step
    steps = "" if step is None or (step == 1 and kind == "integers") else f" in steps of {step}"
    return f"the {kind} from {distribution.low} to {distribution.high}{steps}"


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
