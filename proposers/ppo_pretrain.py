"""Makes the weights that the learned policy starts from: PPO over made-up and recorded studies.

    python -m proposers.ppo_pretrain --out weights.safetensors
    python -m proposers.ppo_pretrain --out mine.safetensors --start shipped --studies export.json

The second goes on from the shipped weights with studies of one's own space, as `arl export STUDY
--format json` writes them. Everything is drawn from --seed: the same command with the same
versions on the same kind of machine gives the same file. Beside it goes a JSON document that says
how it was made.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import stable_baselines3
import torch
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger

from ledger.errors import ArlError, InvalidInput
from ledger.records import Direction
from proposers.ppo_episodes import Episodes
from proposers.ppo_functions import FAMILIES, WIDTH, Task, make_task
from proposers.ppo_policy import CubePolicy
from proposers.ppo_recorded import Recording, read_recording
from proposers.ppo_state import SHIPPED, read_weights, write_weights

STUDIES_AT_ONCE: Final = 64
STEPS: Final = 32
"""Trials of each study between two updates."""
GAMMA: Final = 0.5
"""A trial that only prepares the next few is worth something, too."""
SETTINGS: Final = {
    "n_steps": STEPS,
    "batch_size": 1024,
    "n_epochs": 4,
    "gamma": GAMMA,
    "gae_lambda": 0.9,
    "target_kl": 0.02,
    "vf_coef": 0.5,
}
LEARNING_RATE: Final = 1e-4
RECORDED_SHARE: Final = 0.5
VALUE_ROUNDS: Final = 1
VALUE_PENALTY: Final = 10.0


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    try:
        _check(options)
        recordings = [read_recording(p, Direction(options.direction)) for p in options.studies]
        start = _start(options.start)
        torch.set_num_threads(1)
        weights, facts = pretrain(
            recordings, trials=options.trials, seed=options.seed, start=start, tell=_tell
        )
    except ArlError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    out: Path = options.out
    out.write_bytes(write_weights(weights))
    facts["command"] = "python -m proposers.ppo_pretrain " + " ".join(arguments)
    facts["studies"] = [path.name for path in options.studies]
    record = json.dumps(facts, indent=2, sort_keys=True)
    out.with_suffix(".json").write_text(record + "\n", encoding="utf-8")
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m proposers.ppo_pretrain")
    parser.add_argument("--out", type=Path, required=True, help="file to write (.safetensors)")
    parser.add_argument("--trials", type=int, default=20_480, help="trials to learn from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", default="none", help="shipped, none or a file to go on from")
    parser.add_argument("--studies", type=Path, nargs="*", default=[], help="exports (json)")
    parser.add_argument("--direction", choices=["minimize", "maximize"], default="minimize")
    return parser.parse_args(arguments)


def _check(options: argparse.Namespace) -> None:
    """Raises InvalidInput for what would fail, or be of no use, only after the learning."""
    out: Path = options.out
    if out.suffix != ".safetensors":
        raise InvalidInput(f"--out {out}: write a file that ends in .safetensors")
    if not out.parent.is_dir():
        raise InvalidInput(f"--out {out}: there is no directory {out.parent}; make it first")
    for name, value, least in (("--trials", options.trials, 1), ("--seed", options.seed, 0)):
        if value < least:
            raise InvalidInput(f"{name} {value}: write a whole number from {least}")


def _start(name: str) -> NDArray[np.float32] | None:
    if name == "none":
        return None
    return read_weights(SHIPPED if name == "shipped" else Path(name))


def _tell(line: str) -> None:
    sys.stderr.write(line + "\n")


def pretrain(
    recordings: Sequence[Recording],
    *,
    trials: int,
    seed: int,
    start: NDArray[np.float32] | None,
    tell: Callable[[str], None],
    width: int = WIDTH,
) -> tuple[NDArray[np.float32], dict[str, Any]]:
    """The weights after so many trials, and how they were made."""
    width = max([width, *(recording.cube.width for recording in recordings)])

    def make(rng: np.random.Generator) -> Task:
        if recordings and rng.random() < RECORDED_SHARE:
            return recordings[int(rng.integers(len(recordings)))].task(rng)
        return make_task(rng)

    studies = Episodes(make, STUDIES_AT_ONCE, width, seed)
    algorithm = PPO(
        CubePolicy,
        studies,
        learning_rate=lambda left: LEARNING_RATE * max(left, 0.1),
        seed=seed,
        device="cpu",
        **SETTINGS,
    )
    algorithm.set_logger(Logger(folder=None, output_formats=[]))
    network = algorithm.policy.network
    if start is not None:
        _put(network, start)
    progress = _Progress(tell)
    algorithm.learn(trials, callback=progress, log_interval=None)
    _fit_value(network, studies, np.random.default_rng([seed, 1]))
    return _taken(network), {
        "seed": seed,
        "trials": algorithm.num_timesteps,
        "studies_at_once": STUDIES_AT_ONCE,
        "learning_rate": LEARNING_RATE,
        "settings": SETTINGS,
        "families": list(FAMILIES),
        "from_weights": start is not None,
        "mean_reward": progress.rewards,
        "versions": {
            "numpy": np.__version__,
            "stable_baselines3": stable_baselines3.__version__,
            "torch": torch.__version__,
        },
    }


class _Progress(BaseCallback):  # type: ignore[misc]  # stable-baselines3's types are not followed
    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell, self._began = tell, time.monotonic()
        self.rewards: list[float] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        reward = float(self.model.rollout_buffer.rewards.mean())
        self.rewards.append(round(reward, 4))
        spent = time.monotonic() - self._began
        self._tell(f"{self.num_timesteps} trials, {spent:.0f} s: reward {reward:.4f}")


def _fit_value(network: Any, studies: Episodes, rng: np.random.Generator) -> None:
    """The last layer of the value once more, by least squares, to what a trial earns in a real
    study: here the policy learned from merit, which only made-up studies know."""
    hidden: list[NDArray[np.float32]] = []
    earned: list[float] = []
    observations = studies.reset()
    for _ in range(VALUE_ROUNDS * STEPS):
        with torch.no_grad():
            means, widths, _, _ = network(torch.from_numpy(observations))
            hidden.append(network.pooled(torch.from_numpy(observations)).numpy())
        noise = rng.normal(size=means.shape)
        actions = means.numpy() + widths.exp().numpy() * noise
        studies.step_async(actions.astype(np.float32))
        observations = studies.step_wait()[0]
        earned += studies.earned
    inputs = np.vstack(hidden).astype(float)
    inputs = np.hstack([inputs, np.ones((len(inputs), 1))])
    square = inputs.T @ inputs + VALUE_PENALTY * np.eye(inputs.shape[1])
    found = np.linalg.solve(square, inputs.T @ np.array(earned))
    with torch.no_grad():
        network.value.weight.copy_(torch.from_numpy(found[None, :-1]))
        network.value.bias.copy_(torch.from_numpy(found[-1:]))


def _put(network: Any, weights: NDArray[np.float32]) -> None:
    torch.nn.utils.vector_to_parameters(torch.from_numpy(weights.copy()), network.parameters())


def _taken(network: Any) -> NDArray[np.float32]:
    vector = torch.nn.utils.parameters_to_vector(network.parameters())
    taken: NDArray[np.float32] = vector.detach().numpy().copy()
    return taken


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
