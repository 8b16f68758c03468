"""Every program that trains a language model says what it forgets and what it over-optimises."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration import sft_runs

pytestmark = pytest.mark.train

ONLINE: dict[str, Any] = {
    "per_device_train_batch_size": 8,
    "max_completion_length": 8,
    "warmup_steps": 0,
}
PROGRAMS: dict[str, dict[str, Any]] = {
    "sft": {},
    "grpo": {**ONLINE, "num_generations": 4},
    "ppo": {**ONLINE, "rollout_batch_size": 8},
    "rejection_sampling": {"samples": 2, "max_new_tokens": 8, "min_reward": 0.5},
}
"""dpo is in test_preference_training; a reward model has no likelihood to lose."""


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_forgetting_and_what_the_proxy_hides_are_reported(
    program: str, task: Path, tuned: Path, tmp_path: Path
) -> None:
    inputs = {"train": task / "data", "fixed": task / "data"}
    if program == "rejection_sampling":
        few = tmp_path / "few.jsonl"
        rows = (task / "data" / "train.jsonl").read_text().splitlines(keepends=True)
        few.write_text("".join(rows[:64]))
        inputs["train"] = few
    else:
        inputs["heldout"] = tmp_path / "heldout.jsonl"
        rows = (task / "evaluator" / "holdout.jsonl").read_text().splitlines(keepends=True)[:64]
        text = "".join(rows)
        inputs["heldout"].write_text(
            text.replace('"answer"', '"completion"') if program == "sft" else text
        )
    trial = sft_runs.train(
        tmp_path / "a",
        task,
        program=program,
        base=tuned,
        data=inputs,
        max_steps=2,
        guard_every=1,
        report_every=1,
        **PROGRAMS[program],
    )
    assert list(trial.values("guard/forgetting")) == [1, 2]
    assert list(trial.values("guard/fixed_loss")) == [1, 2]
    if program == "sft":
        assert list(trial.values("guard/overfit_loss")) == [1, 2]
    elif program != "rejection_sampling":
        # grpo's first measurement comes before the first reward is reported.
        assert 2 in trial.values("guard/over_optimised")
