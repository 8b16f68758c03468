"""Where good trials are denser than others, one coordinate at a time: part of what the policy
observes.

Tree-structured Parzen estimation (Bergstra et al., 2011) over the unit cube. It sees nothing of
how coordinates act together, and so is not misled by what a smooth model cannot follow.
"""

import math
from typing import Final

import numpy as np

from proposers.ppo_memory import Told
from proposers.ppo_space import Array, Part, UnitCube

CANDIDATES: Final = 24
GOOD_SHARE: Final = 0.1
MOST_GOOD: Final = 25
FEWEST: Final = 4
_SMALL: Final = 1e-12


def likely(cube: UnitCube, told: Told, scored: int, rng: np.random.Generator) -> Array | None:
    """A point whose every coordinate is one of a few draws from among the good, the one that is
    rarest among the others; None when there are too few trials. `scored`: how many there were."""
    count = min(max(math.ceil(GOOD_SHARE * scored), 2), MOST_GOOD)
    if len(told.losses) < FEWEST or len(told.losses) <= count:
        return None
    good, others = told.vectors[:count], told.vectors[count:]
    point = np.zeros(cube.width)
    numbers = ~cube.is_choice
    if numbers.any():
        point[numbers] = _numbers(good[:, numbers], others[:, numbers], rng)
    for part in cube.parts.values():
        if part.is_choice:
            point[part.first + _choice(part, good, others, rng)] = 1.0
    settled: Array = cube.settle(point[None])[0]
    return settled


def _numbers(good: Array, others: Array, rng: np.random.Generator) -> Array:
    width = good.shape[1]
    reach = _reach(good)
    chosen = rng.integers(len(good) + 1, size=(CANDIDATES, width))
    draws = rng.uniform(size=(CANDIDATES, width))
    near = good[np.minimum(chosen, len(good) - 1), np.arange(width)]
    near = near + reach * rng.normal(size=near.shape)
    near = 1.0 - np.abs(np.mod(near, 2.0) - 1.0)
    draws = np.where(chosen < len(good), near, draws)
    ratio = _density(draws, good, reach) / _density(draws, others, _reach(others))
    first: Array = draws[np.argmax(ratio, axis=0), np.arange(width)]
    return first


def _reach(points: Array) -> Array:
    """Scott's rule by coordinate, within bounds."""
    spread = points.std(axis=0) * len(points) ** -0.2
    reach: Array = np.clip(spread, 1.0 / (3.0 * len(points) + 3.0), 0.3)
    return reach


def _density(at: Array, points: Array, reach: Array) -> Array:
    """Of a mixture of normals and one share of the uniform."""
    scores = (at[:, None, :] - points[None, :, :]) / reach
    bells = np.exp(-0.5 * np.square(scores)).sum(axis=1) / (reach * math.sqrt(2 * math.pi))
    density: Array = (bells + 1.0) / (len(points) + 1.0) + _SMALL
    return density


def _choice(part: Part, good: Array, others: Array, rng: np.random.Generator) -> int:
    size = part.last - part.first
    among_good = _shares(good[:, part.first : part.last], size)
    among_others = _shares(others[:, part.first : part.last], size)
    drawn = rng.choice(size, size=CANDIDATES // 4, p=among_good)
    return int(drawn[np.argmax(among_good[drawn] / among_others[drawn])])


def _shares(rows: Array, size: int) -> Array:
    counts = rows.sum(axis=0) + 1.0 / size
    shares: Array = counts / counts.sum()
    return shares
