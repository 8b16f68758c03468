"""Curves of what trials reported while they ran."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from controller.plots.columns import short
from ledger.plot_reads import Reported
from ledger.records import Json
from ledger.sampling import kept_positions

MOST_VALUES: Final = 60_000
"""Read for one plot, whatever metrics they are of."""
MOST_POINTS: Final = 8_000
"""Of all curves of one answer."""


def affordable(trials: Sequence[Reported]) -> list[Reported]:
    """The first of them that can be read in time; always one."""
    found: list[Reported] = []
    left = MOST_VALUES
    for trial in trials:
        left -= trial.values
        if left < 0 and found:
            break
        found.append(trial)
    return found


def intermediate(
    trials: Sequence[Reported],
    values: Iterable[tuple[str, int, float]],
    metric: str,
    of: int,
) -> dict[str, Json]:
    """A curve for each trial that reported the metric, of (trial id, step, value); non-finite
    values are gaps."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for trial_id, step, value in values:
        curves.setdefault(trial_id, []).append((step, value))
    shown = [trial for trial in trials if trial.trial_id in curves]
    points = max(10, MOST_POINTS // max(1, len(shown)))
    return {
        "metric": metric,
        "of": of,
        "sampled": len(trials) < of or any(len(c) > points for c in curves.values()),
        "curves": [_curve(trial, curves[trial.trial_id], points) for trial in shown],
    }


def _curve(trial: Reported, curve: Sequence[tuple[int, float]], points: int) -> dict[str, Json]:
    finite = [value if math.isfinite(value) else None for _, value in curve]
    kept = kept_positions(finite, points)
    values = [finite[i] for i in kept]
    return {
        "trial": trial.trial_id,
        "number": trial.number,
        "state": str(trial.state),
        "verdict": None if trial.verdict is None else str(trial.verdict),
        "steps": [curve[i][0] for i in kept],
        "values": [None if value is None else short(value) for value in values],
    }
