"""A smooth model of the trials kept: part of what the policy observes.

A Gaussian process over the unit cube (Rasmussen and Williams, 2006) with a Matérn 5/2 kernel.
Its length scale and noise are the likeliest of a few; nothing is fitted by descent, so equal
trials give an equal model. Losses are seen through a logarithm of their distance to the best:
how bad a bad point is matters little, and 1e308 is only bad.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from proposers.ppo_memory import Told, scaled
from proposers.ppo_space import Array, UnitCube

LENGTHS: Final = (0.2, 0.45, 1.0)
"""In units of the cube's diagonal."""
SHARES: Final = (0.0, 0.8)
"""How much of the variance is a sum of functions of one coordinate each."""
NOISES: Final = (1e-4, 1e-2, 1e-1, 0.5)
"""Variance of the noise over that of the signal."""
_CHOICE_WEIGHT: Final = 0.5
"""Two points that differ in a choice are as far apart as numbers 0.7 of their range apart."""
_BUMP: Final = 0.1
_CENTRES: Final = np.linspace(-0.05, 1.05, 12)
_HEIGHT: Final = math.sqrt((_CENTRES[1] - _CENTRES[0]) / (_BUMP * math.sqrt(math.pi)))
"""The bumps of one number, whose squares add up to about 1 wherever it lies."""
_STEEPNESS: Final = 3.0
_SMALL: Final = 1e-9
_CANDIDATES: Final = 128
_SURVIVORS: Final = 8
_CHILDREN: Final = 8
_ROUNDS: Final = 3
_REACHES: Final = ((0.3, 32), (0.1, 32), (0.03, 16), (0.01, 16))
"""Standard deviation of steps from the best point, and how many candidates take one."""


@dataclass(slots=True)
class Places:
    """Points as the kernels see them."""

    vectors: Array
    """Weighted, so that a diagonal is about 1 long."""
    bumps: Array
    """Values of the functions of one coordinate each; a product of two rows is their kernel."""

    def joined(self, other: "Places") -> "Places":
        return Places(
            np.vstack([self.vectors, other.vectors]), np.vstack([self.bumps, other.bumps])
        )


@dataclass(frozen=True, slots=True)
class Shape:
    """What is chosen by likelihood."""

    length: float
    share: float
    noise: float


@dataclass(slots=True)
class Model:
    """A fitted process; its values are standard scores, lower is better."""

    cube: UnitCube
    known: Places
    targets: Array
    shape: Shape
    variance: float
    inverse: Array
    """Of the Cholesky factor of the kernel's matrix."""
    solved: Array
    """The matrix's inverse times the targets."""

    def posterior(self, points: Array) -> tuple[Array, Array]:
        """Mean and standard deviation at each row."""
        places = places_of(self.cube, points, adds=self.shape.share > 0.0)
        across = _kernel(places, self.known, self.shape)
        half = across @ self.inverse.T
        left = np.maximum(1.0 - np.square(half).sum(axis=1), _SMALL)
        return across @ self.solved, np.sqrt(self.variance * left)

    def smoothed(self) -> Array:
        """Its values at the trials it knows, noise taken out."""
        smooth: Array = self.targets - self.shape.noise * self.solved
        return smooth

    def explained(self) -> float:
        """Share of the variance that it foretells of each trial from the others (leave-one-out,
        Rasmussen and Williams, eq. 5.12); at least -1."""
        diagonal = np.square(self.inverse).sum(axis=0)
        errors = self.solved / diagonal
        spread = float(np.mean(np.square(self.targets))) + _SMALL
        return max(1.0 - float(np.mean(np.square(errors))) / spread, -1.0)

    def expecting(self, points: Array) -> "Model":
        """The model once these points came out as it foretells: for trials that still run."""
        if not len(points):
            return self
        mean, _ = self.posterior(points)
        known = self.known.joined(places_of(self.cube, points))
        targets = np.concatenate([self.targets, mean])
        return _fitted(self.cube, known, targets, self.shape, self.variance)


