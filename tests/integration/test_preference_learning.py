"""What preferences and best-of-N teach, over five seeds: gains with their 95 % intervals."""

import subprocess
import sys
from collections.abc import Sequence
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

SEEDS = range(1, 6)
"""Settings were tried on seed 0 alone."""
REWARD = {**demo_inputs.REWARD, "max_length": 64}
DPO = {**preference_runs.OPTIONS, "learning_rate": 2e-4, "max_steps": 60, "report_every": 60}
"""On corrupted answers. At 5e-4 it is over-optimised: the model forgets how to end an answer."""
RPO = {**DPO, "learning_rate": 1e-3, "sft_weight": 1.0}
"""On the base's own mistakes. Without sft_weight the margin widens while right answers get lost:
those differ from the wrong ones in so little that the likelihoods of both fall."""
BEST = {
    "parameterization": "lora",
    "learning_rate": 2e-3,
    "samples": 8,
    "temperature": 0.8,
    "max_new_tokens": 8,
    "sample_batch_size": 128,
    "prompts_limit": 1000,
}
UNCHOSEN = {**BEST, "samples": 1, "min_reward": 0.0}
"""The control: the base's first answer to each prompt, right or wrong."""


@dataclass(frozen=True, slots=True)
class Found:
    """What one seed gave; a gain is in the share of held-out items answered exactly."""

    base: float
    pair_accuracy: float
    dpo_margin: float
    dpo_win_rate: float
    dpo_gain: float
    rpo_margin: float
    rpo_win_rate: float
    rpo_gain: float
    best_gain: float
    judged_gain: float
    unchosen_gain: float

    @property
    def choice(self) -> float:
        """What choosing by the verifier adds to sampling and training alone."""
        return self.best_gain - self.unchosen_gain

    @property
    def judges_choice(self) -> float:
        """The same of choosing by the reward model."""
        return self.judged_gain - self.unchosen_gain


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
        self.root.mkdir()
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
        rpo = self.train("rpo", program="dpo", base=base, data=pairs, **RPO)
        best = self.train("best", program="rejection_sampling", base=base, **BEST)
        judge = {"train": self.task / "data", "reward": reward}
        judged = self.train("judged", program="rejection_sampling", base=base, data=judge, **BEST)
        unchosen = self.train("first", program="rejection_sampling", base=base, **UNCHOSEN)
        before = self.score("score-base", "exact_match", base, items)
        trials = {"dpo": dpo, "rpo": rpo, "best": best, "judged": judged, "first": unchosen}
        gains = {
            name: self.score(f"score-{name}", "exact_match", trial.model, items) - before
            for name, trial in trials.items()
        }
        judges = {"reward": reward, "incumbent": base}
        wins = {
            name: self.score(f"wins-{name}", "win_rate", trials[name].model, items, **judges)
            for name in ("dpo", "rpo")
        }
        return Found(
            base=before,
            pair_accuracy=self.score("ranks", "pair_accuracy", reward, pairs["heldout"]),
            dpo_margin=dpo.values("heldout/preference_margin")[60],
            dpo_win_rate=wins["dpo"],
            dpo_gain=gains["dpo"],
            rpo_margin=rpo.values("heldout/preference_margin")[60],
            rpo_win_rate=wins["rpo"],
            rpo_gain=gains["rpo"],
            best_gain=gains["best"],
            judged_gain=gains["judged"],
            unchosen_gain=gains["first"],
        )


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Found]:
    root = tmp_path_factory.mktemp("learning")
    demo_task.write_task(root / "task")
    seeds = [Seed(root / str(seed), root / "task", seed) for seed in SEEDS]
    results = []
    for seed in seeds:
        results.append(seed.run())
        print(results[-1], flush=True)
    return results


def check_above(found: Sequence[Found], name: str, least: float) -> None:
    """The whole 95 % interval of the mean over seeds lies above `least`."""
    values = [getattr(one, name) for one in found]
    interval = mean_interval(values)
    mean = sum(values) / len(values)
    print(f"{name}: {mean:+.3f} ({interval.low:+.3f} to {interval.high:+.3f})", flush=True)
    assert interval.low > least, (name, values)


def test_a_reward_model_ranks_held_out_pairs(found: list[Found]) -> None:
    check_above(found, "pair_accuracy", 0.7)


@pytest.mark.parametrize("kind", ["dpo", "rpo"])
def test_dpo_widens_the_held_out_margin_and_wins_over_its_base(
    found: list[Found], kind: str
) -> None:
    check_above(found, f"{kind}_margin", 0.0)
    check_above(found, f"{kind}_win_rate", 0.5)
    check_above(found, f"{kind}_gain", 0.0)


def test_the_best_of_eight_by_a_verifier_teaches_more_than_the_base_knew(
    found: list[Found],
) -> None:
    check_above(found, "best_gain", 0.0)
    check_above(found, "choice", 0.0)


def test_the_best_of_eight_by_a_reward_model_teaches_more_than_the_base_knew(
    found: list[Found],
) -> None:
    check_above(found, "judged_gain", 0.0)
    check_above(found, "judges_choice", 0.0)
