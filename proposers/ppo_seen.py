"""What the policy sees of a study as a whole: read once for all proposals of a call."""

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ledger.search import History, as_loss
from proposers.ppo_memory import Memory, Told, baseline_vector, scaled
from proposers.ppo_model import Hints, Model, fit
from proposers.ppo_space import Array, UnitCube

STUDY: Final = (
    "trials",
    "log_trials",
    "spent",  # share of the trials that were made
    "is_limited",
    "stall",
    "log_stall",
    "failures",
    "pending",
    "width",
    "parts",
    "noise_floor",
    "best",
    "latest",
    "latest_but_one",
    "model_explains",
    "model_noise",
    "model_length",
    "model_adds",
    "gain",
    "deviation",
    "draw",
)
_TINY: Final = 1e-12


@dataclass(slots=True)
class Seen:
    """Everything an observation is made from that is the same for all proposals of a call."""

    memory: Memory
    told: Told
    model: Model | None
    anchor: Array
    """The best point; the policy's actions are offsets from it."""
    best_loss: float | None
    unit: float
    """What an improvement is measured in, see `look`."""
    study: dict[str, float] = field(default_factory=dict)


SPREAD_SHARE: Final = 0.2
"""Improvements are told in units of the noise floor, or of this share of how far the best
quarter lies behind the best, whichever is larger."""


def look(cube: UnitCube, memory: Memory, history: History) -> Seen:
    """Read the memory once for all proposals of a call."""
    told = memory.told()
    best = memory.best
    floor = history.noise_floor if math.isfinite(history.noise_floor) else 0.0
    anchor = baseline_vector(cube, history)
    if best is not None:
        anchor = best.vector
    if anchor is None:
        anchor = cube.settle(np.full((1, cube.width), 0.5))[0]
    spread = quarter_spread(told.losses)
    seen = Seen(
        memory=memory,
        told=told,
        model=fit(cube, told, floor),
        anchor=anchor,
        best_loss=None if best is None else best.loss,
        unit=max(floor, SPREAD_SHARE * spread),
    )
    seen.study = _study_numbers(cube, seen, history, floor)
    return seen


def quarter_spread(losses: Array) -> float:
    """How far the last of the best quarter (at least two) lies behind the best; 0 when that is
    no finite number."""
    if len(losses) < 2:
        return 0.0
    with np.errstate(over="ignore"):
        spread = float(losses[max(len(losses) // 4, 1)] - losses[0])
    return spread if math.isfinite(spread) else 0.0


def _study_numbers(cube: UnitCube, seen: Seen, history: History, floor: float) -> dict[str, float]:
    memory, told = seen.memory, seen.told
    made = memory.scored + memory.failed
    left = history.trials_left
    losses, level = scaled(told.losses, floor)
    spread = quarter_spread(losses)
    return {
        "trials": made / 100.0,
        "log_trials": math.log1p(made) / 3.0,
        "spent": 0.5 if left is None else made / max(made + left, 1),
        "is_limited": float(left is not None),
        "stall": memory.stall / (memory.scored + 1),
        "log_stall": math.log1p(memory.stall) / 3.0,
        "failures": memory.failed / (made + 1),
        "width": math.log(cube.width + 1) / 3.0,
        "parts": math.log(len(cube.parts) + 1) / 3.0,
        "noise_floor": level / (level + spread + _TINY),
        "best": _best_number(history, told.losses, floor),
        **_latest_numbers(seen, losses),
    }


def _best_number(history: History, losses: Array, floor: float) -> float:
    """How far the best lies before the baseline, in units of the distance to the median."""
    value = history.baseline_value
    if value is None or not len(losses):
        return 0.0
    start = as_loss(value, history.objective.direction)
    found, level = scaled(np.array([start, losses[0], np.median(losses)]), floor)
    start, best, middle = (float(loss) for loss in found)
    unit = middle - best + level + _TINY
    return math.copysign(math.log1p(abs(start - best) / unit) / 3.0, start - best)


def _latest_numbers(seen: Seen, losses: Array) -> dict[str, float]:
    """What became of the last two: 0 the best, 1 the median, 2 and more the worst."""
    found = {"latest": 0.0, "latest_but_one": 0.0}
    if not len(losses):
        return found
    unit = float(np.median(losses) - losses[0]) + _TINY
    places = {int(order): place for place, order in enumerate(seen.told.orders)}
    for name, row in zip(found, seen.memory.latest(2), strict=False):
        above = float(losses[places[row.order]] - losses[0])
        found[name] = math.log1p(above / unit)
    return found


def proposal_numbers(
    seen: Seen, model: Model | None, hints: Hints | None, pending: int, rng: np.random.Generator
) -> dict[str, float]:
    numbers = {"pending": math.log1p(pending) / 3.0, "draw": rng.uniform(-1.0, 1.0)}
    known = ("model_explains", "model_noise", "model_length", "model_adds", "gain", "deviation")
    if model is None or hints is None or seen.model is None:
        return numbers | dict.fromkeys(known, 0.0)
    return numbers | {
        "model_explains": seen.model.explained(),
        "model_noise": math.log10(model.shape.noise) / 2.0 + 1.0,
        "model_length": math.log(model.shape.length),
        "model_adds": model.shape.share,
        "gain": math.log10(max(hints.gain, 1e-6)) / 3.0,
        "deviation": hints.deviation,
    }
