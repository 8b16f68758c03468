"""ZeRO-3 by DeepSpeed in two CPU processes: it learns what one process does, saves, goes on and
is exported whole.

Slow, and only where DeepSpeed is installed: `scripts/beside.sh deepspeed` makes `.deepspeed`, or
ARL_DEEPSPEED names the environment.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from inner_trials import contract
from tests.integration import preference_runs, sft_runs
from tests.integration.distributed_runs import furthest, same_losses
from tests.integration.sft_runs import Trial

PYTHON = Path(os.environ.get("ARL_DEEPSPEED") or sft_runs.ROOT / ".deepspeed") / "bin" / "python"
pytestmark = [
    pytest.mark.deepspeed,
    pytest.mark.train,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not PYTHON.exists(), reason="no DeepSpeed in .deepspeed: scripts/beside.sh deepspeed"
    ),
]

BATCH = 24
STEPS: Mapping[str, Any] = {"max_steps": 6, "report_every": 1}
ALONE: Mapping[str, Any] = {**STEPS, "per_device_train_batch_size": BATCH}
LORA: Mapping[str, Any] = {"parameterization": "lora", "keep_adapter": True}


def two(processes: int = 2) -> dict[str, Any]:
    return {
        **STEPS,
        "python": PYTHON,
        # DeepSpeed compiles a kernel for the CPU once, which takes a minute.
        "variables": {"TORCH_EXTENSIONS_DIR": str(PYTHON.parents[1] / "kernels")},
        "trainer": "zero3",
        "data_parallel": processes,
        "per_device_train_batch_size": BATCH // processes,
    }


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory, task: Path) -> Trial:
    return sft_runs.train(tmp_path_factory.mktemp("single") / "a", task, **ALONE)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, task: Path) -> Trial:
    return sft_runs.train(tmp_path_factory.mktemp("whole") / "a", task, **two())


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, task: Path) -> Trial:
    directory = sft_runs.ask_to_stop(tmp_path_factory.mktemp("two") / "stopped")
    return sft_runs.train(directory, task, status=contract.EXIT_STOPPED, **two())


def test_two_processes_learn_what_one_does_and_export_the_same_files(
    whole: Trial, single: Trial
) -> None:
    assert same_losses(whole, single)
    assert furthest(whole.model, single.model) < 1e-6
    names = [sorted(p.name for p in trial.model.iterdir()) for trial in (whole, single)]
    assert names[0] == names[1]


def test_a_checkpoint_of_two_goes_on_in_two_to_bitwise_equal_weights(
    whole: Trial, stopped: Trial, task: Path, tmp_path: Path
) -> None:
    assert [path.name for path in stopped.resume.iterdir()] == ["checkpoint-1"]
    resumed = sft_runs.train(tmp_path / "resumed", task, resume=stopped.resume, **two())
    assert list(resumed.values("train/loss")) == [2, 3, 4, 5, 6]
    assert resumed.weights_digest() == whole.weights_digest()


def test_a_checkpoint_of_two_is_refused_by_three_and_by_fsdp2_with_what_to_write(
    stopped: Trial, task: Path, tmp_path: Path
) -> None:
    for name, options, words in (
        ("three", two(3), "write options.data_parallel: 2, or trainer: fsdp2"),
        ("fsdp2", {**two(), "trainer": "fsdp2"}, "write options.trainer: zero3"),
    ):
        given = {"resume": stopped.resume, **options}
        _, process = sft_runs.start(tmp_path / name, task, **given)
        log, _ = process.communicate(timeout=280)
        assert process.returncode == contract.EXIT_BAD_INPUT, log
        assert words in log


def test_lora_in_two_processes_is_merged_as_in_one(
    single: Trial, task: Path, tmp_path: Path
) -> None:
    base = single.model
    one = sft_runs.train(tmp_path / "one", task, base=base, **LORA, **ALONE)
    both = sft_runs.train(tmp_path / "two", task, base=base, **LORA, **two())
    assert same_losses(both, one)
    assert furthest(both.model, one.model) < 1e-6
    adapters = [trial.model / "adapter" / "adapter_model.safetensors" for trial in (one, both)]
    tensors = [load_file(path) for path in adapters]
    assert tensors[0].keys() == tensors[1].keys()


def test_preferences_are_learned_by_two_processes_as_by_one(task: Path, tmp_path: Path) -> None:
    pairs = preference_runs.write_pairs(task, tmp_path / "pairs")
    given = {"program": "dpo", "data": pairs, "parameterization": "lora", "max_steps": 4}
    one = sft_runs.train(tmp_path / "one", task, **{**ALONE, **given})
    both = sft_runs.train(tmp_path / "two", task, **{**two(), **given})
    assert same_losses(both, one)
    assert furthest(both.model, one.model) < 1e-5


def test_grpo_samples_in_step_and_writes_down_what_all_sampled(
    task: Path, tuned: Path, tmp_path: Path
) -> None:
    from inner_trials import rollouts

    given = {
        **{"program": "grpo", "base": tuned, "learning_rate": 1e-4, "max_steps": 2},
        **{"num_generations": 4, "max_completion_length": 8, "warmup_steps": 0},
    }
    both = sft_runs.train(tmp_path / "two", task, **{**two(), **given})
    rows = rollouts.read_rollouts(both.directory / "output" / "rollouts")
    assert len(rows) == 2 * BATCH
    assert sorted({row["group"] for row in rows}) == list(range(2 * BATCH // 4))
    assert furthest(both.model, tuned) > 0.0
