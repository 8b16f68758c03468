"""The distribution of CMA-ES: how it is written down, and whether a point is in its reach."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import cmaes
import numpy as np
from numpy.typing import NDArray
from optuna._transform import _SearchSpaceTransform
from optuna.samplers import CmaEsSampler

from proposers.optuna_samplers import Document
from proposers.optuna_space import CodedSpace, Number

WIDE: Final = 1 / 6
"""Standard deviation of a start in the middle, in widths of the space: Optuna's."""
NARROW: Final = 1 / 12
"""Of one around a point that is known to be good."""
FAR: Final = 1.0
"""A squared distance so many standard deviations above its mean is out of reach."""

Start = Mapping[str, Number]


class WrittenCma(CmaEsSampler):  # type: ignore[misc]  # Optuna's types are not followed
    """Takes its optimizer from the state, and lets it be seen afterwards."""

    written: Document | None = None
    start: Document | None = None
    """The point around which it starts; none: the middle."""
    spread: float = NARROW
    optimizer: "cmaes.CMA | None" = None

    def _restore_optimizer(self, completed_trials: object) -> "cmaes.CMA | None":
        if self.written is None:
            return None
        self.optimizer = revived(self.written)
        return self.optimizer

    def _init_optimizer(self, trans: Any, direction: object) -> "cmaes.CMA":
        self.optimizer = super()._init_optimizer(trans, direction)
        if self.start is not None:
            self.optimizer._mean = trans.transform(self.start)
            self.optimizer._sigma = self.spread
        return self.optimizer


def place_of(space: CodedSpace, names: Sequence[str], point: Start) -> NDArray[np.float64]:
    """A point's numbers between 0 and 1, as CMA-ES sees them."""
    transform = _SearchSpaceTransform(space.distributions(tuple(names)), transform_0_1=True)
    place: NDArray[np.float64] = transform.transform({name: point[name] for name in names})
    return place


def first_distribution(
    place: NDArray[np.float64] | None, spread: float, dimensions: int
) -> "cmaes.CMA":
    """The one it starts with: in the middle, or around a point that is known to be good."""
    middle = np.full(dimensions, 0.5)
    if place is None:
        return cmaes.CMA(mean=middle, sigma=WIDE)
    return cmaes.CMA(mean=place, sigma=spread)


def is_in_reach(place: NDArray[np.float64], optimizer: "cmaes.CMA") -> bool:
    """Whether a draw of the distribution may well come there: by its Mahalanobis distance, whose
    square has the mean d and the variance 2 d in d dimensions."""
    step = (place - optimizer._mean) / optimizer._sigma
    squared = float(step @ np.linalg.solve(optimizer._C, step))
    dimensions = len(place)
    return squared <= dimensions + FAR * math.sqrt(2 * dimensions)


def written(optimizer: "cmaes.CMA") -> Document:
    """Its distribution as JSON. How the search went so far, by which it might be ended, is left
    out: it is never ended here."""
    document: Document = {}
    for name, value in optimizer.__getstate__().items():
        if name == "_funhist_values":
            document[name] = len(value)
        elif isinstance(value, np.ndarray):
            document[name] = {"array": value.tolist()}
        else:
            document[name] = value.item() if isinstance(value, np.generic) else value
    return document


def revived(document: Document) -> "cmaes.CMA":
    state: dict[str, object] = {}
    for name, value in document.items():
        if name == "_funhist_values":
            state[name] = np.zeros(int(str(value)))
        elif isinstance(value, dict):
            state[name] = np.array(value["array"], dtype=float)
        else:
            state[name] = value
    optimizer = cmaes.CMA.__new__(cmaes.CMA)
    optimizer.__setstate__(state)
    return optimizer
