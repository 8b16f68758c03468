"""One study's PPO: stable-baselines3's algorithm, its rollouts filled from trials.

A trial is an episode of one step: its reward comes from nothing that is proposed later, and trials
end in any order. With every step an end, generalised advantage estimation (Schulman et al., 2016)
is reward minus value, whatever its factors.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.logger import Logger
from torch import Tensor

from proposers.ppo_features import Observation
from proposers.ppo_options import PpoOptions
from proposers.ppo_policy import CubePolicy, spaces_of
from proposers.ppo_rollout import Step
from proposers.ppo_space import Array

TARGET_KL: Final = 0.05
VALUE_COEFFICIENT: Final = 0.5
PRIOR_STEPS: Final = 16
"""The size of advantages is averaged over all steps so far and so many of size 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """All that a learner learned, as flat vectors."""

    weights: NDArray[np.float32]
    first_moments: NDArray[np.float32]
    """Adam's; empty before the first update."""
    second_moments: NDArray[np.float32]
    gradient_steps: int = 0
    updates: int = 0
    steps_seen: int = 0
    squared_advantages: float = 0.0
    """Their sum over all steps seen: what advantages are divided by follows from it."""


class _Nowhere(gymnasium.Env):  # type: ignore[misc]  # gymnasium's types are not followed
    """Names the spaces; nothing is ever stepped."""

    def __init__(self, width: int) -> None:
        self.observation_space, self.action_space = spaces_of(width)


class OrderedRollout(RolloutBuffer):  # type: ignore[misc]  # not followed
    """One batch in the order of finishing, where stable-baselines3 shuffles by the process's own
    random state."""

    generator_ready: bool

    def get(self, batch_size: int | None = None) -> Generator[Any, None, None]:
        assert self.full
        if not self.generator_ready:
            for name in (
                "observations",
                "actions",
                "values",
                "log_probs",
                "advantages",
                "returns",
            ):
                setattr(self, name, self.swap_and_flatten(getattr(self, name)))
            self.generator_ready = True
        yield self._get_samples(np.arange(self.buffer_size))


class Learner:
    """A policy for spaces of one width. Uses one thread and no random state but its own."""

    def __init__(self, width: int, options: PpoOptions, *, seed: int = 0) -> None:
        torch.set_num_threads(1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.algorithm = PPO(
                CubePolicy,
                _Nowhere(width),
                learning_rate=options.learning_rate,
                n_steps=options.update_every,
                batch_size=options.update_every,
                n_epochs=options.epochs,
                clip_range=options.clip_range,
                ent_coef=options.entropy_coefficient,
                vf_coef=VALUE_COEFFICIENT,
                normalize_advantage=False,
                target_kl=TARGET_KL,
                rollout_buffer_class=OrderedRollout,
                device="cpu",
            )
        self.algorithm.set_logger(Logger(folder=None, output_formats=[]))
        self._parameters = list(self.algorithm.policy.parameters())
        self._reset_counts()

    def _reset_counts(self) -> None:
        self._updates = self._steps_seen = 0
        self._squared = 0.0

    # --- deciding ----------------------------------------------------------------------------

    def decide(self, observation: Observation) -> tuple[Array, Array, float]:
        """Mean and standard deviation of each coordinate of the action, and the value."""
        with torch.no_grad():
            means, widths, _, value = self.algorithm.policy.network(_batch(observation))
        return (
            means[0].numpy().astype(float),
            np.exp(widths[0].numpy().astype(float)),
            float(value[0, 0]),
        )

    def log_prob(self, observation: Observation, action: NDArray[np.float32]) -> float:
        with torch.no_grad():
            _, found, _ = self.algorithm.policy.evaluate_actions(
                _batch(observation), _batch(action)
            )
        return float(found[0])

    # --- learning ----------------------------------------------------------------------------

    def update(self, steps: Sequence[Step]) -> None:
        """One PPO update from as many steps as the options say."""
        self.fill(steps)
        self.algorithm.train()
        self._updates += 1

    def fill(self, steps: Sequence[Step]) -> None:
        """Make the steps the rollout that is learned from next."""
        rollout = self.algorithm.rollout_buffer
        rollout.reset()
        for step in steps:
            rollout.add(
                step.observation[None],
                step.action[None],
                np.array([step.reward]),
                np.ones(1),
                torch.tensor([[step.value]]),
                torch.tensor([step.log_prob]),
            )
        rollout.compute_returns_and_advantage(torch.zeros(1), np.ones(1))
        self._squared += float(np.square(rollout.advantages.astype(float)).sum())
        self._steps_seen += len(steps)
        mean = (PRIOR_STEPS + self._squared) / (PRIOR_STEPS + self._steps_seen)
        rollout.advantages /= np.float32(np.sqrt(mean))

    # --- what it learned -----------------------------------------------------------------------

    def knowledge(self) -> Knowledge:
        states = [self.algorithm.policy.optimizer.state.get(p, {}) for p in self._parameters]
        is_fresh = not states[0]
        return Knowledge(
            weights=_flat(self._parameters),
            first_moments=_flat([] if is_fresh else [s["exp_avg"] for s in states]),
            second_moments=_flat([] if is_fresh else [s["exp_avg_sq"] for s in states]),
            gradient_steps=0 if is_fresh else int(states[0]["step"]),
            updates=self._updates,
            steps_seen=self._steps_seen,
            squared_advantages=self._squared,
        )

    def take(self, known: Knowledge) -> None:
        """Know what that learner knew. Raises ValueError when it does not fit."""
        size = sum(p.numel() for p in self._parameters)
        for name in ("weights", "first_moments", "second_moments"):
            vector: NDArray[np.float32] = getattr(known, name)
            if len(vector) != size and (name == "weights" or len(vector)):
                raise ValueError(f"{name} has {len(vector)} numbers, not {size}")
            if not np.isfinite(vector).all():
                raise ValueError(f"{name} holds numbers that are not finite")
        optimizer = self.algorithm.policy.optimizer
        optimizer.state.clear()
        start = 0
        with torch.no_grad():
            for parameter in self._parameters:
                part = slice(start, start + parameter.numel())
                parameter.copy_(_shaped(known.weights[part], parameter))
                if len(known.first_moments):
                    optimizer.state[parameter] = {
                        "step": torch.tensor(float(known.gradient_steps)),
                        "exp_avg": _shaped(known.first_moments[part], parameter),
                        "exp_avg_sq": _shaped(known.second_moments[part], parameter),
                    }
                start = part.stop
        self._updates, self._steps_seen = known.updates, known.steps_seen
        self._squared = known.squared_advantages


def _batch(vector: NDArray[np.float32]) -> Tensor:
    return torch.from_numpy(vector)[None]


def _flat(tensors: Sequence[Tensor]) -> NDArray[np.float32]:
    if not tensors:
        return np.zeros(0, dtype=np.float32)
    flat: NDArray[np.float32] = torch.cat([t.detach().reshape(-1) for t in tensors]).numpy().copy()
    return flat


def _shaped(part: NDArray[np.float32], like: Tensor) -> Tensor:
    return torch.from_numpy(part.copy()).reshape(like.shape)
