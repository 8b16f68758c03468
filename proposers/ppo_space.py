"""The search space as a unit cube: one coordinate for each number, one for each choice.

The policy knows only this cube, so that what it learned in one space holds in any other.
Numbers go over by the scale that draws are uniform in: linear, logarithmic, or by step. A
categorical parameter takes one coordinate per choice, and the largest of them wins. What has one
value only takes none.
"""

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ledger.records import Params, ParamValue
from proposers.distributions import Categorical, Distribution, Float, Int
from proposers.search_space import SearchSpace, in_order, is_active

Array: TypeAlias = NDArray[np.float64]

MIDDLE: Final = 0.5
"""Coordinate of a number that does not exist in a point."""
_DIGITS: Final = 12
"""Values of a continuous range are rounded to so many digits, so that the same coordinate gives
the same value with any libm."""


@dataclass(frozen=True, slots=True)
class Part:
    """The coordinates of one parameter."""

    name: str
    first: int
    last: int
    """The coordinates are first, …, last - 1."""
    distribution: Distribution

    @property
    def is_choice(self) -> bool:
        return isinstance(self.distribution, Categorical)


class UnitCube:
    """Points as vectors and back, without loss for values of the space."""

    def __init__(self, space: SearchSpace) -> None:
        self.space = space
        self.order = in_order(space)
        self.parts: dict[str, Part] = {}
        self.width = 0
        for name in self.order:
            self._add(name, space[name])
        self.is_choice = np.zeros(self.width, dtype=bool)
        self.levels = np.zeros(self.width)
        """How many values a coordinate has, evenly spaced; 0: too many to count, or uneven."""
        for part in self.parts.values():
            self.is_choice[part.first : part.last] = part.is_choice
            self.levels[part.first : part.last] = _levels(part.distribution)
        self._choices = [part for part in self.parts.values() if part.is_choice]
        self._conditional = [part for part in self.parts.values() if space[part.name].when]
        self.is_conditional = bool(self._conditional)

    def _add(self, name: str, distribution: Distribution) -> None:
        size = distribution.size
        if size is not None and size < 2:
            return
        width = size if isinstance(distribution, Categorical) and size is not None else 1
        self.parts[name] = Part(name, self.width, self.width + width, distribution)
        self.width += width

    def encode(self, params: Params) -> Array | None:
        """The vector of a point; None for what is no point of this space."""
        vector = np.full(self.width, MIDDLE)
        vector[self.is_choice] = 0.0
        known = 0
        for name in self.order:
            if not is_active(self.space, name, params):
                continue
            if name not in params or not self.space[name].contains(params[name]):
                return None
            known += 1
            if name in self.parts:
                _place(vector, self.parts[name], params[name])
        return vector if known == len(params) else None

    def decode(self, vector: Array) -> Params:
        """The point nearest to a vector; coordinates outside [0, 1] mean that end."""
        params: dict[str, ParamValue] = {}
        for name in self.order:
            if not is_active(self.space, name, params):
                continue
            part = self.parts.get(name)
            if part is None:  # the only value there is
                params[name] = self.space[name].at(0)
            elif isinstance(part.distribution, Categorical):
                chosen = int(np.argmax(vector[part.first : part.last]))
                params[name] = part.distribution.at(chosen)
            else:
                params[name] = value_at(part.distribution, float(vector[part.first]))
        return dict(sorted(params.items()))

    def existing(self, params: Params) -> NDArray[np.bool_]:
        """Which coordinates mean something in a point."""
        exists = np.ones(self.width, dtype=bool)
        for part in self._conditional:
            exists[part.first : part.last] = part.name in params
        return exists

    def settle(self, points: Array) -> Array:
        """The rows as vectors of the nearest points: as `encode(decode(row))`, but for numbers
        on an uneven grid, which stay where they are."""
        settled = np.clip(points, 0.0, 1.0)
        stepped = self.levels > 0
        if stepped.any():
            levels = self.levels[stepped]
            index = np.minimum(np.floor(settled[:, stepped] * levels), levels - 1)
            settled[:, stepped] = (index + 0.5) / levels
        rows = np.arange(len(points))
        for part in self._choices:
            chosen = np.argmax(points[:, part.first : part.last], axis=1)
            settled[:, part.first : part.last] = 0.0
            settled[rows, part.first + chosen] = 1.0
        if self._conditional:
            self._empty_missing(settled)
        return settled

    def _empty_missing(self, settled: Array) -> None:
        exists: dict[str, NDArray[np.bool_]] = {}
        for name in self.order:
            active = np.ones(len(settled), dtype=bool)
            for parent, values in self.space[name].when:
                active &= exists[parent] & self._has_value(settled, parent, values)
            exists[name] = active
            part = self.parts.get(name)
            if part is not None and self.space[name].when:
                settled[~active, part.first : part.last] = 0.0 if part.is_choice else MIDDLE

    def _has_value(
        self, settled: Array, parent: str, values: tuple[ParamValue, ...]
    ) -> NDArray[np.bool_]:
        part = self.parts.get(parent)
        if part is None:  # its only value, which the condition must name
            return np.ones(len(settled), dtype=bool)
        wanted = [
            part.first + index
            for index in range(part.last - part.first)
            if any(_is_same(part.distribution.at(index), value) for value in values)
        ]
        found: NDArray[np.bool_] = settled[:, wanted].sum(axis=1) > MIDDLE
        return found


def _is_same(a: ParamValue, b: ParamValue) -> bool:
    return type(a) is type(b) and a == b


def _levels(distribution: Distribution) -> int:
    if isinstance(distribution, Categorical) or distribution.log:
        return 0
    return distribution.size or 0


def _place(vector: Array, part: Part, value: ParamValue) -> None:
    if isinstance(part.distribution, Categorical):
        for index, choice in enumerate(part.distribution.choices):
            vector[part.first + index] = float(_is_same(choice, value))
    else:
        vector[part.first] = share_of(part.distribution, float(value))


def share_of(distribution: Float | Int, value: float) -> float:
    """Where a value lies in its range, from 0 to 1; the values of a grid lie in the middle of
    equal cells."""
    low, high = _ends(distribution)
    if distribution.log:
        return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
    # Halved first: the difference of two finite numbers may overflow.
    return (value / 2 - low / 2) / (high / 2 - low / 2)


def value_at(distribution: Float | Int, share: float) -> ParamValue:
    """The value that lies at a share of its range; the inverse of `share_of`."""
    share = min(max(share, 0.0), 1.0)
    low, high = _ends(distribution)
    if distribution.log:
        value = math.exp(math.log(low) * (1 - share) + math.log(high) * share)
    else:
        value = low * (1 - share) + high * share
    if isinstance(distribution, Float) and distribution.step is None:
        rounded = float(f"{value:.{_DIGITS}g}")
        return min(max(rounded, distribution.low), distribution.high)
    size = distribution.size or 1
    if not distribution.log:  # exact, however many values there are
        return distribution.at(min(int(share * size), size - 1))
    step = distribution.step or 1
    return distribution.at(min(max(round((value - distribution.low) / step), 0), size - 1))


def _ends(distribution: Float | Int) -> tuple[float, float]:
    """The range, half a step wider on both sides where it is a grid."""
    size, step = distribution.size, distribution.step
    if size is None or step is None:
        return float(distribution.low), float(distribution.high)
    low, last = float(distribution.low), float(distribution.at(size - 1))
    if distribution.log:
        return max(low - step / 2, low / 2), last + step / 2
    return low - step / 2, last + step / 2
