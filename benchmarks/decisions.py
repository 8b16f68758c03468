"""False promotions, power and bias of the gate, by simulation of the code that decides.

    python -m benchmarks.decisions --json FILE [--runs 2000] [--profile thorough] [--workers 2]

A fake runner stands in for training and evaluation; choosing the family, asking for runs,
testing and promoting are `controller.decisions`, called as the worker calls them. One run of the
simulation is one study: 100 screened candidates of which 5 % are planted with an effect, a pool
of the incumbent, one replay family.
"""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.gate_simulation import FAMILIES, Outcome, simulate
from benchmarks.reports import write_report
from benchmarks.worker_pools import end_with_parent
from controller.decisions.profiles import PROFILES, THOROUGH, GateProfile
from evaluator.statistics import mean, wilson_interval


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of work: a profile, a family of noise, an effect and a range of seeds."""

    profile: GateProfile
    family: int
    effect: float
    first: int
    count: int


def run_cell(cell: Cell) -> list[Outcome]:
    family = FAMILIES[cell.family]
    return [
        simulate(cell.profile, family, cell.effect, f"{family.name}/{cell.effect}/{i}")
        for i in range(cell.first, cell.first + cell.count)
    ]


def summarize(outcomes: Sequence[Outcome]) -> dict[str, float]:
    n = len(outcomes)

    def share(flags: Iterable[bool]) -> float:
        return sum(flags) / n

    confirmed = [o for o in outcomes if o.gain is not None]
    errors = [o.gain - o.true_gain for o in confirmed if o.gain is not None]
    false = sum(o.promoted and not o.better for o in outcomes)
    bounds = wilson_interval(false, n)
    return {
        "runs": n,
        "provisional_false": share(o.provisional and not o.better for o in outcomes),
        "final_false": false / n,
        "final_false_low": bounds.low,
        "final_false_high": bounds.high,
        "final_power": share(o.promoted and o.better for o in outcomes),
        "gate_runs": mean([float(o.gate_runs) for o in outcomes]),
        "confirm_runs": mean([float(o.confirm_runs) for o in outcomes]),
        "confirmations": len(confirmed),
        "bias": mean(errors) if errors else 0.0,
        "coverage": mean([float(o.covered) for o in confirmed]) if confirmed else 0.0,
        "greedy_false": share(o.greedy_kept for o in outcomes),
        "greedy_claim": mean([o.greedy_claim for o in outcomes]),
        "screening_false": share(o.screening_kept for o in outcomes),
    }


def measure(profiles: Sequence[GateProfile], runs: int, workers: int) -> list[dict[str, object]]:
    """Every profile, family and effect; the same seeds whatever the number of workers.

    A profile with an alpha of its own is measured under normal noise only.
    """
    chunk = 250
    cells = [
        Cell(profile, f, effect, first, min(chunk, runs - first))
        for profile in profiles
        for f, family in enumerate(FAMILIES)
        if f == 0 or profile in PROFILES.values()
        for effect in family.effects
        for first in range(0, runs, chunk)
    ]
    found: dict[tuple[str, float, int, float], list[Outcome]] = {}
    fresh = multiprocessing.get_context("spawn")
    with fresh.Pool(workers, initializer=end_with_parent) as processes:
        for cell, outcomes in zip(cells, processes.imap(run_cell, cells), strict=True):
            key = (cell.profile.name, cell.profile.alpha, cell.family, cell.effect)
            found.setdefault(key, []).extend(outcomes)
    return [
        {
            "profile": name,
            "alpha": alpha,
            "noise": FAMILIES[family].name,
            "effect_sd": effect,
            **summarize(outcomes),
        }
        for (name, alpha, family, effect), outcomes in found.items()
    ]


def table(rows: Sequence[Mapping[str, object]]) -> str:
    lines = [
        f"{'profile':9} {'alpha':>5} {'noise':41} {'effect':>6} {'prov.':>6} {'final':>6}"
        f" {'power':>6} {'gate':>5} {'conf.':>5} {'bias':>6} {'cover':>5} {'greedy':>6}"
    ]
    lines += [
        "{profile:9} {alpha:5.2f} {noise:41} {effect_sd:6.0f} {provisional_false:6.3f}"
        " {final_false:6.3f} {final_power:6.3f} {gate_runs:5.1f} {confirm_runs:5.1f}"
        " {bias:6.3f} {coverage:5.3f} {greedy_false:6.2f}".format_map(row)
        for row in rows
    ]
    return "\n".join(lines)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decisions", description=__doc__)
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    parser.add_argument("--runs", type=int, default=2000, help="simulated studies per row")
    parser.add_argument("--profile", choices=[*PROFILES, "all"], default="all")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(argv)
    chosen = [p for n, p in PROFILES.items() if options.profile in (n, "all")]
    if options.profile == "all":
        # What a study's first and second family are judged by (see profile_for).
        chosen += [replace(THOROUGH, alpha=0.04), replace(THOROUGH, alpha=0.01)]
    started = time.monotonic()
    rows = measure(chosen, options.runs, options.workers)
    print(table(rows))
    print(f"{options.runs} studies a row, {time.monotonic() - started:.0f} s")
    write_report(options.json, {"runs": options.runs, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
