"""Compute saved and winners lost by each pruner, on synthetic learning curves.

    python -m benchmarks.pruning --json FILE [--studies 100] [--trials 100]

Curves are power laws and exponentials of many rates, some that cross (fast and worse in the
end), some that bloom late, with noise on every report. `ordinary` has few late bloomers;
`adverse` has one trial in eight that looks hopeless until up to .6 of its way, and others that
fall after a good start. A winner is lost when the trial that would have been its study's best
was cancelled; `beyond noise` counts those where nothing else came within the noise of it.
"""

import argparse
import json
import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from evaluator.pruning import (
    OtherCurve,
    PackedCurve,
    PrunerSettings,
    decide_pruning,
    pack_curve,
)
from ledger.records import Direction

HORIZON: Final = 100
REPORT_EVERY: Final = 2
NOISE: Final = 0.015
Shape = Callable[[float], float]


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


POPULATIONS: Final = {
    "ordinary": ((power, exponential, late_bloomer, fast_and_worse), (0.5, 0.3, 0.05, 0.15)),
    "adverse": (
        (power, exponential, later_bloomer, fast_and_worse, falling),
        (0.4, 0.25, 0.12, 0.15, 0.08),
    ),
}


def draw_curve(rng: random.Random, population: str) -> list[tuple[int, float]]:
    kinds, shares = POPULATIONS[population]
    (kind,) = rng.choices(kinds, shares)
    final = 0.75 + rng.gauss(0, 0.05) - rng.expovariate(20)
    shape, noise = kind(rng, final), NOISE * rng.choice((0.2, 0.5, 1.0))
    return [
        (step, shape(step / HORIZON) + rng.gauss(0, noise))
        for step in range(REPORT_EVERY, HORIZON + 1, REPORT_EVERY)
    ]


@dataclass(frozen=True, slots=True)
class Pruned:
    """One study under one pruner."""

    saved: float
    lost: bool
    lost_beyond_noise: bool


def prune_study(settings: PrunerSettings, population: str, trials: int, seed: str) -> Pruned:
    rng = random.Random(seed)
    finished: list[PackedCurve] = []
    others: list[OtherCurve] = []
    ends: list[tuple[float, bool]] = []
    saved = 0
    for number in range(trials):
        curve = draw_curve(rng, population)
        cut = _pruned_at(settings, curve, finished, others, number)
        packed = pack_curve([point for point in curve if cut is None or point[0] <= cut])
        others.append(OtherCurve(number, packed, is_complete=cut is None))
        if cut is None:
            finished.append(packed)
        else:
            saved += HORIZON - cut
        ends.append((curve[-1][1], cut is not None))
    best, was_cut = max(ends)
    left = max(end for end, cut in ends if not cut)
    return Pruned(saved / (trials * HORIZON), was_cut, best - left > NOISE)


def _pruned_at(
    settings: PrunerSettings,
    curve: Sequence[tuple[int, float]],
    finished: Sequence[PackedCurve],
    others: Sequence[OtherCurve],
    number: int,
) -> int | None:
    for count in range(1, len(curve)):
        if decide_pruning(
            settings,
            curve=curve[:count],
            finished=finished,
            direction=Direction.MAXIMIZE,
            others=others,
            number=number,
        ):
            return curve[count - 1][0]
    return None


@dataclass(frozen=True, slots=True)
class Row:
    pruner: str
    population: str
    saved: float
    winners_lost: float
    lost_beyond_noise: float


PRUNERS: Final[Mapping[str, PrunerSettings]] = {
    "median": PrunerSettings(name="median", horizon=HORIZON),
    "percentile": PrunerSettings(name="percentile", horizon=HORIZON),
    "percentile 75": PrunerSettings(name="percentile", horizon=HORIZON, percentile=75.0),
    "asha": PrunerSettings(name="asha", horizon=HORIZON),
    "asha from 1/2": PrunerSettings(name="asha", horizon=HORIZON, min_resource=HORIZON // 2),
    "hyperband": PrunerSettings(name="hyperband", horizon=HORIZON),
    "median, no margin": PrunerSettings(name="median", horizon=HORIZON, margin="none"),
    "percentile, no margin": PrunerSettings(name="percentile", horizon=HORIZON, margin="none"),
    "asha, no margin": PrunerSettings(name="asha", horizon=HORIZON, margin="none"),
    "hyperband, no margin": PrunerSettings(name="hyperband", horizon=HORIZON, margin="none"),
    "wilcoxon, no margin": PrunerSettings(name="wilcoxon", horizon=HORIZON, margin="none"),
    "threshold .4": PrunerSettings(name="threshold", lower=0.4, warmup_steps=HORIZON // 2),
    "patient 20": PrunerSettings(name="patient", patience=20),
    "patient 20, median": PrunerSettings(name="patient", patience=20, wrapped="median"),
    "patient 20, power_law": PrunerSettings(
        name="patient", patience=20, wrapped="power_law", horizon=HORIZON
    ),
    "wilcoxon": PrunerSettings(name="wilcoxon", horizon=HORIZON),
    "power_law": PrunerSettings(name="power_law", horizon=HORIZON),
}
"""Every pruner with the study file's defaults, and some others of interest."""


def measure(label: str, population: str, *, studies: int, trials: int) -> Row:
    settings = PRUNERS[label]
    found = [
        prune_study(settings, population, trials, f"{population}/{i}") for i in range(studies)
    ]
    return Row(
        label,
        population,
        sum(p.saved for p in found) / studies,
        sum(p.lost for p in found) / studies,
        sum(p.lost_beyond_noise for p in found) / studies,
    )


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pruning", description=__doc__)
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    parser.add_argument("--studies", type=int, default=100)
    parser.add_argument("--trials", type=int, default=100, help="trials of each study")
    parser.add_argument("--pruner", action="append", choices=list(PRUNERS), help="only this one")
    options = parser.parse_args(argv)
    rows = []
    for name in options.pruner or PRUNERS:
        for population in POPULATIONS:
            row = measure(name, population, studies=options.studies, trials=options.trials)
            rows.append(row)
            print(
                f"{row.pruner:22} {row.population:9} saved {row.saved:.3f}"
                f"  winners lost {row.winners_lost:.3f}"
                f"  beyond noise {row.lost_beyond_noise:.3f}",
                flush=True,
            )
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
