"""Made-up studies as stable-baselines3's vectorised environment, for pretraining."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from ledger.records import Direction, Objective
from ledger.search import FinishedTrial, History
from ledger.states import Reason, TrialState
from proposers.ppo_features import COLUMNS, Observation, observe
from proposers.ppo_functions import Task
from proposers.ppo_memory import Memory
from proposers.ppo_model import fold
from proposers.ppo_policy import spaces_of
from proposers.ppo_rewards import reward_of
from proposers.ppo_seen import STUDY, Seen, look
from proposers.ppo_space import Array

TRIALS: Final = (20, 100)
BATCHES: Final = (1, 1, 1, 2, 4, 8)
OBJECTIVE: Final = Objective(metric="loss", direction=Direction.MINIMIZE)


class Episode:
    """One made-up study, from its first trial to its last."""

    def __init__(self, task: Task, rng: np.random.Generator, *, trials: int, batch: int) -> None:
        self.task, self.rng = task, rng
        self.trials, self.batch = trials, batch
        self.made = 0
        self.best_true = np.inf
        """The noiseless loss of the best so far."""
        self.merit = 0.0
        self.earned = 0.0
        """What the last trial would have earned in a real study."""
        self.curve: list[float] = []
        self._memory = Memory(task.cube)
        self._finished: list[FinishedTrial] = []
        self._running: list[FinishedTrial] = []
        self._best = np.inf
        self._seen = self._look()

    def _look(self) -> Seen:
        history = History(
            objective=OBJECTIVE,
            next_number=self.made,
            finished=self._finished,
            noise_floor=self.task.noise_floor,
            trials_left=self.trials - self.made,
        )
        self._memory.update(history)
        return look(self.task.cube, self._memory, history)

    def observation(self) -> Observation:
        vectors = [self.task.cube.encode(trial.params) for trial in self._running]
        pending = np.array([v for v in vectors if v is not None])
        pending = pending.reshape(len(pending), self.task.cube.width)
        return observe(self.task.cube, self._seen, pending, self.rng)

    def step(self, action: Array) -> tuple[float, bool]:
        """Try one point: by how much the best known point has gained merit, and whether the study
        is over. Over a whole study that adds up to what it found, however it got there."""
        cube = self.task.cube
        point = cube.settle(fold(cube, (self._seen.anchor + action)[None, :]))[0]
        before = self.merit
        loss = self._measure(point)
        self.earned = reward_of(loss, self._seen.best_loss, self._seen.unit)
        self._running.append(_trial(self.made, cube.decode(point), loss))
        self.made += 1
        if len(self._running) >= self.batch or self.made >= self.trials:
            self._finished += self._running
            self._running = []
            self._seen = self._look()
        return self.merit - before, self.made >= self.trials

    def _measure(self, point: Array) -> float | None:
        true = self.task.loss(point)
        loss: float | None = None
        if self.task.fails(point) <= 0.0:
            loss = true + (self.rng.normal() * self.task.noise if self.task.noise else 0.0)
            if loss < self._best:
                self._best, self.best_true = loss, true
                self.merit = self.task.merit(true)
        self.curve.append(self.best_true)
        return loss


def _trial(number: int, params: Any, loss: float | None) -> FinishedTrial:
    is_scored = loss is not None
    return FinishedTrial(
        number=number,
        params=params,
        state=TrialState.COMPLETE if is_scored else TrialState.FAILED,
        value=loss,
        reason=Reason.WORSE if is_scored else Reason.CRASHED,
        candidate_id="",
        kept=False,
    )


class Episodes(VecEnv):  # type: ignore[misc]  # stable-baselines3's types are not followed
    """Many made-up studies side by side, each replaced by another when it is over. Rows beyond
    a study's own coordinates are empty and count nowhere."""

    def __init__(self, make: Any, count: int, width: int, seed: int) -> None:
        super().__init__(count, *spaces_of(width))
        self._make, self._width = make, width
        self._rngs = [np.random.default_rng([seed, place]) for place in range(count)]
        self._running: list[Episode] = []
        self.earned: list[float] = []
        """What the last trials would have earned in real studies."""
        self._actions: NDArray[np.float32] = np.zeros((count, width), dtype=np.float32)

    def reset(self) -> NDArray[np.float32]:
        self._running = [self._start(rng, is_first=True) for rng in self._rngs]
        return np.array([self._padded(episode) for episode in self._running])

    def _start(self, rng: np.random.Generator, *, is_first: bool = False) -> Episode:
        trials = int(rng.integers(*TRIALS))
        if is_first:  # so that they do not all end together
            trials = int(rng.integers(5, TRIALS[1]))
        batch = int(rng.choice(BATCHES))
        return Episode(self._make(rng), rng, trials=trials, batch=batch)

    def _padded(self, episode: Episode) -> NDArray[np.float32]:
        return padded(episode.observation(), self._width)

    def step_async(self, actions: NDArray[np.float32]) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        rewards = np.zeros(self.num_envs, dtype=np.float32)
        dones = np.zeros(self.num_envs, dtype=bool)
        self.earned = []
        for place, episode in enumerate(self._running):
            action = self._actions[place, : episode.task.cube.width].astype(float)
            rewards[place], dones[place] = episode.step(action)
            self.earned.append(episode.earned)
            if dones[place]:
                self._running[place] = self._start(self._rngs[place])
        observations = np.array([self._padded(episode) for episode in self._running])
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        return observations, rewards, dones, infos

    def close(self) -> None:
        return

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise AttributeError(attr_name)

    def env_method(self, method_name: str, *args: Any, **options: Any) -> list[Any]:
        raise AttributeError(method_name)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


def padded(observation: Observation, width: int) -> Observation:
    """The observation with empty rows up to `width`."""
    table = observation[: -len(STUDY)].reshape(-1, len(COLUMNS))
    full = np.zeros((width, len(COLUMNS)), dtype=np.float32)
    full[: len(table)] = table
    return np.concatenate([full.ravel(), observation[-len(STUDY) :]])
