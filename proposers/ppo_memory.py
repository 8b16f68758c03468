"""What the policy remembers of a study: the best trials, the latest, and a few counts.

Trials are folded one after the other in the order of finishing, never seeing how many came with
one call, so a fresh object that reads the same history remembers the same; and what is kept is
bounded, so a proposal costs the same after five thousand trials as after a hundred.

Values are kept as losses: lower is better, whatever the study's direction.
"""

import bisect
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ledger.digests import params_digest
from ledger.records import Params
from ledger.search import FinishedTrial, History, as_loss
from ledger.states import Reason, TrialState
from proposers.ppo_space import Array, UnitCube

BEST_KEPT: Final = 48
LATEST_KEPT: Final = 24
FAILURES_KEPT: Final = 8
HUGE: Final = 1e150
"""Losses from here on are scaled down before they are squared or subtracted."""

_NOT_ITS_FAULT: Final = frozenset(
    {
        Reason.EVALUATOR_ERROR,
        Reason.BUNDLE_CHANGED,
        Reason.PROPOSER_ERROR,
        Reason.LAUNCH_FAILED,
        Reason.IMAGE_MISSING,
        Reason.ATTEMPT_LOST,
        Reason.ACTORS_LOST,
        Reason.TARGET_UNAVAILABLE,
        Reason.DISK_FULL,
        Reason.ARTIFACT_CORRUPT,
        Reason.HOST_GONE,
    }
)


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """A trial with a value."""

    loss: float
    order: int
    """Its place among the trials that finished; -1: the baseline."""
    vector: Array = field(compare=False, repr=False)


@dataclass(slots=True)
class Told:
    """The rows that one proposal is made from, best first, as arrays."""

    vectors: Array
    losses: Array
    orders: Array
    failures: Array
    """Vectors of the latest failures."""


class Memory:
    """The finished trials of one study, as far as they matter."""

    def __init__(self, cube: UnitCube) -> None:
        self._cube = cube
        self._forget()

    def _forget(self) -> None:
        self.consumed = 0
        self.by_digest: dict[str, int] = {}
        """Digest of a trial's parameters to its place in `history.finished`. What proposals are
        told apart by: numbers count trials of other kinds, too."""
        self.scored = 0
        self.failed = 0
        self.stall = 0
        """Trials with a value since the last that was better than all before."""
        self.last_step: Array = np.zeros(self._cube.width)
        """From the best point before to the best now."""
        self._best: list[Row] = []
        self._latest: deque[Row] = deque(maxlen=LATEST_KEPT)
        self._failures: deque[Array] = deque(maxlen=FAILURES_KEPT)
        self._last: FinishedTrial | None = None
        self._key: tuple[float, ...] = ()

    def update(self, history: History) -> None:
        """Take in what finished since. Starts again when the history is not the one it knows."""
        # Where values are rounded to the floor, another floor means other values.
        key = (history.noise_floor if history.is_released else 0.0, *history.baseline)
        if key != self._key or not self._continues(history.finished):
            self._forget()
            self._key = key
            self._add_baseline(history)
        for place in range(self.consumed, len(history.finished)):
            trial = history.finished[place]
            self.by_digest.setdefault(params_digest(trial.params), place)
            self._add(history, trial, place)
        self.consumed = len(history.finished)
        self._last = history.finished[-1] if history.finished else None

    def _continues(self, finished: Sequence[FinishedTrial]) -> bool:
        if self.consumed == 0:
            return True
        return len(finished) >= self.consumed and finished[self.consumed - 1] == self._last

    def _add_baseline(self, history: History) -> None:
        vector = baseline_vector(self._cube, history)
        value = history.baseline_value
        if vector is None or value is None:
            return
        self._best = [Row(as_loss(value, history.objective.direction), -1, vector)]

    def _add(self, history: History, trial: FinishedTrial, place: int) -> None:
        loss = loss_of(trial, history)
        if loss is None and not is_failure(trial):
            return  # pruned, or ended by an operator: nothing is known of the point
        vector = self._cube.encode(trial.params)
        if loss is None:
            self.failed += 1
            if vector is not None:
                self._failures.append(vector)
            return
        self.scored += 1
        self.stall += 1
        if vector is None:
            return
        row = Row(loss, place, vector)
        if self._best and row.loss < self._best[0].loss:
            self.stall = 0
            self.last_step = vector - self._best[0].vector
        bisect.insort(self._best, row)
        del self._best[BEST_KEPT:]
        self._latest.append(row)

    @property
    def best(self) -> Row | None:
        return self._best[0] if self._best else None

    def latest(self, count: int) -> list[Row]:
        """The latest trials with a value, the last first."""
        return list(self._latest)[: -count - 1 : -1]

    def told(self) -> Told:
        kept = {row.order: row for row in [*self._best, *self._latest]}
        rows = sorted(kept.values())
        width = self._cube.width
        return Told(
            vectors=np.array([row.vector for row in rows]).reshape(len(rows), width),
            losses=np.array([row.loss for row in rows]),
            orders=np.array([row.order for row in rows], dtype=float),
            failures=np.array(list(self._failures)).reshape(len(self._failures), width),
        )


def loss_of(trial: FinishedTrial, history: History) -> float | None:
    """The loss of a trial that counts; None for a failure, one that breaks a constraint, or a
    value that is no number."""
    if trial.state is not TrialState.COMPLETE or trial.value is None:
        return None
    if trial.reason is Reason.INFEASIBLE or not math.isfinite(trial.value):
        return None
    return as_loss(trial.value, history.objective.direction)


def is_failure(trial: FinishedTrial) -> bool:
    """Whether the point is to blame: it failed, broke a constraint or scored no number."""
    if trial.state is TrialState.COMPLETE:
        return True
    return trial.state is TrialState.FAILED and trial.reason not in _NOT_ITS_FAULT


def baseline_vector(cube: UnitCube, history: History) -> Array | None:
    """The baseline's point, where it is one of the space and has a value."""
    if history.baseline_value is None:
        return None
    params: Params = history.baseline_params
    return cube.encode(params) if params else None


def scaled(losses: Array, floor: float) -> tuple[Array, float]:
    """Losses and noise floor divided by one number, so that differences stay finite."""
    largest = float(np.max(np.abs(losses), initial=0.0))
    if largest < HUGE:
        return losses, floor
    exponent = math.frexp(largest)[1]
    return np.ldexp(losses, -exponent), math.ldexp(floor, -exponent)
