"""Pruners of Optuna's over trials made up from curves: ASHA, Hyperband, and the signed-rank test.

Optuna notes in a trial's attributes which rungs it has passed, and with what value. Here they
are worked out from the curves each time, so that nothing has to be kept.
"""

import math
import warnings
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final, cast

import optuna
from optuna.pruners import BasePruner, SuccessiveHalvingPruner, WilcoxonPruner
from optuna.storages import InMemoryStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from evaluator.pruning_curves import OtherCurve, PackedCurve, unpack
from evaluator.pruning_rungs import Rungs, passed_rungs
from ledger.records import Direction

COMPETITORS: Final = 512
"""Rungs are competed for by so many latest trials."""
FEWEST_PAIRS: Final = 6
"""Nothing is found from fewer steps in common."""

optuna.logging.set_verbosity(optuna.logging.ERROR)


class _Shown(InMemoryStorage):  # type: ignore[misc]  # Optuna's types are not followed
    """Shows a pruner the trials it is given; what it notes about them is dropped."""

    def __init__(self, trials: Sequence[FrozenTrial]) -> None:
        super().__init__()
        self._shown = trials

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,  # noqa: FBT001, FBT002 - Optuna's signature
        states: object = None,
    ) -> list[FrozenTrial]:
        if states is None:
            return list(self._shown)
        chosen = cast("Container[object]", states)
        return [trial for trial in self._shown if trial.state in chosen]

    def get_best_trial(self, study_id: int) -> FrozenTrial:
        complete = [trial for trial in self._shown if trial.state is TrialState.COMPLETE]
        if not complete:
            raise ValueError("no trial is complete")
        return max(complete, key=lambda trial: trial.values[0])

    def set_trial_system_attr(self, trial_id: int, key: str, value: object) -> None:
        return


def _prunes(pruner: BasePruner, trials: Sequence[FrozenTrial], trial: FrozenTrial) -> bool:
    study: Study = optuna.create_study(
        storage=_Shown(trials), study_name="arl", direction="maximize", pruner=pruner
    )
    return bool(pruner.prune(study, trial))


def _trial(
    number: int,
    state: TrialState,
    points: Iterable[tuple[float, float]],
    *,
    value: float | None = None,
    rungs: Mapping[str, float] | None = None,
) -> FrozenTrial:
    return FrozenTrial(
        number=number,
        trial_id=number,
        state=state,
        value=value,
        datetime_start=None,
        datetime_complete=None,
        params={},
        distributions={},
        user_attrs={},
        system_attrs=dict(rungs or {}),
        intermediate_values={int(step): value for step, value in points},
    )


# --- rungs ---------------------------------------------------------------------------------------


def misses_rung(
    curve: Sequence[tuple[int, float]],
    others: Sequence[OtherCurve],
    direction: Direction,
    *,
    rungs: Rungs,
    bracket: int = 0,
    once: bool = True,
) -> bool:
    """Whether the trial is not among the best 1 / factor of all that have reached a rung (ASHA:
    Li et al., 2020), by what each first reported at or after it. `curve` is higher where better.

    With `once` only the rung just reached is looked at, so that a trial is judged once at each;
    otherwise every rung it has passed, by those that have reached it by now.
    """
    steps = rungs.steps(bracket)
    arrivals = [c for c in ([curve] if once else _arrivals(curve, steps)) if _arrives(c, steps)]
    if not arrivals:
        return False
    rivals = [
        _trial(
            place, TrialState.COMPLETE, (), rungs=passed_rungs(unpack(o.packed, direction), steps)
        )
        for place, o in enumerate(others[-COMPETITORS:])
    ]
    pruner = SuccessiveHalvingPruner(
        min_resource=rungs.first,
        reduction_factor=rungs.factor,
        min_early_stopping_rate=bracket,
    )
    for points in arrivals:
        own = passed_rungs(points[:-1], steps)
        trial = _trial(len(rivals), TrialState.RUNNING, points, rungs=own)
        if _prunes(pruner, [*rivals, trial], trial):
            return True
    return False


def _arrivals(
    curve: Sequence[tuple[int, float]], steps: Sequence[int]
) -> Iterable[Sequence[tuple[int, float]]]:
    """The curve as it stood when each rung was reached."""
    for rung in steps:
        end = next((place for place, (step, _) in enumerate(curve) if step >= rung), None)
        if end is not None:
            yield curve[: end + 1]


def _arrives(curve: Sequence[tuple[int, float]], steps: Sequence[int]) -> bool:
    """Whether the latest report is the first at or after a rung."""
    latest = curve[-1][0]
    if latest <= max((step for step, _ in curve[:-1]), default=-1):
        return False
    return sum(step <= latest for step in steps) > len(passed_rungs(curve[:-1], steps))


def misses_bracket_rung(
    curve: Sequence[tuple[int, float]],
    others: Sequence[OtherCurve],
    direction: Direction,
    *,
    rungs: Rungs,
    number: int,
    once: bool = True,
) -> bool:
    """The same among the trials of its Hyperband bracket."""
    bracket = rungs.bracket_of(number)
    rivals = [other for other in others if rungs.bracket_of(other.number) == bracket]
    return misses_rung(curve, rivals, direction, rungs=rungs, bracket=bracket, once=once)


# --- signed-rank test ----------------------------------------------------------------------------


def fails_wilcoxon(
    curve: Sequence[tuple[int, float]],
    finished: Sequence[PackedCurve],
    direction: Direction,
    *,
    p_threshold: float,
) -> bool:
    """Whether a signed-rank test finds the trial worse than the one with the best mean, step by
    step: for reports that are items of one kind, like folds or problems, in the same order."""
    trials = []
    for place, packed in enumerate(finished[-COMPETITORS:]):
        points = unpack(packed, direction)
        mean = math.fsum(value for _, value in points) / len(points)
        trials.append(_trial(place, TrialState.COMPLETE, points, value=mean))
    trial = _trial(len(trials), TrialState.RUNNING, curve)
    with warnings.catch_warnings():  # that it is experimental, and that steps are missing
        warnings.simplefilter("ignore")
        pruner = WilcoxonPruner(p_threshold=p_threshold, n_startup_steps=FEWEST_PAIRS)
        return _prunes(pruner, [*trials, trial], trial)
