"""Compute saved and winners lost by each pruner, on synthetic and on recorded learning curves.

    python -m benchmarks.pruning --json FILE [--studies 100] [--few 20] [--trials 100]

The curves are those of benchmarks/pruning_curves.py. A winner is lost when what is left of a
study is worse than the best trial that was cancelled; `beyond noise`, when it is worse by more
than the noise of a result. Peers, and pruners without their margin, see the first few studies.
An oracle knows what every trial will come to and ends, after the first ones, all that will not
be the best so far: nothing that loses no winner can save more.
"""

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.pruning_curves import POPULATIONS, Study, draw_study, recorded_families
from benchmarks.reports import write_report
from evaluator.pruning import (
    OtherCurve,
    PackedCurve,
    PrunerSettings,
    decide_pruning,
    pack_curve,
)
from evaluator.pruning_margin import FIRST_LOOK, LOOKS_PER_HORIZON
from ledger.records import Direction

Cuts = list[int | None]
"""For each trial of a study, after how many reports it was ended; None: it was not."""
PRUNERS: Final[Mapping[str, PrunerSettings]] = {
    "power_law": PrunerSettings(name="power_law"),
    "median": PrunerSettings(name="median"),
    "percentile": PrunerSettings(name="percentile"),
    "asha": PrunerSettings(name="asha"),
    "hyperband": PrunerSettings(name="hyperband"),
    "wilcoxon": PrunerSettings(name="wilcoxon"),
    "patient": PrunerSettings(name="patient", patience=20),
    "patient, then median": PrunerSettings(name="patient", patience=20, wrapped="median"),
    "threshold .4": PrunerSettings(name="threshold", lower=0.4, warmup_steps=50),
    "power_law, no margin": PrunerSettings(name="power_law", margin="none"),
    "median, no margin": PrunerSettings(name="median", margin="none"),
    "percentile, no margin": PrunerSettings(name="percentile", margin="none"),
    "asha, no margin": PrunerSettings(name="asha", margin="none"),
    "hyperband, no margin": PrunerSettings(name="hyperband", margin="none"),
    "wilcoxon, no margin": PrunerSettings(name="wilcoxon", margin="none"),
    "patient, no margin": PrunerSettings(name="patient", patience=20, margin="none"),
}
"""Every pruner with the study file's defaults, and without the margin."""
ORACLES: Final[Mapping[str, float]] = {
    "oracle, from the first report": 0.0,
    "oracle, from the first look": FIRST_LOOK / LOOKS_PER_HORIZON,
}
"""From which part of the horizon it ends trials: at once, or when the margin first looks."""


@dataclass(frozen=True, slots=True)
class Row:
    pruner: str
    family: str
    studies: int
    trials: int
    saved: float
    winners_lost: float
    lost_beyond_noise: float


@dataclass(frozen=True, slots=True)
class Loss:
    """What became of one study under one pruner."""

    saved: float
    worse_by: float
    noise: float


def cut_study(settings: PrunerSettings, study: Study) -> Cuts:
    finished: list[PackedCurve] = []
    others: list[OtherCurve] = []
    cuts: Cuts = []
    for number, curve in enumerate(study.curves):
        cut = _cut_at(settings, curve, finished, others, number)
        packed = pack_curve(curve[:cut])
        others.append(OtherCurve(number, packed, is_complete=cut is None))
        if cut is None:
            finished.append(packed)
        cuts.append(cut)
    return cuts


def _cut_at(
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
            return count
    return None


def oracle_cuts(study: Study, share: float) -> Cuts:
    startup = PrunerSettings(name="power_law").startup_trials
    cuts: Cuts = []
    best = -math.inf
    for number, (curve, result) in enumerate(zip(study.curves, study.results, strict=True)):
        is_kept = number < startup or result > best
        reached = (n for n, (step, _) in enumerate(curve, 1) if step >= share * study.horizon)
        cuts.append(None if is_kept else next(reached))
        best = max(best, result) if is_kept else best
    return cuts


def loss_of(study: Study, cuts: Sequence[int | None]) -> Loss:
    saved = sum(
        1.0 - curve[cut - 1][0] / curve[-1][0]
        for curve, cut in zip(study.curves, cuts, strict=True)
        if cut is not None
    )
    kept = [r for r, cut in zip(study.results, cuts, strict=True) if cut is None]
    worse_by = max(study.results) - max(kept)
    return Loss(saved / len(cuts), worse_by, study.noise)


def summed(pruner: str, family: str, studies: Sequence[Study], cuts: Sequence[Cuts]) -> Row:
    losses = [loss_of(study, found) for study, found in zip(studies, cuts, strict=True)]
    count = len(losses)
    return Row(
        pruner,
        family,
        count,
        len(studies[0].curves),
        sum(one.saved for one in losses) / count,
        sum(one.worse_by > 0.0 for one in losses) / count,
        sum(one.worse_by > one.noise for one in losses) / count,
    )


def measure_oracle(label: str, family: str, *, studies: int, trials: int) -> Row:
    drawn = [draw_study(family, trials, str(number)) for number in range(studies)]
    cuts = [oracle_cuts(study, ORACLES[label]) for study in drawn]
    return summed(label, family, drawn, cuts)


def measure(label: str, family: str, *, studies: int, trials: int) -> Row:
    drawn = [draw_study(family, trials, str(number)) for number in range(studies)]
    return summed(label, family, drawn, [cut_study(PRUNERS[label], study) for study in drawn])


def peer_rows(family: str, studies: int, trials: int) -> Sequence[Callable[[], Row]]:
    """A measurement of each peer on the same studies, each when it is called."""
    from benchmarks.pruning_peers import FORECAST, OPTUNA, forecast_cuts, optuna_cuts

    drawn = [draw_study(family, trials, str(number)) for number in range(studies)]

    def by_optuna(name: str) -> Row:
        return summed(name, family, drawn, [optuna_cuts(name, study) for study in drawn])

    def by_forecast() -> Row:
        return summed(FORECAST, family, drawn, forecast_cuts(drawn))

    return [by_forecast, *(lambda name=name: by_optuna(name) for name in OPTUNA)]


def main(argv: Sequence[str]) -> int:
    families = [*POPULATIONS, "items", *recorded_families()]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pruning", description=__doc__)
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    parser.add_argument("--studies", type=int, default=100)
    parser.add_argument("--few", type=int, default=20, help="studies of a comparison")
    parser.add_argument("--trials", type=int, default=100, help="trials of each study")
    parser.add_argument("--pruner", action="append", choices=list(PRUNERS), help="only this one")
    parser.add_argument("--family", action="append", choices=families, help="only these curves")
    options = parser.parse_args(argv)
    rows: list[Row] = []

    def note(row: Row) -> None:
        rows.append(row)
        print(
            f"{row.pruner:30} {row.family:20} saved {row.saved:.3f}"
            f"  winners lost {row.winners_lost:.3f}  beyond noise {row.lost_beyond_noise:.3f}",
            flush=True,
        )
        write_report(options.json, [asdict(one) for one in rows])

    for family in options.family or families:
        for name in () if options.pruner else ORACLES:
            note(measure_oracle(name, family, studies=options.studies, trials=options.trials))
        for name in options.pruner or PRUNERS:
            studies = options.few if PRUNERS[name].margin == "none" else options.studies
            note(measure(name, family, studies=studies, trials=options.trials))
        peers = [] if options.pruner else peer_rows(family, options.few, options.trials)
        for peer in peers:
            note(peer())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
