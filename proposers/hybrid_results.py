"""What came of each arm's trials, of the latest ones, as the choice of an arm reads it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ledger.search import FinishedTrial, History, as_loss
from ledger.states import FaultClass, Reason, TrialState, fault_class
from proposers.hybrid_arms import Arm, find_arm

WINDOW: Final = 200
"""Finished trials that are looked at; what is older weighs nothing any more."""
MOST_GAIN: Final = 1e300
"""A larger one would make a sum of gains infinite."""
_NO_GAIN: Final = frozenset({Reason.INFEASIBLE, Reason.NOT_FINITE, Reason.DUPLICATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One finished trial of an arm."""

    age: int
    """How many trials of the study finished after it."""
    loss: float | None
    """Its value, lower is better; None where it could not be the best."""
    gain: float
    """By how much it beat the best before it; 0 when it did not."""
    is_failure: bool
    is_kept: bool
    wall_s: float


class Gains:
    """By how much each finished trial beat the best before it, kept from call to call.

    It depends on the history alone: a fresh object comes to the same.
    """

    def __init__(self) -> None:
        self._forget(None)

    def _forget(self, floor: float | None) -> None:
        self._floor = floor
        self._last: FinishedTrial | None = None
        self._best: float | None = None
        self.gains: list[float] = []
        """In the order of finishing."""
        self._sum, self._wins = 0.0, 0

    @property
    def usual(self) -> float:
        """The mean of those that are more than nothing."""
        return self._sum / self._wins if self._wins else 0.0

    def update(self, history: History) -> None:
        """Take in what finished since. Starts again when the history is not the one it knows."""
        floor = history.noise_floor if history.is_released else None  # it rounds every value
        known, finished = len(self.gains), history.finished
        if (
            known > len(finished)
            or floor != self._floor
            or (known and finished[known - 1] != self._last)
        ):
            self._forget(floor)
        if not self.gains:
            self._best = _baseline_loss(history)
        for index in range(len(self.gains), len(finished)):
            gain = self._gain(finished[index], history)
            self.gains.append(gain)
            self._sum += gain
            self._wins += gain > 0.0
        self._last = finished[-1] if finished else None

    def _gain(self, trial: FinishedTrial, history: History) -> float:
        loss = loss_of(trial, history)
        if loss is None or (self._best is not None and loss >= self._best):
            return 0.0
        gain = 0.0 if self._best is None else self._best - loss
        self._best = loss
        return min(gain, MOST_GAIN)


def read_outcomes(
    history: History, arms: Sequence[Arm], gains: Sequence[float]
) -> list[list[Outcome]]:
    """What came of the latest WINDOW trials by the place of the arm that made them, the latest
    first."""
    found: list[list[Outcome]] = [[] for _ in arms]
    since = max(0, len(history.finished) - WINDOW)
    for place, outcome in each_outcome(history, arms, gains, since=since):
        found[place].append(outcome)
    return found


def each_outcome(
    history: History, arms: Sequence[Arm], gains: Sequence[float] | None = None, *, since: int
) -> Iterator[tuple[int, Outcome]]:
    """What came of the trials after the first `since` with the place of the arm that made them,
    the latest first."""
    places = {arm.label: place for place, arm in enumerate(arms)}
    patchers = [place for place, arm in enumerate(arms) if arm.registered.writes_patches]
    repeated = _repeated(history) if patchers else frozenset()
    last = len(history.finished)
    for index in range(last - 1, since - 1, -1):
        trial = history.finished[index]
        if not _is_arms_doing(trial):
            continue
        outcome = Outcome(
            age=last - 1 - index,
            loss=loss_of(trial, history),
            gain=0.0 if gains is None else gains[index],
            is_failure=trial.state is TrialState.FAILED,
            is_kept=trial.kept,
            wall_s=trial.wall_s if math.isfinite(trial.wall_s) else 0.0,
        )
        if trial.reason is Reason.DUPLICATE or index in repeated:
            # Its candidate names who made it first: only patches come to the same one again.
            made_by = patchers
        else:
            place = find_arm(trial, places)
            made_by = [] if place is None else [place]
        for place in made_by:
            yield place, outcome


def loss_of(trial: FinishedTrial, history: History) -> float | None:
    """Its value, lower is better; None where it could not be the best."""
    value = trial.value
    if value is None or not math.isfinite(value) or trial.reason in _NO_GAIN:
        return None
    return as_loss(value, history.objective.direction)


def _baseline_loss(history: History) -> float | None:
    value = history.baseline_value
    return None if value is None else as_loss(value, history.objective.direction)


def _is_arms_doing(trial: FinishedTrial) -> bool:
    """Whether its end says something of the arm that suggested it."""
    if trial.state is TrialState.FAILED:
        return fault_class(trial.reason) is FaultClass.CANDIDATE
    return trial.state is not TrialState.CANCELLED


def _repeated(history: History) -> frozenset[int]:
    """Indices of finished trials whose candidate had finished before."""
    seen = {history.baseline_id}
    found: set[int] = set()
    for index, trial in enumerate(history.finished):
        if trial.candidate_id in seen:
            found.add(index)
        seen.add(trial.candidate_id)
    return frozenset(found)
