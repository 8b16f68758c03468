"""What the policy observes before each proposal: a table with a row for each coordinate of the
unit cube, and a few numbers about the study as a whole.

Directions are offsets from the best point, so the policy says where to go in words that mean the
same in every space. Two columns are drawn at random for each proposal: with them a policy that
is one Gaussian can do one thing now and another then, and move some coordinates only.
"""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from proposers.ppo_density import likely
from proposers.ppo_memory import Told
from proposers.ppo_model import Hints, Model, search
from proposers.ppo_seen import STUDY, Seen, proposal_numbers
from proposers.ppo_space import Array, UnitCube

Observation: TypeAlias = NDArray[np.float32]

DIRECTIONS: Final = (
    "expected",  # where the model expects the largest improvement
    "likely",  # where good trials are denser than others, coordinate by coordinate
    "lowest",  # where it foretells the lowest value
    "smoothed",  # the trial that is best once noise is taken out
    "centroid",  # the middle of the best quarter
    "elite",  # one of the best quarter, at random
    "difference",  # between two of the best quarter, at random
    "unseen",  # a point far from all trials
)
COLUMNS: Final = (
    "counts",  # 1 where a coordinate exists in the point that was proposed
    "exists",  # 0 in rows that only fill the table
    *DIRECTIONS,
    "scale",  # how far the best quarter lies from the best point, and how far `expected` is
    "log_scale",
    "place",
    "step",  # from the best point before
    "second",
    "third",
    "latest",
    "latest_but_one",
    "pending",  # the middle of what is being tried
    "draw",
    "is_choice",
    "levels",
    "is_conditional",
)
FIRST_DIRECTION: Final = COLUMNS.index("expected")
LIMIT: Final = 8.0
"""No number is larger."""
SMALLEST_SCALE: Final = 0.004
START_SCALE: Final = 0.3
PENDING_SEEN: Final = 32
_UNSEEN_TRIES: Final = 16


def observe(
    cube: UnitCube,
    seen: Seen,
    pending: Array,
    rng: np.random.Generator,
) -> Observation:
    """The observation for one proposal; `pending` has a row for each point being tried, those of
    the same call included."""
    told = seen.told
    waiting = pending[-PENDING_SEEN:]
    unseen = _unseen(cube, told, waiting, rng)
    model = None if seen.model is None else seen.model.expecting(waiting)
    hints = None if model is None else search(model, cube, told, rng)
    columns = _points(seen, model, hints, unseen, rng)
    dense = likely(cube, told, seen.memory.scored, rng)
    columns["likely"] = unseen if dense is None else dense
    table = np.zeros((cube.width, len(COLUMNS)))
    for place, name in enumerate(COLUMNS):
        if name in columns:
            table[:, place] = columns[name] - seen.anchor
    elite = _elite(told)
    table[:, COLUMNS.index("difference")] = _difference(elite, rng)
    scale = _scale(cube, seen, elite, table[:, FIRST_DIRECTION])
    fixed: dict[str, Array | float] = {
        "counts": 1.0,
        "exists": 1.0,
        "scale": scale,
        "log_scale": np.log(scale) / 3.0,
        "place": 2.0 * seen.anchor - 1.0,
        "step": seen.memory.last_step,
        "pending": waiting.mean(axis=0) - seen.anchor if len(waiting) else 0.0,
        "draw": rng.uniform(-1.0, 1.0, size=cube.width),
        "is_choice": cube.is_choice.astype(float),
        "levels": 1.0 / np.maximum(cube.levels, 1.0) * (cube.levels > 0),
        "is_conditional": 0.0,
    }
    for name, column in fixed.items():
        table[:, COLUMNS.index(name)] = column
    for part in cube.parts.values():
        if part.distribution.when:
            table[part.first : part.last, COLUMNS.index("is_conditional")] = 1.0
    numbers = {**seen.study, **proposal_numbers(seen, model, hints, len(waiting), rng)}
    flat = np.concatenate([table.ravel(), [numbers[name] for name in STUDY]])
    return packed(flat)


def packed(flat: Array) -> Observation:
    """In half precision, as it is kept until the trial ends, so that what the policy learns from
    is to the bit what it decided on."""
    halved = np.clip(np.nan_to_num(flat), -LIMIT, LIMIT).astype(np.float16)
    return halved.astype(np.float32)


def _elite(told: Told) -> Array:
    best: Array = told.vectors[: max(len(told.vectors) // 4, 2)]
    return best


def _unseen(cube: UnitCube, told: Told, pending: Array, rng: np.random.Generator) -> Array:
    """Of a few random points the one farthest from all that was tried."""
    tries = cube.settle(rng.uniform(size=(_UNSEEN_TRIES, cube.width)))
    known = np.vstack([told.vectors, told.failures, pending])
    if not len(known):
        return np.asarray(tries[0])
    squares = np.square(tries[:, None, :] - known[None, :, :]).sum(axis=2)
    farthest: Array = tries[int(np.argmax(squares.min(axis=1)))]
    return farthest


def _points(
    seen: Seen,
    model: Model | None,
    hints: Hints | None,
    unseen: Array,
    rng: np.random.Generator,
) -> dict[str, Array]:
    """The columns that are offsets of some point from the best."""
    told, anchor = seen.told, seen.anchor
    elite = _elite(told)
    points = {"unseen": unseen, "expected": unseen, "lowest": anchor}
    if model is not None and hints is not None:
        smoothest = int(np.argmin(model.smoothed()[: len(told.losses)]))
        points |= {
            "expected": hints.expected,
            "lowest": hints.lowest,
            "smoothed": told.vectors[smoothest],
        }
    if len(elite):
        points["centroid"] = elite.mean(axis=0)
        points["elite"] = elite[rng.integers(len(elite))]
    for name, rank in (("second", 1), ("third", 2)):
        points[name] = told.vectors[rank] if len(told.vectors) > rank else anchor
    latest = seen.memory.latest(2)
    for name, rank in (("latest", 0), ("latest_but_one", 1)):
        points[name] = latest[rank].vector if len(latest) > rank else anchor
    return {name: points.get(name, anchor) for name in (*DIRECTIONS, *_OTHERS)}


_OTHERS: Final = ("second", "third", "latest", "latest_but_one")


def _difference(elite: Array, rng: np.random.Generator) -> Array | float:
    if len(elite) < 2:
        return 0.0
    one, two = rng.choice(len(elite), size=2, replace=False)
    difference: Array = elite[one] - elite[two]
    return difference


def _scale(cube: UnitCube, seen: Seen, elite: Array, jump: Array) -> Array:
    """The width that steps are thought of in, by coordinate."""
    if len(seen.told.losses) < 3:
        return np.full(cube.width, START_SCALE)
    around = np.sqrt(np.square(elite - seen.anchor).mean(axis=0))
    scale = 0.5 * around + 0.2 * np.abs(jump)
    lowest = np.where(cube.is_choice, 0.1, SMALLEST_SCALE)
    clipped: Array = np.clip(scale, lowest, START_SCALE)
    return clipped
