"""The search space in Optuna's terms: one number for each value, and back without loss.

Choices and ranges with a step go over as whole numbers (their index), so that 1, 1.0, true and
"1" stay different values and a stepped float comes back as its decimal would be typed. What has
one value only is not handed over at all.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from optuna.distributions import (
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from ledger.records import Params, ParamValue
from proposers.distributions import Categorical, Distribution, Float
from proposers.search_space import SearchSpace, faults, in_order

Number: TypeAlias = float | int
OptunaDistribution: TypeAlias = CategoricalDistribution | FloatDistribution | IntDistribution


@dataclass(frozen=True, slots=True)
class Code:
    """One parameter as Optuna is told of it."""

    distribution: Distribution
    optuna: OptunaDistribution
    is_indexed: bool
    """Whether Optuna's number is the value's index."""

    def encode(self, value: ParamValue) -> Number:
        """Raises ValueError for what is no value of the parameter."""
        if isinstance(self.distribution, Categorical):
            for index, choice in enumerate(self.distribution.choices):
                if type(choice) is type(value) and choice == value:
                    return index
            raise ValueError(f"{value!r} is none of the choices")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{value!r} is no number")
        return self._nearest(value) if self.is_indexed else value

    def decode(self, number: Number) -> ParamValue:
        """The value that a sampler's number means; numbers past an end mean that end."""
        distribution = self.distribution
        if isinstance(distribution, Categorical) or self.is_indexed:
            return distribution.at(min(max(round(number), 0), (distribution.size or 1) - 1))
        if isinstance(distribution, Float) and distribution.step is None:
            return min(max(float(number), distribution.low), distribution.high)
        return distribution.at(self._nearest(number))

    def middle(self) -> Number:
        return self.encode(self.distribution.middle())

    def _nearest(self, number: Number) -> int:
        distribution = self.distribution
        if isinstance(distribution, Categorical):
            raise ValueError("choices are in no order")
        nearest = round((number - distribution.low) / (distribution.step or 1))
        return min(max(nearest, 0), (distribution.size or 1) - 1)


class CodedSpace:
    """Every parameter that has more than one value, by name."""

    def __init__(self, space: SearchSpace) -> None:
        self.space = space
        self.order = in_order(space)
        self.codes = {
            name: _code(space[name])
            for name in self.order
            if space[name].size is None or (space[name].size or 0) > 1
        }

    def distributions(self, names: tuple[str, ...] | None = None) -> dict[str, OptunaDistribution]:
        chosen = self.codes if names is None else names
        return {name: self.codes[name].optuna for name in chosen}

    def encode(self, params: Params, *, imputes: bool = False) -> dict[str, Number] | None:
        """A point in Optuna's numbers; None when it is no point of this space.

        With `imputes`, parameters that do not exist in it get the middle of their range: for
        samplers that know points of one fixed shape only.
        """
        if not params or next(faults(self.space, params), None) is not None:
            return None
        given = {n: c.encode(params[n]) for n, c in self.codes.items() if n in params}
        if imputes:
            given |= {n: c.middle() for n, c in self.codes.items() if n not in params}
        return given

    def joint_groups(self) -> Mapping[str, tuple[str, ...]]:
        """For each parameter those that exist exactly when it does."""
        by_condition: dict[str, list[str]] = {}
        for name in self.codes:
            by_condition.setdefault(repr(sorted(self.space[name].when)), []).append(name)
        return {name: tuple(group) for group in by_condition.values() for name in group}

    def numeric_always(self) -> tuple[str, ...]:
        """The numbers that exist in every point."""
        always = {name: code for name, code in self.codes.items() if not self.space[name].when}
        return tuple(n for n, c in always.items() if not isinstance(c.distribution, Categorical))


def _code(distribution: Distribution) -> Code:
    if isinstance(distribution, Categorical):
        indices = list(range(distribution.size))
        return Code(distribution, CategoricalDistribution(indices), is_indexed=True)
    if distribution.log:  # Optuna takes no step here: its number is the nearest value's
        low, size = distribution.low, distribution.size
        high = distribution.high if size is None else distribution.at(size - 1)
        if isinstance(distribution, Float):
            return Code(
                distribution,
                FloatDistribution(float(low), float(high), log=True),
                is_indexed=False,
            )
        return Code(distribution, IntDistribution(int(low), int(high), log=True), is_indexed=False)
    if distribution.size is not None:
        return Code(distribution, IntDistribution(0, distribution.size - 1), is_indexed=True)
    low, high = float(distribution.low), float(distribution.high)
    if not math.isfinite(high - low):
        raise ValueError(f"a range from {low} to {high} is too wide")
    return Code(distribution, FloatDistribution(low, high), is_indexed=False)
