"""The trials that plots of parameters are drawn from: all of few, a fair choice of many."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ledger.records import Json, ParamValue

BEST_SHARE: Final = 4
"""Of a choice one in so many are the best trials, the rest is spread evenly over the others."""


def short(value: float) -> float:
    """Six significant digits: what a pixel can show, at half the bytes."""
    return float(f"{value:.6g}")


def chosen_places(valued: Sequence[int], top: Sequence[int], limit: int) -> list[int]:
    """At most `limit` of the places of trials with a value, in order: a quarter of the choice is
    the best there is, of which `top` has as many, the rest every n-th of the others."""
    if len(valued) <= limit:
        return list(valued)
    best = top[: limit // BEST_SHARE]
    left_out = sorted(bisect_left(valued, place) for place in best)
    wanted, others = limit - len(best), len(valued) - len(best)
    kept, passed = set(best), 0
    for n in range(wanted):
        position = n * others // wanted
        while passed < len(left_out) and left_out[passed] <= position + passed:
            passed += 1
        kept.add(valued[position + passed])
    return sorted(kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Some scored trials with their parameters."""

    numbers: Sequence[int]
    values: Sequence[float]
    outcomes: Sequence[int]
    params: Sequence[Mapping[str, ParamValue]]
    of: int
    """How many there are in all."""

    @property
    def is_sampled(self) -> bool:
        return len(self.numbers) < self.of

    def thinned(self, limit: int) -> "Sample":
        """Every n-th of it."""
        count = len(self.numbers)
        if count <= limit:
            return self
        kept = [n * count // limit for n in range(limit)]
        return Sample(
            numbers=[self.numbers[i] for i in kept],
            values=[self.values[i] for i in kept],
            outcomes=[self.outcomes[i] for i in kept],
            params=[self.params[i] for i in kept],
            of=self.of,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """How one parameter is drawn."""

    name: str
    kind: str
    """float, int or categorical."""
    log: bool
    categories: Sequence[str] | None
    low: float | None
    high: float | None

    def place(self, value: ParamValue | None) -> float | int | None:
        """A number on the axis: of a category its place; None where there is none."""
        if value is None:
            return None
        if self.categories is not None:
            word = label(value)
            return self.categories.index(word) if word in self.categories else None
        return short(value) if isinstance(value, int | float) else None

    def document(self) -> dict[str, Json]:
        return {
            "name": self.name,
            "kind": self.kind,
            "log": self.log,
            "categories": None if self.categories is None else list(self.categories),
            "low": self.low,
            "high": self.high,
        }


def label(value: ParamValue) -> str:
    """A category's name: true and false as JSON writes them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def axes_of(space: Json) -> list[Axis]:
    """One for each parameter of a study file's space."""
    if not isinstance(space, Mapping):
        return []
    return [
        _axis(name, section) for name, section in space.items() if isinstance(section, Mapping)
    ]


def _axis(name: str, section: Mapping[str, Json]) -> Axis:
    choices = section.get("choices")
    categories = None
    if isinstance(choices, Sequence) and not isinstance(choices, str):
        categories = [label(c) for c in choices if isinstance(c, bool | int | float | str)]
    low, high = section.get("low"), section.get("high")
    return Axis(
        name=name,
        kind=str(section.get("type", "float")),
        log=section.get("log") is True,
        categories=categories,
        low=low if isinstance(low, int | float) else None,
        high=high if isinstance(high, int | float) else None,
    )
