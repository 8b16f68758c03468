"""autoresearch-rl's rule that cancels running trials, with its defaults, over recorded losses.

Reads {"studies": [[[loss, ...] of a trial, ...] of a study, ...]}, writes for each trial after how
many reports it was cancelled, or null.
"""

import json
import sys

from autoresearch_rl.controller.intra_iteration import GuardConfig, IntraIterationGuard


def cancelled_at(curve: list[float], best: float | None) -> int | None:
    guard = IntraIterationGuard(
        reader=None,  # the series is handed over below
        control_path="cancel",
        metric="loss",
        direction="min",
        best_value=best,
        config=GuardConfig(),
    )
    for count in range(1, len(curve)):
        decision, _ = guard.evaluate(curve[:count])
        if decision == "cancel":
            return count
    return None


def run_study(curves: list[list[float]]) -> list[int | None]:
    best: float | None = None
    cuts: list[int | None] = []
    for curve in curves:
        cut = cancelled_at(curve, best)
        if cut is None:
            best = curve[-1] if best is None else min(best, curve[-1])
        cuts.append(cut)
    return cuts


if __name__ == "__main__":
    json.dump([run_study(curves) for curves in json.load(sys.stdin)["studies"]], sys.stdout)
