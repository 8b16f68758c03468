"""Made-up objectives to learn from before the first study: random families, none of which is a
benchmark's named function.

Each is a function of a point of the unit cube, lower is better, with a noise and failures of its
own.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from proposers.ppo_space import Array, UnitCube
from proposers.search_space import Categorical, Float, Int, SearchSpace

Shape: TypeAlias = Callable[[Array], float]

PARAMETERS: Final = 12
WIDTH: Final = 24
"""Coordinates of a space at most."""
WAVES: Final = 48
MOST_MERIT: Final = 3.0
_SAMPLE: Final = 64
_RANDOM_TRIES: Final = 256
_ROUNDS: Final = 8
_SURVIVORS: Final = 8
_CHILDREN: Final = 8


@dataclass(frozen=True, slots=True)
class Task:
    """One made-up study."""

    cube: UnitCube
    loss: Shape
    noise: float
    """Standard deviation of what is added to each loss."""
    noise_floor: float
    """What the study is told of it."""
    fails: Shape
    """Above 0 where a trial fails."""
    lowest: float
    """About the lowest loss there is."""
    spread: float
    """About how far a random point lies above it."""

    def merit(self, loss: float) -> float:
        """How good a loss is: 0 for a random point, 1 for each power of ten that is nearer to
        the lowest, and not more than MOST_MERIT."""
        above = max(loss - self.lowest, 0.0) / self.spread
        return -math.log10(min(above, 1.0) + 10.0**-MOST_MERIT)


def make_task(rng: np.random.Generator) -> Task:
    cube = UnitCube(_space(rng))
    while cube.width > WIDTH:
        cube = UnitCube(_space(rng))
    sample = cube.settle(rng.uniform(size=(_SAMPLE, cube.width)))
    loss = _warped(_joined(cube, rng), sample, rng)
    noise, floor = 0.0, 0.0
    if rng.random() < 0.5:
        losses = np.array([loss(point) for point in sample])
        noise = float(np.std(losses)) * 10 ** rng.uniform(-2.0, -0.3)
        floor = 2.0 * noise if rng.random() < 0.7 else 0.0
    return judged(cube, loss, _failing(cube, rng), rng, noise=noise, noise_floor=floor)


def judged(
    cube: UnitCube,
    loss: Shape,
    fails: Shape,
    rng: np.random.Generator,
    *,
    noise: float,
    noise_floor: float,
) -> Task:
    """The task, once its lowest loss was looked for, with many more trials than a study has."""

    def measured(rows: Array) -> Array:
        return np.array([loss(row) if fails(row) <= 0 else np.inf for row in rows])

    points = cube.settle(rng.uniform(size=(_RANDOM_TRIES, cube.width)))
    losses = measured(points)
    scored = losses[np.isfinite(losses)]
    middle = float(np.median(scored)) if len(scored) else 0.0
    reach = 0.2
    for _ in range(_ROUNDS):
        first = np.argsort(losses, kind="stable")[:_SURVIVORS]
        steps = rng.normal(size=(_CHILDREN, _SURVIVORS, cube.width)) * reach
        steps *= rng.random(steps.shape) < max(0.4, 1.0 / cube.width)
        children = cube.settle((points[first] + steps).reshape(-1, cube.width))
        losses = np.concatenate([losses[first], measured(children)])
        points = np.vstack([points[first], children])
        reach *= 0.6
    lowest = float(losses.min()) if np.isfinite(losses).any() else 0.0
    return Task(
        cube=cube,
        loss=loss,
        noise=noise,
        noise_floor=noise_floor,
        fails=fails,
        lowest=lowest,
        spread=(middle - lowest) or 1.0,
    )


def _space(rng: np.random.Generator) -> SearchSpace:
    count = int(rng.integers(1, PARAMETERS + 1))
    all_floats = rng.random() < 0.5
    space: dict[str, Float | Int | Categorical] = {}
    for place in range(count):
        kind = 0.0 if all_floats else rng.random()
        if kind < 0.5:
            space[f"p{place:02}"] = Float(0.0, 1.0)
        elif kind < 0.75:
            space[f"p{place:02}"] = Int(0, int(rng.integers(1, 24)))
        else:
            space[f"p{place:02}"] = Categorical(tuple(range(int(rng.integers(2, 7)))))
    return space


def _joined(cube: UnitCube, rng: np.random.Generator) -> Shape:
    """One of the shapes of the numbers, moved and lifted by the choices."""
    numbers = np.flatnonzero(~cube.is_choice)
    choices = np.flatnonzero(cube.is_choice)
    lift = rng.normal(size=len(choices)) * rng.choice([0.1, 0.5, 1.0])
    pairs = rng.normal(size=(len(choices), len(choices))) * rng.choice([0.0, 0.3])
    if not len(numbers):
        return lambda x: float(lift @ x[choices] + x[choices] @ pairs @ x[choices])
    move = rng.normal(size=(len(choices), len(numbers))) * rng.choice([0.0, 0.1, 0.3])
    shape = _SHAPES[int(rng.integers(len(_SHAPES)))](len(numbers), rng)
    sample = np.array([shape(p) for p in rng.uniform(size=(_SAMPLE, len(numbers)))])
    spread = float(np.std(sample)) or 1.0
    if not len(choices):
        return lambda x: shape(x[numbers]) / spread

    def joined(x: Array) -> float:
        chosen = x[choices]
        lifted = float(lift @ chosen + chosen @ pairs @ chosen)
        return shape(x[numbers] + chosen @ move) / spread + lifted

    return joined


def _warped(shape: Shape, sample: Array, rng: np.random.Generator) -> Shape:
    """The same order of points on another scale."""
    values = np.array([shape(point) for point in sample])
    lowest, spread = float(values.min()), float(np.std(values)) or 1.0
    size, offset = 10 ** rng.uniform(-3, 3), rng.normal() * 10 ** rng.uniform(-2, 3)
    kind = int(rng.integers(4))
    bend = rng.uniform(0.5, 2.0)

    def warped(x: Array) -> float:
        value = (shape(x) - lowest) / spread
        if kind == 0:
            value = math.exp(min(bend * value, 50.0))
        elif kind == 1:
            value = math.copysign(math.log1p(10 * abs(value)), value)
        return size * value + offset

    return warped


def _failing(cube: UnitCube, rng: np.random.Generator) -> Shape:
    if rng.random() < 0.8:
        return lambda x: -1.0
    direction = rng.normal(size=cube.width)
    sample = cube.settle(rng.uniform(size=(_SAMPLE, cube.width))) @ direction
    edge = float(np.quantile(sample, rng.uniform(0.7, 0.95)))
    return lambda x: float(direction @ x) - edge


# --- shapes of d numbers -------------------------------------------------------------------------


def _turn(d: int, rng: np.random.Generator) -> Array:
    """A random rotation, or none."""
    if rng.random() < 0.5:
        return np.eye(d)
    turned: Array = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return turned


def _centre(d: int, rng: np.random.Generator) -> Array:
    low = -0.1 if rng.random() < 0.2 else 0.1
    return rng.uniform(low, 1.0 - low, size=d)


def _bowl(d: int, rng: np.random.Generator) -> Shape:
    """Unequal powers of unequally important directions, some of which may matter nothing."""
    axes, centre = _turn(d, rng), _centre(d, rng)
    weights = 10 ** rng.uniform(-rng.uniform(0.2, 3.0), 0.0, size=d)
    weights *= rng.random(d) < (1.0 if rng.random() < 0.6 else 0.5)
    power = rng.uniform(0.6, 2.5)
    return lambda u: float((weights * np.abs(axes @ (u - centre)) ** power).sum())


def _ridge(d: int, rng: np.random.Generator) -> Shape:
    direction, centre = rng.normal(size=d), _centre(d, rng)
    direction /= float(np.linalg.norm(direction))
    slope, power = 10 ** rng.uniform(-2.0, -0.5), rng.uniform(0.5, 2.0)

    def ridge(u: Array) -> float:
        away = u - centre
        along = float(direction @ away)
        across = away - along * direction
        return float(np.sum(np.square(across)) ** (power / 2)) + slope * along

    return ridge


def _bent(d: int, rng: np.random.Generator) -> Shape:
    """A valley along a random curve."""
    base = _bowl(d, rng)
    ahead, phase = rng.permutation(d), rng.uniform(0, 2 * np.pi, size=d)
    depth, turns = rng.uniform(0.1, 0.4), rng.uniform(2.0, 6.0)
    return lambda u: base(u + depth * np.sin(turns * u[ahead] + phase))


def _waves(d: int, rng: np.random.Generator) -> Shape:
    """A draw of a smooth random process (random Fourier features, Rahimi and Recht 2007)."""
    reach = rng.uniform(0.15, 0.8) * math.sqrt(d)
    directions = rng.normal(size=(WAVES, d)) / reach
    phases = rng.uniform(0, 2 * np.pi, size=WAVES)
    sizes = rng.normal(size=WAVES) * math.sqrt(2 / WAVES)
    return lambda u: float(sizes @ np.cos(directions @ u + phases))


def _separate(d: int, rng: np.random.Generator) -> Shape:
    """A sum of random waves of one coordinate each."""
    reach = rng.uniform(0.08, 0.5)
    rates = rng.normal(size=(d, 6)) / reach
    phases, sizes = rng.uniform(0, 2 * np.pi, size=(d, 6)), rng.normal(size=(d, 6))
    importance = rng.exponential(size=d)
    return lambda u: float(importance @ (sizes * np.cos(rates * u[:, None] + phases)).sum(axis=1))


def _bumpy(d: int, rng: np.random.Generator) -> Shape:
    base, waves, share = _bowl(d, rng), _waves(d, rng), 10 ** rng.uniform(-1.5, 0.0)
    rough = rng.uniform(1.5, 5.0)
    sample = rng.uniform(size=(_SAMPLE, d))
    spread = float(np.std([base(point) for point in sample])) or 1.0
    return lambda u: base(u) / spread + share * waves(rough * u)


def _steps(d: int, rng: np.random.Generator) -> Shape:
    """Plateaus with nothing between."""
    base = _SHAPES[int(rng.integers(len(_SHAPES) - 1))](d, rng)
    sample = np.array([base(point) for point in rng.uniform(size=(_SAMPLE, d))])
    height = (float(np.std(sample)) or 1.0) / rng.integers(2, 12)
    return lambda u: float(math.floor(base(u) / height) * height)


_SHAPES: Final[tuple[Callable[[int, np.random.Generator], Shape], ...]] = (
    _bowl,
    _ridge,
    _bent,
    _waves,
    _separate,
    _bumpy,
    _steps,
)

FAMILIES: Final = tuple(shape.__name__.strip("_") for shape in _SHAPES)
