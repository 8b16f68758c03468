"""What preferences and best-of-N teach, over five seeds: gains with their 95 % intervals."""

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evaluator.statistics import mean_interval
from examples import demo_inputs
from inner_trials import demo_task
from tests.integration import preference_runs, sft_runs
from tests.integration.sft_runs import ROOT, Trial

pytestmark = [pytest.mark.train, pytest.mark.slow, pytest.mark.timeout(3600)]

SEEDS = range(5)
AT_ONCE = 2
REWARD = {**demo_inputs.REWARD, "max_length": 64}
DPO = {**preference_runs.OPTIONS, "max_steps": 60, "report_every": 60}
BEST = {
    "parameterization": "lora",
    "learning_rate": 2e-3,
    "samples": 8,
    "temperature": 0.8,
    "max_new_tokens": 8,
    "sample_batch_size": 128,
}


@dataclass(frozen=True, slots=True)
class Found:
    """What one seed gave."""

    pair_accuracy: float
    dpo_margin: float
    dpo_win_rate: float
    dpo_gain: float
    best_gain: float
    judged_gain: float


@dataclass(frozen=True, slots=True)
class Seed:
    """One seed's runs, each in a directory of its own."""

    root: Path
    task: Path
    seed: int

    def train(self, name: str, **settings: Any) -> Trial:
        return sft_runs.train(self.root / name, self.task, seed=self.seed, **settings)

    def score(self, name: str, program: str, model: Path, split: Path, **brings: Path) -> float:
        options = {} if program == "pair_accuracy" else {"max_new_tokens": 8}
        brings["tokenizer"] = self.task / "evaluator" / "tokenizer"
        status, document, log = sft_runs.score(
            self.root / name, program, model, split, brings, **options
        )
        assert status == 0, log
        metrics = document["metrics"]
        assert isinstance(metrics, dict)
        return float(metrics[program])

    def run(self) -> Found:
        """A base that half knows the task, and everything else from there."""
        items, rows = self.task / "evaluator" / "search.jsonl", self.task / "data" / "train.jsonl"
        base = self.train("base").model
        (self.root / "made").mkdir()
        for given, name in ((rows, "train"), (items, "heldout")):
            argv = [sys.executable, "-m", "examples.own_mistakes", str(base), str(given)]
            path = self.root / "made" / f"{name}.jsonl"
            subprocess.run([*argv, str(path)], cwd=ROOT, check=True, timeout=280)
        pairs = {name: self.root / "made" / f"{name}.jsonl" for name in ("train", "heldout")}
        reward = self.train(
            "reward", program="reward_model", base=base, data={"train": pairs["train"]}, **REWARD
        ).model
        corrupted = preference_runs.write_pairs(self.task, self.root / "corrupted")
        dpo = self.train("dpo", program="dpo", base=base, data=corrupted, **DPO)
        best = self.train("best", program="rejection_sampling", base=base, **BEST)
        judge = {"train": self.task / "data", "reward": reward}
        judged = self.train("judged", program="rejection_sampling", base=base, data=judge, **BEST)
        before = self.score("score-base", "exact_match", base, items)
        models = {"dpo": dpo.model, "best": best.model, "judged": judged.model}
        gains = {
            name: self.score(f"score-{name}", "exact_match", model, items) - before
            for name, model in models.items()
        }
        return Found(
            pair_accuracy=self.score("ranks", "pair_accuracy", reward, pairs["heldout"]),
            dpo_margin=dpo.values("heldout/preference_margin")[60],
            dpo_win_rate=self.score(
                "wins", "win_rate", dpo.model, items, reward=reward, incumbent=base
            ),
            dpo_gain=gains["dpo"],
            best_gain=gains["best"],
            judged_gain=gains["judged"],
        )


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Found]:
    root = tmp_path_factory.mktemp("learning")
    demo_task.write_task(root / "task")
    seeds = [Seed(root / str(seed), root / "task", seed) for seed in SEEDS]
    for seed in seeds:
        seed.root.mkdir()
    results = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for result in pool.map(Seed.run, seeds):
            print(result, flush=True)
            results.append(result)
    return results


def check_above(found: Sequence[Found], name: str, least: float) -> None:
    """The whole 95 % interval of the mean over seeds lies above `least`."""
    values = [getattr(one, name) for one in found]
    interval = mean_interval(values)
    print(f"{name}: {interval.low:+.3f} to {interval.high:+.3f}", flush=True)
    assert interval.low > least, (name, values)


def test_a_reward_model_ranks_held_out_pairs(found: list[Found]) -> None:
    check_above(found, "pair_accuracy", 0.7)


def test_dpo_widens_the_held_out_margin_and_wins_over_its_base(found: list[Found]) -> None:
    check_above(found, "dpo_margin", 0.0)
    check_above(found, "dpo_win_rate", 0.5)
    check_above(found, "dpo_gain", 0.0)


def test_the_best_of_eight_by_a_verifier_teaches_more_than_the_base_knew(
    found: list[Found],
) -> None:
    check_above(found, "best_gain", 0.0)


def test_the_best_of_eight_by_a_reward_model_teaches_more_than_the_base_knew(
    found: list[Found],
) -> None:
    check_above(found, "judged_gain", 0.0)
