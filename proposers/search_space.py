"""The search space: distributions by name, some of which exist only under conditions.

The order of a space's parameters never matters: whatever walks one goes by name, so that a
space read back from a store that sorts its keys gives the same proposals.
"""

import math
import random
from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    "combinations",
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
    """The points of a finite space, counted without listing them: parameters that no condition
    ties together multiply, so only those of one group are counted case by case."""

    def __init__(self, space: SearchSpace) -> None:
        self.names = in_order(space)
        self._space = space
        self._groups = _groups(space, self.names)
        tied = {place for group in self._groups for place in group.places}
        self._free = [1]
        """By place from the end: how often the parameters from there on multiply that no
        condition is about."""
        for place in range(len(self.names) - 1, -1, -1):
            size = 1 if place in tied else space[self.names[place]].size or 0
            self._free.append(self._free[-1] * size)
        self._parents = {name for group in self._groups for name in group.parents}
        self._counts: dict[tuple[int, int, tuple[Hashable, ...]], int] = {}

    def count(self, place: int, params: Params) -> int:
        """How many ways there are to go on from `place`, given what was chosen before."""
        ways = self._free[len(self.names) - place]
        for number, group in enumerate(self._groups):
            ways *= self._ways(number, bisect_left(group.places, place), params)
        return ways

    def _ways(self, number: int, at: int, params: Params) -> int:
        """The same for one group, from its parameter `at` on."""
        group, ways = self._groups[number], 1
        for after, place in enumerate(group.places[at:], at + 1):
            name = self.names[place]
            if not is_active(self._space, name, params):
                continue
            if name in self._parents:
                return ways * self._cases(number, after, name, params)
            ways *= self._space[name].size or 0
        return ways

    def _cases(self, number: int, after: int, name: str, params: Params) -> int:
        """The same summed over the values of one that conditions are about."""
        parents = self._groups[number].parents
        chosen = tuple(repr(params[n]) if n in params else None for n in parents)
        key = (number, after, chosen)
        if key not in self._counts:
            distribution = self._space[name]
            self._counts[key] = sum(
                self._ways(number, after, {**params, name: distribution.at(index)})
                for index in range(distribution.size or 0)
            )
        return self._counts[key]

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


@dataclass(frozen=True, slots=True)
class _Group:
    """Parameters that conditions tie together."""

    places: tuple[int, ...]
    parents: tuple[str, ...]
    """Those that conditions are about."""


def _groups(space: SearchSpace, names: Sequence[str]) -> list[_Group]:
    """The groups of a space whose parameters have these places. A parameter that no condition is
    about and that has none is in no group."""
    group_of = {name: {name} for name in names}
    for name in names:
        for parent, _ in space[name].when:
            if group_of[parent] is not group_of[name]:
                joined = group_of[name] | group_of[parent]
                group_of.update(dict.fromkeys(joined, joined))
    about = {parent for name in names for parent, _ in space[name].when}
    places = {name: place for place, name in enumerate(names)}
    different = {id(group): group for group in group_of.values() if len(group) > 1}
    return [
        _Group(
            places=tuple(sorted(places[name] for name in group)),
            parents=tuple(sorted(group & about)),
        )
        for group in different.values()
    ]


def combinations(space: SearchSpace) -> int:
    """How many cases have to be looked at to count the points of a finite space."""
    groups = _groups(space, in_order(space))
    return max(
        (math.prod(space[name].size or 1 for name in group.parents) for group in groups),
        default=1,
    )


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