def fit(cube: UnitCube, told: Told, floor: float) -> Model | None:
    """The likeliest model of the trials; None when there are too few to say anything."""
    if len(told.losses) + len(told.failures) < 3 or not len(told.losses):
        return None
    targets = standard_scores(told.losses, floor)
    if len(told.failures):  # as bad as the worst that is known
        worst = np.full(len(told.failures), targets.max(initial=0.0))
        targets = np.concatenate([targets, worst])
    targets = targets - targets.mean()
    targets = targets / max(float(targets.std()), _SMALL)
    known = places_of(cube, np.vstack([told.vectors, told.failures]))
    squares = _squares(known.vectors, known.vectors)
    sums = known.bumps @ known.bumps.T

    def likelihood(shape: Shape) -> float:
        return _likelihood(_mixed(squares, sums, shape), targets, shape.noise)

    shapes = [Shape(length, share, NOISES[1]) for length in LENGTHS for share in SHARES]
    likely = max(shapes, key=likelihood)
    shapes = [replace(likely, noise=noise) for noise in NOISES]
    return _fitted(cube, known, targets, max(shapes, key=likelihood), None)


def standard_scores(losses: Array, floor: float) -> Array:
    """The losses on a scale that is linear near the best and logarithmic far from it."""
    losses, floor = scaled(losses, floor)
    above = losses - losses.min()
    unit = max(float(np.median(above)), floor, float(above.max()) * _SMALL) or 1.0
    logs = np.log1p(_STEEPNESS * (above / unit))
    spread = max(float(logs.std()), _SMALL)
    scores: Array = (logs - logs.mean()) / spread
    return scores


def places_of(cube: UnitCube, points: Array, *, adds: bool = True) -> Places:
    """Two points that differ in a choice are as far apart as numbers 0.7 of their range apart."""
    count = math.sqrt(max(len(cube.parts), 1))
    weights: Array = np.where(cube.is_choice, math.sqrt(_CHOICE_WEIGHT), 1.0) / count
    if not adds:
        return Places(points * weights, np.zeros((len(points), 0)))
    numbers = points[:, ~cube.is_choice, None] - _CENTRES
    bumps = np.exp(-0.5 * np.square(numbers / _BUMP)) * _HEIGHT
    return Places(
        points * weights,
        np.hstack([bumps.reshape(len(points), -1), points[:, cube.is_choice]]) / count,
    )


def _factor(matrix: Array, noise: float) -> Array:
    noisy = matrix.copy()
    noisy[np.diag_indices_from(noisy)] += noise
    return np.asarray(np.linalg.cholesky(noisy), dtype=np.float64)


def _likelihood(matrix: Array, targets: Array, noise: float) -> float:
    """Up to a constant, with the signal's variance at its best."""
    factor = _factor(matrix, noise)
    variance = float(np.mean(np.square(np.linalg.solve(factor, targets)))) + _SMALL
    return -0.5 * len(targets) * math.log(variance) - float(np.log(np.diag(factor)).sum())


def _fitted(
    cube: UnitCube, known: Places, targets: Array, shape: Shape, variance: float | None
) -> Model:
    factor = _factor(_kernel(known, known, shape), shape.noise)
    inverse = np.asarray(np.linalg.inv(factor), dtype=np.float64)
    half = inverse @ targets
    return Model(
        cube=cube,
        known=known,
        targets=targets,
        shape=shape,
        variance=float(np.mean(np.square(half))) + _SMALL if variance is None else variance,
        inverse=inverse,
        solved=inverse.T @ half,
    )


def _kernel(a: Places, b: Places, shape: Shape) -> Array:
    sums = a.bumps @ b.bumps.T if shape.share else None
    return _mixed(_squares(a.vectors, b.vectors), sums, shape)


def _mixed(squares: Array, sums: Array | None, shape: Shape) -> Array:
    kernel = _matern(squares, shape.length)
    if sums is None or not shape.share:
        return kernel
    mixed: Array = (1.0 - shape.share) * kernel + shape.share * sums
    return mixed


