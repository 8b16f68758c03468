"""What other systems would have cancelled of the same studies: Optuna's pruners with their
defaults, and autoresearch-rl's forecast in an environment of its own."""

import json
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import optuna
from optuna.pruners import (
    BasePruner,
    HyperbandPruner,
    MedianPruner,
    PatientPruner,
    PercentilePruner,
    SuccessiveHalvingPruner,
    WilcoxonPruner,
)

from benchmarks.noop_peers import ADAPTERS, RL, Peer, install
from benchmarks.pruning_curves import Study

ENVIRONMENTS: Final = Path(__file__).resolve().parent.parent / ".bench"
FORECAST: Final = "autoresearch-rl 0.5.0 forecast"
Cuts = list[int | None]
"""For each trial of a study, after how many reports it was ended; None: it was not."""

OPTUNA: Final[Mapping[str, Callable[[], BasePruner]]] = {
    "Optuna median": MedianPruner,
    "Optuna percentile (25)": lambda: PercentilePruner(25.0),
    "Optuna asha": SuccessiveHalvingPruner,
    "Optuna hyperband": HyperbandPruner,
    "Optuna patient, then median": lambda: PatientPruner(MedianPruner(), patience=10),
    "Optuna wilcoxon": WilcoxonPruner,
}
"""With Optuna's defaults; patience is that of ours in reports."""


def optuna_cuts(name: str, study: Study) -> Cuts:
    """By asking, reporting and telling, as a program would."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = optuna.create_study(
            direction="maximize",
            pruner=OPTUNA[name](),
            sampler=optuna.samplers.RandomSampler(seed=0),
        )
        return [
            _optuna_cut(told, curve, result)
            for curve, result in zip(study.curves, study.results, strict=True)
        ]


def _optuna_cut(
    told: optuna.Study, curve: Sequence[tuple[int, float]], result: float
) -> int | None:
    trial = told.ask()
    for count, (step, value) in enumerate(curve[:-1], 1):
        trial.report(value, step)
        if trial.should_prune():
            told.tell(trial, state=optuna.trial.TrialState.PRUNED)
            return count
    trial.report(curve[-1][1], curve[-1][0])
    told.tell(trial, result)
    return None


def forecast_cuts(studies: Sequence[Study]) -> list[Cuts]:
    """Told as losses, one minus the value, which is what the rule is made for."""
    python = install(Peer(FORECAST, RL, "run_forecast_rule"), ENVIRONMENTS)
    losses = [[[1.0 - value for _, value in c] for c in study.curves] for study in studies]
    with tempfile.TemporaryDirectory() as work:
        done = subprocess.run(
            [str(python), str(ADAPTERS / "run_forecast_rule.py")],
            input=json.dumps({"studies": losses}),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            cwd=work,
        )
    found: list[Cuts] = json.loads(done.stdout)
    return found
