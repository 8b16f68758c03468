"""A recorded study as an objective to learn from: what `arl export STUDY --format json` wrote."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from ledger.errors import InvalidInput
from ledger.records import Direction, ParamValue
from ledger.search import as_loss
from ledger.states import Reason
from proposers.ppo_functions import Task, judged
from proposers.ppo_space import Array, UnitCube
from proposers.search_space import Categorical, Float, Int, SearchSpace

NEIGHBOURS: Final = 3
FEWEST_TRIALS: Final = 8
_KINDS: Final = ("search", "baseline", "replay")
_LOG_RATIO: Final = 50.0
"""Positive numbers that span more than this are taken to vary in the logarithm."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The trials of one study that have a value."""

    cube: UnitCube
    vectors: Array
    losses: Array

    def task(self, rng: np.random.Generator) -> Task:
        """A study of the same space, in which a point's loss is the mean of its nearest recorded
        trials', nearer ones counting more; its noise is what those differ by."""
        tilt = rng.normal(size=self.cube.width)  # ties between equal neighbours differ by task

        def loss(point: Array) -> float:
            squares = np.square(self.vectors - point).sum(axis=1) + 1e-9 * (self.vectors @ tilt)
            nearest = np.argsort(squares, kind="stable")[:NEIGHBOURS]
            weights = 1.0 / (np.sqrt(np.maximum(squares[nearest], 0.0)) + 1e-3)
            return float(weights @ self.losses[nearest] / weights.sum())

        noise = self._noise() * 10 ** rng.uniform(-1.0, 0.0)
        return judged(self.cube, loss, lambda x: -1.0, rng, noise=noise, noise_floor=2.0 * noise)

    def _noise(self) -> float:
        """Half the median difference between a trial and its nearest neighbour."""
        squares = np.square(self.vectors[:, None] - self.vectors[None]).sum(axis=2)
        np.fill_diagonal(squares, np.inf)
        nearest = np.argmin(squares, axis=1)
        return float(np.median(np.abs(self.losses - self.losses[nearest]))) / 2


def read_recording(path: Path, direction: Direction) -> Recording:
    """Raises InvalidInput for a file that is no export, or has too few trials."""
    try:
        document: object = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidInput(f"--studies {path}: it cannot be read: {error}") from None
    rows = [row for row in document if _is_scored(row)] if isinstance(document, list) else []
    if len(rows) < FEWEST_TRIALS:
        raise InvalidInput(
            f"--studies {path}: {len(rows)} trials with a value; {FEWEST_TRIALS} are needed."
            " Write it with: arl export STUDY --format json"
        )
    cube = UnitCube(_space([row["params"] for row in rows]))
    pairs = [(cube.encode(row["params"]), row["value"]) for row in rows]
    known = [(v, as_loss(float(value), direction)) for v, value in pairs if v is not None]
    if len(known) < FEWEST_TRIALS or not cube.width:
        raise InvalidInput(f"--studies {path}: its trials do not all have the same parameters")
    return Recording(
        cube=cube,
        vectors=np.array([vector for vector, _ in known]),
        losses=np.array([loss for _, loss in known]),
    )


def _is_scored(row: object) -> bool:
    if not isinstance(row, dict) or row.get("kind") not in _KINDS:
        return False
    if row.get("reason") == Reason.INFEASIBLE:  # however good its value is
        return False
    value = row.get("value")
    return isinstance(value, int | float) and math.isfinite(value) and bool(row.get("params"))


def _space(points: list[dict[str, ParamValue]]) -> SearchSpace:
    """What the points vary in: an export does not say what they could have been."""
    names = set.intersection(*(set(point) for point in points))
    return {name: _distribution([point[name] for point in points]) for name in sorted(names)}


def _distribution(values: list[ParamValue]) -> Float | Int | Categorical:
    kinds = {type(value) for value in values}
    low, high = (min, max)
    if kinds == {int} and len(set(values)) > 1:
        whole = [value for value in values if isinstance(value, int)]
        return Int(low(whole), high(whole), log=_is_log(low(whole), high(whole)))
    if kinds == {float} and len(set(values)) > 1:
        real = [value for value in values if isinstance(value, float)]
        return Float(low(real), high(real), log=_is_log(low(real), high(real)))
    return Categorical(tuple(dict.fromkeys(values)))


def _is_log(low: float, high: float) -> bool:
    return low > 0 and high / low > _LOG_RATIO
