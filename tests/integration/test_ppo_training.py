"""The PPO program really trains: it learns, repeats, resumes to the bit and stops when asked."""

import json
from pathlib import Path

import pytest

from inner_trials import contract, rollouts
from tests.integration import sft_runs
from tests.integration.sft_runs import Trial

pytestmark = pytest.mark.train

OPTIONS: dict[str, object] = {
    "parameterization": "lora",
    "learning_rate": 5e-4,
    "max_steps": 4,
    "per_device_train_batch_size": 32,
    "rollout_batch_size": 32,
    "epochs": 2,
    "max_completion_length": 8,
    "warmup_steps": 0,
}


def ppo(directory: Path, task: Path, base: Path, **settings: object) -> Trial:
    given = {**OPTIONS, **settings}
    return sft_runs.train(directory, task, program="ppo", base=base, **given)  # type: ignore[arg-type]


def test_a_run_reports_its_health_and_leaves_model_and_record(task: Path, tmp_path: Path) -> None:
    trial = ppo(
        tmp_path / "a", task, task / "base", data=sft_runs.with_heldout(task), format_weight=0.5
    )
    for name in (
        "train/reward",
        "train/loss",
        "train/policy_loss",
        "train/value_loss",
        "train/grad_norm",
        "health/entropy",
        "health/kl",
        "health/clip_fraction",
        "health/importance_ratio_max",
        "health/truncated",
        "health/well_formed",
    ):
        assert list(trial.values(name)) == [1, 2, 3, 4], name
    assert trial.values("health/kl")[1] == pytest.approx(0.0, abs=1e-6)
    assert trial.values("health/kl")[4] > 0.0
    assert list(trial.values("heldout/reward")) == [0, 4]
    assert (trial.model / "model.safetensors").is_file()
    rows = rollouts.read_rollouts(trial.directory / "output" / "rollouts")
    assert [row["policy_version"] for row in rows] == [n // 32 for n in range(4 * 32)]
    assert rows[0]["reference_logprobs"] == pytest.approx(rows[0]["behaviour_logprobs"], abs=1e-6)
    said = json.loads((trial.directory / "output" / "facts" / "run.json").read_text())
    assert said["policy_versions"] == {"first": 0, "last": 3}
    assert said["checkpoints"]["last_step"] == 4
    assert said["reward"]["judge"] == rows[0]["verifier"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"parameterization": "full", "learning_rate": 1e-4, "lr_scheduler_type": "linear"},
        {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 8, "value_clip": 0.2},
    ],
    ids=["lora", "full", "accumulation"],
)
def test_a_run_killed_between_checkpoints_resumes_to_bitwise_equal_weights(
    task: Path, tuned: Path, tmp_path: Path, options: dict[str, object]
) -> None:
    given = {
        **OPTIONS,
        "max_steps": 12,
        "save_every": 3,
        "data": sft_runs.with_heldout(task),
        **options,
    }
    whole = sft_runs.train(tmp_path / "whole", task, program="ppo", base=tuned, **given)  # type: ignore[arg-type]
    killed, process = sft_runs.start(
        tmp_path / "killed",
        task,
        program="ppo",
        base=tuned,
        **given,  # type: ignore[arg-type]  # a mixture of options
    )
    sft_runs.kill_once_saved(killed, process)
    resumed = sft_runs.train(
        tmp_path / "resumed",
        task,
        program="ppo",
        base=tuned,
        resume=killed.resume,
        **given,  # type: ignore[arg-type]
    )
    assert resumed.weights_digest() == whole.weights_digest()
    ours, theirs = (
        rollouts.read_rollouts(trial.directory / "output" / "rollouts")
        for trial in (whole, resumed)
    )
    assert ours == theirs


@pytest.mark.slow
def test_a_stop_leaves_model_and_checkpoint_and_the_seed_decides_the_weights(
    task: Path, tuned: Path, tmp_path: Path
) -> None:
    whole = ppo(tmp_path / "whole", task, tuned)
    directory = sft_runs.ask_to_stop(tmp_path / "stopped")
    stopped = ppo(directory, task, tuned, status=contract.EXIT_STOPPED)
    assert (stopped.model / "model.safetensors").is_file()
    assert list(stopped.values("train/loss")) == [1]
    resumed = ppo(tmp_path / "resumed", task, tuned, resume=stopped.resume)
    other = ppo(tmp_path / "other", task, tuned, seed=1)
    assert resumed.weights_digest() == whole.weights_digest() != other.weights_digest()


@pytest.mark.slow
def test_a_loss_that_is_no_number_ends_the_run_with_its_reason(
    task: Path, tuned: Path, tmp_path: Path
) -> None:
    given = {**OPTIONS, "learning_rate": 1e30, "max_grad_norm": 0.0, "parameterization": "full"}
    _, process = sft_runs.start(tmp_path / "a", task, program="ppo", base=tuned, **given)  # type: ignore[arg-type]
    log, _ = process.communicate(timeout=120)
    assert process.returncode == contract.EXIT_NOT_FINITE, log
    assert "Traceback" not in log


@pytest.mark.slow
def test_sft_then_ppo_beats_sft_alone_over_five_seeds(task: Path, tmp_path: Path) -> None:
    from statistics import fmean, stdev

    gains = []
    for seed in range(5):
        first = sft_runs.train(tmp_path / f"sft{seed}", task, seed=seed)
        then = ppo(
            tmp_path / f"ppo{seed}",
            task,
            first.model,
            seed=seed,
            max_steps=40,
            rollout_batch_size=64,
            epochs=4,
        )
        before = sft_runs.exact_match(tmp_path / f"before{seed}", first.model, task)
        gains.append(sft_runs.exact_match(tmp_path / f"after{seed}", then.model, task) - before)
    mean, error = fmean(gains), stdev(gains) / 5**0.5
    low = mean - 2.776 * error  # Student's t with four degrees of freedom, 95 %
    print(f"gain {mean:.3f}, 95% interval from {low:.3f} to {2 * mean - low:.3f}: {gains}")
    assert low > 0.0
