"""The search space: distributions by name, some of which exist only under conditions.

The order of a space's parameters never matters: whatever walks one goes by name, so that a
space read back from a store that sorts its keys gives the same proposals.
"""

import random
from collections.abc import Hashable, Iterator, Mapping
from typing import TypeAlias

from ledger.records import Params, ParamValue
from proposers.distributions import (
    Categorical,
    Conditions,
    Distribution,
    Float,
    Int,
    is_among,
)

__all__ = [
    "Categorical",
    "Conditions",
    "Distribution",
    "Float",
    "Int",
    "SearchSpace",
    "cardinality",
    "describe",
    "faults",
    "in_order",
    "is_active",
    "point",
    "sample",
]

SearchSpace: TypeAlias = Mapping[str, Distribution]


def cardinality(space: SearchSpace) -> int | None:
    """How many points there are: None when a range is continuous, 0 for a space without
    parameters (there is nothing to vary)."""
    if not space:
        return 0
    if any(distribution.size is None for distribution in space.values()):
        return None
    return _Walk(space).count(0, {})


def point(space: SearchSpace, index: int) -> dict[str, ParamValue]:
    """The point at `index` of a finite space: parameters in the order of `in_order`, the last one
    changing fastest. Raises ValueError when a range is continuous, IndexError past the end."""
    for name in sorted(space, reverse=True):
        if space[name].size is None:
            raise ValueError(f"{name} is continuous: give it a step")
    walk = _Walk(space)
    if not 0 <= index < walk.count(0, {}):
        raise IndexError("the space has fewer points")
    params: dict[str, ParamValue] = {}
    for place, name in enumerate(walk.names):
        if is_active(space, name, params):
            params[name], index = walk.step(place, params, index)
    return dict(sorted(params.items()))


class _Walk:
    """The points of a finite space, counted without listing them."""

    def __init__(self, space: SearchSpace) -> None:
        self.names = in_order(space)
        self._space = space
        self._parents = {parent for d in space.values() for parent, _ in d.when}
        self._counts: dict[tuple[int, Hashable], int] = {}

    def count(self, place: int, params: Params) -> int:
        """How many ways there are to go on from `place`, given what was chosen before."""
        if place == len(self.names):
            return 1
        key = (place, tuple((n, repr(v)) for n, v in params.items() if n in self._parents))
        if key not in self._counts:
            self._counts[key] = self._count(place, params)
        return self._counts[key]

    def _count(self, place: int, params: Params) -> int:
        name = self.names[place]
        if not is_active(self._space, name, params):
            return self.count(place + 1, params)
        distribution = self._space[name]
        size = distribution.size or 0
        if name not in self._parents:
            return size * self.count(place + 1, params)
        values = (distribution.at(i) for i in range(size))
        return sum(self.count(place + 1, {**params, name: value}) for value in values)

    def step(self, place: int, params: Params, index: int) -> tuple[ParamValue, int]:
        """The value at `place` of the point at `index` from here, and the index that is left."""
        name = self.names[place]
        distribution = self._space[name]
        if name not in self._parents:
            digit, left = divmod(index, self.count(place + 1, params))
            return distribution.at(digit), left
        for choice in range(distribution.size or 0):
            value = distribution.at(choice)
            below = self.count(place + 1, {**params, name: value})
            if index < below:
                return value, index
            index -= below
        raise IndexError("the space has fewer points")


def in_order(space: SearchSpace) -> list[str]:
    """The parameters by name, each after those its conditions are about.

    Raises ValueError for a condition on itself, in a circle, or on what is no parameter.
    """
    done: dict[str, None] = {}
    left = sorted(space)
    while left:
        ready = [n for n in left if all(parent in done for parent, _ in space[n].when)]
        if not ready:
            raise ValueError(f"conditions of {', '.join(left)} lead to no parameter")
        done.update(dict.fromkeys(ready))
        left = [n for n in left if n not in done]
    return list(done)


def is_active(space: SearchSpace, name: str, params: Params) -> bool:
    """Whether the parameter exists in a point that has `params` of those before it."""
    return all(
        parent in params and is_among(params[parent], values)
        for parent, values in space[name].when
    )


def sample(space: SearchSpace, rng: random.Random) -> dict[str, ParamValue]:
    """One independent draw of every parameter that exists, parents first."""
    params: dict[str, ParamValue] = {}
    for name in in_order(space):
        if is_active(space, name, params):
            params[name] = space[name].sample(rng)
    return dict(sorted(params.items()))


def faults(space: SearchSpace, params: Params) -> Iterator[str]:
    """Why `params` is not a point of the space, one sentence each; none when it is."""
    active = {name for name in space if is_active(space, name, params)}
    for name in sorted(active - params.keys()):
        yield f"{name} is missing"
    for name in sorted(params.keys() - space.keys()):
        yield f"{name} is not a parameter of the space"
    for name in sorted((space.keys() & params.keys()) - active):
        yield f"{name} exists only when {describe_conditions(space[name].when)}"
    for name in sorted(active & params.keys()):
        if not space[name].contains(params[name]):
            yield f"{name}: {params[name]!r} is outside {describe(space[name])}"


def describe_conditions(conditions: Conditions) -> str:
    """When a parameter exists, for a message."""
    return " and ".join(
        f"{parent} is {' or '.join(repr(value) for value in values)}"
        for parent, values in conditions
    )


def describe(distribution: Distribution) -> str:
    """What a distribution allows, for a message."""
    if isinstance(distribution, Categorical):
        return "the choices " + ", ".join(repr(choice) for choice in distribution.choices)
    kind = "floats" if isinstance(distribution, Float) else "integers"
    step = distribution.step
    steps = "" if step is None or (step == 1 and kind == "integers") else f" in steps of {step}"
    return f"the {kind} from {distribution.low} to {distribution.high}{steps}"