def _squares(a: Array, b: Array) -> Array:
    cross = np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=1)[None, :] - 2 * a @ b.T
    squares: Array = np.maximum(cross, 0.0)
    return squares


def _matern(squares: Array, length: float) -> Array:
    reach = np.sqrt(5.0 * squares) / length
    kernel: Array = (1.0 + reach + reach * reach / 3.0) * np.exp(-reach)
    return kernel


@dataclass(frozen=True, slots=True)
class Hints:
    """Points that the model points out, and what it thinks of them."""

    expected: Array
    """Where the expected improvement is largest."""
    gain: float
    """How large, in standard scores."""
    deviation: float
    """How unsure the model is there."""
    lowest: Array
    """Where it foretells the lowest value."""


def search(model: Model, cube: UnitCube, told: Told, rng: np.random.Generator) -> Hints:
    """Look for those points among random candidates, and refine the best of them."""
    smooth = model.smoothed()[: len(told.losses)]
    centre = told.vectors[int(np.argmin(smooth))]
    goal = float(smooth.min())
    points = cube.settle(_candidates(cube, told, centre, rng))
    mean, deviation = model.posterior(points)
    values = expected_improvement(mean, deviation, goal)
    reach = 0.1
    for _ in range(_ROUNDS):
        chosen = np.argsort(-values, kind="stable")[:_SURVIVORS]
        children = np.repeat(points[chosen], _CHILDREN, axis=0)
        children = cube.settle(fold(cube, children + _sparse(cube, len(children), reach, rng)))
        more_mean, more_deviation = model.posterior(children)
        more = expected_improvement(more_mean, more_deviation, goal)
        points = np.vstack([points, children])
        mean = np.concatenate([mean, more_mean])
        deviation = np.concatenate([deviation, more_deviation])
        values = np.concatenate([values, more])
        reach /= 2
    first, low = int(np.argmax(values)), int(np.argmin(mean))
    return Hints(points[first], float(values[first]), float(deviation[first]), points[low])


def expected_improvement(mean: Array, deviation: Array, goal: float) -> Array:
    """Jones, Schonlau and Welch (1998), with the normal integral to within 1e-3; where there is
    none to speak of, the lower mean is the larger."""
    score = (goal - mean) / deviation
    density = np.exp(-0.5 * np.square(score)) / math.sqrt(2 * math.pi)
    below = 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (score + 0.044715 * score**3)))
    gain: Array = np.maximum((goal - mean) * below + deviation * density, 0.0) - 1e-6 * mean
    return gain


def _candidates(cube: UnitCube, told: Told, centre: Array, rng: np.random.Generator) -> Array:
    steps = [centre + _sparse(cube, count, reach, rng) for reach, count in _REACHES]
    quarter = _CANDIDATES // 4
    elite = told.vectors[: max(len(told.vectors) // 4, 2)]
    one, two, three = rng.integers(len(elite), size=(3, quarter))
    share = rng.uniform(0.2, 0.9, size=(quarter, 1))
    crossed = elite[one] + share * (elite[two] - elite[three])
    return fold(cube, np.vstack([*steps, crossed, rng.uniform(size=(quarter, cube.width))]))


def _sparse(cube: UnitCube, count: int, reach: float, rng: np.random.Generator) -> Array:
    """Steps of which every second moves all coordinates and the others a few."""
    steps = rng.normal(size=(count, cube.width)) * np.where(cube.is_choice, 0.5, reach)
    moved = rng.uniform(size=(count, cube.width)) < max(0.3, 2.0 / cube.width)
    moved[np.arange(count), rng.integers(cube.width, size=count)] = True
    moved[::2] |= ~cube.is_choice
    sparse: Array = steps * moved
    return sparse


def fold(cube: UnitCube, points: Array) -> Array:
    """Numbers that left the cube are reflected into it; coordinates of choices stay."""
    inside = 1.0 - np.abs(np.mod(points, 2.0) - 1.0)
    return np.where(cube.is_choice, points, inside)
