"""What the samplers know: finished trials as Optuna's, bounded in number however long a study.

Samplers of Optuna read every trial at every step. Here a study's trials are folded in the order
of finishing, and once more than 5/4 of `cap` are kept, all but `cap` are dropped: the best and
the latest stay, and of the others every so-and-so-manyth. The fold takes one trial after the
other and never sees how many came with one call, so a fresh object comes to the same trials.

Values are told to Optuna as losses: lower is better, whatever the study's direction.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from optuna.study._multi_objective import _fast_non_domination_rank
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as OptunaState

from ledger.digests import params_digest
from ledger.records import Params
from ledger.search import FinishedTrial, History, as_loss
from ledger.states import Reason, TrialState
from proposers.optuna_space import CodedSpace, Number

_BEST_SHARE: Final = 0.25
_LATEST_SHARE: Final = 0.25
_EXCESS_CAP: Final = 1e30
"""How much a constraint is broken by a score that is not even finite."""


class Memory:
    """The finished trials of one study that samplers are shown."""

    def __init__(self, space: CodedSpace, *, cap: int, imputes: bool) -> None:
        self._space = space
        self._cap = cap
        self._imputes = imputes
        self._forget()

    def _forget(self) -> None:
        self.kept: list[FrozenTrial] = []
        """Those with a value, and those that were pruned, in the order of finishing."""
        self.by_digest: dict[str, FrozenTrial] = {}
        """Those with a value by the digest of their parameters, none dropped."""
        self.best: FrozenTrial | None = None
        """The first of the lowest ones that break no constraint."""
        self._consumed = 0
        self._last: FinishedTrial | None = None
        self._floor: float | None = None

    def update(self, history: History) -> None:
        """Take in what finished since. Starts again when the history is not the one it knows."""
        floor = history.noise_floor if history.is_released else None
        if not self._continues(history.finished) or floor != self._floor:
            self._forget()
            self._floor = floor
        for index in range(self._consumed, len(history.finished)):
            self._add(history, history.finished[index], index + 1)
        self._consumed = len(history.finished)
        self._last = history.finished[-1] if history.finished else None

    def _continues(self, finished: Sequence[FinishedTrial]) -> bool:
        if self._consumed == 0:
            return True
        return len(finished) >= self._consumed and finished[self._consumed - 1] == self._last

    def _add(self, history: History, trial: FinishedTrial, number: int) -> None:
        told = told_trial(history, trial, self._space, imputes=self._imputes)
        if told is None:
            return
        told.number = number
        if told.state is OptunaState.COMPLETE:
            self.by_digest.setdefault(params_digest(trial.params), told)
            if not excess_of(told) and (self.best is None or told.values < self.best.values):
                self.best = told
        if not self._cap:
            return
        self.kept.append(told)
        if len(self.kept) > self._cap + self._cap // 4:
            self.kept = _reduced(self.kept, self._cap)

    def baseline(self, history: History) -> FrozenTrial | None:
        """The study's baseline as a finished trial, where one value says all of it."""
        value = history.baseline_value
        if value is None or history.further or history.constraints:
            return None
        numbers = self._space.encode(history.baseline_params, imputes=self._imputes)
        if numbers is None:
            return None
        values = [as_loss(value, history.objective.direction)]
        return make_trial(self._space, numbers, OptunaState.COMPLETE, values)

    def running(self, points: Iterable[Params]) -> list[FrozenTrial]:
        """Points that are being tried, as Optuna's running trials."""
        encoded = [self._space.encode(point, imputes=self._imputes) for point in points]
        return [
            make_trial(self._space, numbers, OptunaState.RUNNING, number=self._consumed + place)
            for place, numbers in enumerate(encoded, 1)
            if numbers is not None
        ]


def told_trial(
    history: History, trial: FinishedTrial, space: CodedSpace, *, imputes: bool
) -> FrozenTrial | None:
    """One finished trial as Optuna's; None for one that samplers learn nothing from: a failure,
    one outside the space, or one that lacks a value of some objective."""
    if trial.state not in (TrialState.COMPLETE, TrialState.PRUNED):
        return None
    numbers = space.encode(trial.params, imputes=imputes)
    if numbers is None:
        return None
    if trial.state is TrialState.PRUNED:
        return make_trial(space, numbers, OptunaState.PRUNED)
    values = _losses(history, trial)
    if values is None:
        return None
    told = make_trial(space, numbers, OptunaState.COMPLETE, values)
    for constraint in history.constraints:
        score = trial.scores.get(constraint.metric)
        if score is None:
            excess = 1.0 if trial.reason is Reason.INFEASIBLE else 0.0
        else:
            excess = constraint.excess(score)
        told.set_constraint(constraint.metric, min(max(excess, -_EXCESS_CAP), _EXCESS_CAP))
    return told


def _losses(history: History, trial: FinishedTrial) -> list[float] | None:
    if trial.value is None or not math.isfinite(trial.value):
        return None
    losses = [as_loss(trial.value, history.objective.direction)]
    for objective in history.further:
        score = trial.scores.get(objective.metric)
        if score is None or not math.isfinite(score):
            return None
        losses.append(as_loss(score, objective.direction))
    return losses


def make_trial(
    space: CodedSpace,
    numbers: dict[str, Number],
    state: OptunaState,
    values: Sequence[float] | None = None,
    *,
    number: int = 0,
    attributes: dict[str, object] | None = None,
) -> FrozenTrial:
    """A trial of Optuna's; its place in the order of finishing is its number."""
    return FrozenTrial(
        number=number,
        trial_id=number,
        state=state,
        value=None,
        values=values,
        datetime_start=None,
        datetime_complete=None,
        params=dict(numbers),
        distributions=space.distributions(tuple(numbers)),
        user_attrs={},
        system_attrs=dict(attributes or {}),
        intermediate_values={},
    )


def excess_of(trial: FrozenTrial) -> float:
    """By how much a trial breaks its constraints in all; 0 when it breaks none."""
    return math.fsum(value for value in trial.constraints.values() if value > 0.0)


def _reduced(trials: list[FrozenTrial], cap: int) -> list[FrozenTrial]:
    latest = round(cap * _LATEST_SHARE)
    older = trials[:-latest]
    best = set(_best(older, round(cap * _BEST_SHARE)))
    others = [place for place in range(len(older)) if place not in best]
    left = cap - latest - len(best)
    stride = len(others) / left
    chosen = best | {others[int(i * stride)] for i in range(left)}
    return [older[place] for place in sorted(chosen)] + trials[-latest:]


def _best(trials: Sequence[FrozenTrial], count: int) -> list[int]:
    """Places of the best with a value; those that break a constraint come last."""
    places = [i for i, trial in enumerate(trials) if trial.values is not None]
    if not places:
        return []
    losses = np.array([trials[i].values for i in places])
    excess = np.array([excess_of(trials[i]) for i in places])
    if losses.shape[1] == 1:
        order = np.lexsort((losses[:, 0], excess))
    else:
        ranks = _fast_non_domination_rank(losses, penalty=excess, n_below=min(count, len(places)))
        order = np.lexsort((losses[:, 0], ranks))
    return [places[i] for i in order[:count]]
