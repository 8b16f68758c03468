"""Recorded tables as search problems.

`NearestRows` has rows scattered over a space: a point's true value is the mean of its five
nearest rows, weighted by one over the squared distance, in the unit cube of the space (a choice
that differs is 1 away, and so is a parameter that only one of the two has). What is told is that
plus the deviation of one of the runs that were repeated with another seed. `ExactTable` has every
point of its space.
"""

import json
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.table_spaces import share_of
from ledger.records import Direction, Params
from proposers.search_space import Categorical, Int, SearchSpace

NEAREST: Final = 5


@dataclass(frozen=True, slots=True)
class Row:
    params: Params
    value: float


class NearestRows:
    def __init__(self, space: SearchSpace, recorded: Sequence[Mapping[str, Any]]) -> None:
        runs: dict[int, list[float]] = {}
        params: dict[int, Params] = {}
        for row in recorded:
            params[row["point"]] = row["params"]
            runs.setdefault(row["point"], []).append(row["curve"][-1][1])
        self._space = space
        self._rows = [Row(params[point], statistics.fmean(v)) for point, v in runs.items()]
        self._deviations = deviations(list(runs.values()))
        self.best = max(row.value for row in self._rows)
        self.noise_floor = math.sqrt(
            statistics.fmean(d * d for d in self._deviations) if self._deviations else 0.0
        )

    def value(self, params: Params) -> float:
        near = sorted((self._apart(params, row.params), row.value) for row in self._rows)[:NEAREST]
        if near[0][0] < 1e-12:
            return near[0][1]
        weights = [1.0 / apart for apart, _ in near]
        weighted = math.fsum(w * v for w, (_, v) in zip(weights, near, strict=True))
        return weighted / math.fsum(weights)

    def noise(self, rng: random.Random) -> float:
        if not self._deviations:
            return 0.0
        return rng.choice(self._deviations) * rng.choice((-1.0, 1.0))

    def _apart(self, one: Params, other: Params) -> float:
        """The squared distance."""
        total = 0.0
        for name, distribution in self._space.items():
            if name not in one and name not in other:
                continue
            if name not in one or name not in other:
                total += 1.0
            elif isinstance(distribution, Categorical):
                total += 0.0 if one[name] == other[name] else 1.0
            else:
                a, b = float(one[name]), float(other[name])
                total += (share_of(distribution, a) - share_of(distribution, b)) ** 2
        return total


def deviations(runs: Sequence[Sequence[float]]) -> list[float]:
    """How far single runs lie from the mean of their point, scaled so that their mean square is
    the variance of one run."""
    found = []
    for values in runs:
        if len(values) > 1:
            scale = math.sqrt(len(values) / (len(values) - 1))
            mean = statistics.fmean(values)
            found += [abs(value - mean) * scale for value in values]
    return found


class ExactTable:
    """Points by the places of their values; written by `peers/export_hpo_tables.py`."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.direction = Direction(document["direction"])
        self._choices: dict[str, list[Any]] = document["choices"]
        self.space: SearchSpace = {
            name: Categorical(tuple(choices))
            if isinstance(choices[0], str)
            # Numbers are in order, though not equally far apart: their places are searched.
            else Int(0, len(choices) - 1)
            for name, choices in self._choices.items()
        }
        runs: list[list[float]] = document["runs"]
        self._values = [statistics.fmean(values) for values in runs]
        pick = max if self.direction is Direction.MAXIMIZE else min
        self.best = pick(self._values)
        # Of the upper half only: far from the best a table's runs scatter as no search cares for.
        good = sorted(range(len(runs)), key=lambda i: abs(self._values[i] - self.best))
        self._deviations = deviations([runs[i] for i in good[: len(runs) // 2]])
        self.noise_floor = math.sqrt(statistics.fmean(d * d for d in self._deviations))

    @classmethod
    def read(cls, path: Path) -> "ExactTable":
        return cls(json.loads(path.read_text()))

    def value(self, params: Params) -> float:
        index = 0
        for name, choices in self._choices.items():
            value = params[name]
            place = choices.index(value) if isinstance(value, str) else int(value)
            index = index * len(choices) + place
        return self._values[index]

    def noise(self, rng: random.Random) -> float:
        return rng.choice(self._deviations) * rng.choice((-1.0, 1.0))
