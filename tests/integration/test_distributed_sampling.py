"""Programs that sample, in several processes: in step, to the answers of one, kept once."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from inner_trials import contract, grpo_settings, rollouts
from inner_trials.settings import SettingsError, read_settings
from tests.integration import sft_runs
from tests.integration.distributed_runs import furthest, same_losses

pytestmark = pytest.mark.train

TWO: Mapping[str, Any] = {
    "trainer": "fsdp2",
    "data_parallel": 2,
    "per_device_train_batch_size": 16,
}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"generation": "vllm_colocated"}, "options.generation: vllm_colocated with trainer"),
        ({"environment": "retry"}, "options.environment: retry with trainer: fsdp2"),
        ({"share_prefix": True}, "options.share_prefix: True"),
    ],
)
def test_what_ranks_cannot_sample_in_step_is_refused(options: dict[str, Any], words: str) -> None:
    settings = read_settings(grpo_settings.Settings, {"options": {**TWO, **options}})
    with pytest.raises(SettingsError, match=words):
        grpo_settings.check_split(settings, has_start=False)


@pytest.mark.slow
def test_grpo_in_two_processes_learns_from_what_both_sample(
    task: Path, tuned: Path, tmp_path: Path
) -> None:
    given = {
        **{"program": "grpo", "base": tuned, "parameterization": "lora", "learning_rate": 5e-4},
        **{"num_generations": 8, "max_completion_length": 8, "warmup_steps": 0},
        **{"max_steps": 40, "report_every": 1, "data": sft_runs.with_heldout(task)},
    }
    two = sft_runs.train(
        tmp_path / "two", task, **{**TWO, **given, "per_device_train_batch_size": 32}
    )
    rows = rollouts.read_rollouts(two.directory / "output" / "rollouts")
    assert len(rows) == 40 * 64
    groups = Counter(row["group"] for row in rows)
    assert groups == dict.fromkeys(range(40 * 64 // 8), 8)
    assert all(row["behaviour_logprobs"] == pytest.approx(row["trainer_logprobs"]) for row in rows)
    held = two.values("heldout/reward")
    print(f"held-out reward {held[0]:.3f} -> {held[40]:.3f}")
    assert held[40] > held[0] + 0.03


@pytest.mark.slow
def test_grpo_in_two_processes_stops_together_and_goes_on(
    task: Path, tuned: Path, tmp_path: Path
) -> None:
    given = {
        **{"program": "grpo", "base": tuned, "learning_rate": 1e-4, "num_generations": 4},
        **{"max_completion_length": 8, "warmup_steps": 0, "max_steps": 3, "report_every": 1},
    }
    stopped = sft_runs.train(
        sft_runs.ask_to_stop(tmp_path / "stopped"),
        task,
        status=contract.EXIT_STOPPED,
        **{**TWO, **given},
    )
    resumed = sft_runs.train(tmp_path / "resumed", task, resume=stopped.resume, **{**TWO, **given})
    assert list(resumed.values("train/loss")) == [2, 3]
    rows = rollouts.read_rollouts(resumed.directory / "output" / "rollouts")
    assert Counter(row["policy_version"] for row in rows) == {0: 32, 1: 32, 2: 32}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sft", "dpo"])
def test_rejection_sampling_in_two_processes_keeps_and_learns_what_one_does(
    kind: str, task: Path, tuned: Path, tmp_path: Path
) -> None:
    given = {
        **{"program": "rejection_sampling", "base": tuned, "data_set": kind, "max_steps": 4},
        **{"report_every": 1, "prompts_limit": 96, "samples": 4, "sample_batch_size": 16},
        **{"max_new_tokens": 8},
    }
    one = sft_runs.train(tmp_path / "one", task, **{**given, "per_device_train_batch_size": 8})
    two = sft_runs.train(
        tmp_path / "two", task, **{**TWO, **given, "per_device_train_batch_size": 4}
    )
    for name in ("rows.jsonl", "lineage.json"):
        kept = [trial.model / "data_set" / name for trial in (one, two)]
        assert kept[0].read_text() == kept[1].read_text()
    assert same_losses(two, one)
    assert furthest(two.model, one.model) < 1e-5
