"""What the policy proposed and what came of it: from proposals under way to a rollout.

A proposal waits here until its trial ends, in whatever order trials do. It then becomes a
transition, and waits until there are enough for an update. Nothing is lost in between: both
kinds are part of the proposer's state.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ledger.digests import params_digest
from ledger.search import FinishedTrial, History
from ledger.states import TrialState
from proposers.ppo_memory import Memory, is_failure, loss_of
from proposers.ppo_rewards import reward_of

PENDING_KEPT: Final = 512
"""Proposals under way at most; beyond that the oldest teach nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One proposal of the policy's."""

    digest: str
    """Of the parameters."""
    observation: NDArray[np.float32]
    action: NDArray[np.float32]
    log_prob: float
    value: float
    """What the policy expected to earn."""
    best: float | None
    """The lowest loss when it was made."""
    unit: float
    reward: float = 0.0
    """Once its trial has ended."""


def settle(
    pending: Sequence[Step], memory: Memory, history: History
) -> tuple[list[Step], list[Step]]:
    """The proposals still under way, and those whose trials ended, in the order of finishing.

    Of trials that ended without saying anything of the point (an operator or the machine ended
    them) and of those that never were, nothing is learned.
    """
    running = {params_digest(trial.params) for trial in history.pending}
    left = [step for step in pending if step.digest in running][-PENDING_KEPT:]
    ended: list[tuple[int, Step]] = []
    for step in pending:
        place = memory.by_digest.get(step.digest)
        if place is None or step.digest in running:
            continue
        reward = _earned(step, history.finished[place], history)
        if reward is not None:
            ended.append((place, replace(step, reward=reward)))
    return left, [step for _, step in sorted(ended, key=lambda item: item[0])]


def _earned(step: Step, trial: FinishedTrial, history: History) -> float | None:
    if trial.state is TrialState.PRUNED:
        return 0.0  # it was not going to improve on the best
    loss = loss_of(trial, history)
    if loss is None and not is_failure(trial):
        return None
    return reward_of(loss, step.best, step.unit)
