"""The learning curves of the pruning benchmark: synthetic families, items, and recorded runs.

`ordinary`: power laws and exponentials of many rates, curves that cross (fast and worse in the
end), one late bloomer in twenty. `adverse`: one trial in eight looks hopeless until up to .6 of
its way, and others fall after a good start. `items`: reports are scores of the same forty items in
the same order, and a trial's result is their mean. `recorded NAME`: runs of TRL kept in
benchmarks/tables/NAME.json, drawn without replacement; no constant was chosen on
those of HELD_OUT.
"""

import json
import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TABLES: Final = Path(__file__).parent / "tables"
NOISE: Final = 0.015
ITEMS: Final = 40
ITEM_NOISE: Final = 0.15
Points = list[tuple[int, float]]
Shape = Callable[[float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """The trials of one study in the order of starting; higher is better."""

    curves: Sequence[Points]
    results: Sequence[float]
    horizon: int
    noise: float
    """Results that differ by less are as good as each other."""


def power(rng: random.Random, final: float) -> Shape:
    exponent = rng.uniform(0.3, 1.2)
    return lambda t: final - 0.6 * ((60 * t + 1) ** -exponent - 61**-exponent)


def exponential(rng: random.Random, final: float) -> Shape:
    rate = rng.uniform(4, 15)
    return lambda t: final - 0.6 * math.exp(-rate * t)


def fast_and_worse(rng: random.Random, final: float) -> Shape:
    rate = rng.uniform(15, 40)
    return lambda t: final - 0.04 - 0.6 * math.exp(-rate * t)


def late_bloomer(rng: random.Random, final: float, latest: float = 0.4) -> Shape:
    middle = rng.uniform(0.15, latest)
    return lambda t: final - 0.3 / (1 + math.exp((t - middle) / 0.05)) - 0.1 * math.exp(-10 * t)


def later_bloomer(rng: random.Random, final: float) -> Shape:
    return late_bloomer(rng, final, 0.6)


def falling(rng: random.Random, final: float) -> Shape:
    turn = rng.uniform(0.1, 0.6)
    return lambda t: final - 0.6 * math.exp(-8 * t) - 0.5 * max(0.0, t - turn)


POPULATIONS: Final[Mapping[str, tuple[Sequence[Callable[..., Shape]], Sequence[float]]]] = {
    "ordinary": ((power, exponential, late_bloomer, fast_and_worse), (0.5, 0.3, 0.05, 0.15)),
    "adverse": (
        (power, exponential, later_bloomer, fast_and_worse, falling),
        (0.4, 0.25, 0.12, 0.15, 0.08),
    ),
}


def draw_curve(rng: random.Random, population: str) -> Points:
    """A report at every second of a hundred steps."""
    kinds, shares = POPULATIONS[population]
    (kind,) = rng.choices(kinds, shares)
    final = 0.75 + rng.gauss(0, 0.05) - rng.expovariate(20)
    shape, noise = kind(rng, final), NOISE * rng.choice((0.2, 0.5, 1.0))
    return [(step, shape(step / 100) + rng.gauss(0, noise)) for step in range(2, 101, 2)]


def draw_study(family: str, trials: int, seed: str) -> Study:
    rng = random.Random(f"{family}/{seed}")
    if family in POPULATIONS:
        curves = [draw_curve(rng, family) for _ in range(trials)]
        return Study(curves=curves, results=_ends(curves), horizon=100, noise=NOISE)
    if family == "items":
        return _draw_items(rng, trials)
    return _draw_recorded(rng, trials, family.removeprefix(RECORDED))


def _ends(curves: Sequence[Points]) -> list[float]:
    return [curve[-1][1] for curve in curves]


def _draw_items(rng: random.Random, trials: int) -> Study:
    difficulty = [rng.gauss(0, 0.2) for _ in range(ITEMS)]
    curves = []
    for _ in range(trials):
        quality = 0.75 + rng.gauss(0, 0.05) - rng.expovariate(20)
        scores = [quality - hard + rng.gauss(0, ITEM_NOISE) for hard in difficulty]
        curves.append(list(enumerate(scores, 1)))
    results = [statistics.fmean(value for _, value in curve) for curve in curves]
    return Study(curves=curves, results=results, horizon=ITEMS, noise=ITEM_NOISE / ITEMS**0.5)


# --- recorded ------------------------------------------------------------------------------------

RECORDED: Final = "recorded "
HELD_OUT: Final = ("sft_from_128", "dpo_lora_from_64", "grpo_lora_from_64")


def recorded_families() -> list[str]:
    return [RECORDED + path.stem for path in sorted(TABLES.glob("*.json"))]


def _draw_recorded(rng: random.Random, trials: int, name: str) -> Study:
    """A study of runs of the table; of two runs of one point, either."""
    runs = _runs(name)
    points = rng.sample(sorted(runs), min(trials, len(runs)))
    curves = [rng.choice(runs[point]) for point in points]
    pairs = [_ends(found) for found in _runs(name.partition("_from_")[0]).values()]
    spread = [statistics.variance(ends) for ends in pairs if len(ends) > 1]
    noise = math.sqrt(statistics.fmean(spread)) if spread else NOISE
    return Study(curves=curves, results=_ends(curves), horizon=curves[0][-1][0], noise=noise)


def _runs(name: str) -> dict[int, list[Points]]:
    """By point; only the first points of a table have a second run of some."""
    runs: dict[int, list[Points]] = {}
    for row in json.loads((TABLES / f"{name}.json").read_text())["rows"]:
        runs.setdefault(row["point"], []).append([(step, value) for step, value in row["curve"]])
    return runs
