"""The SFT program really trains: it learns, repeats, resumes to the bit and stops when asked."""

from pathlib import Path

import pytest

from inner_trials import contract
from tests.integration import sft_runs
from tests.integration.sft_runs import Trial

pytestmark = pytest.mark.train

LORA = {
    "parameterization": "lora",
    "learning_rate": 2e-3,
    "lora_dropout": 0.05,
    "keep_adapter": True,
    "save_every": 5,
}


@pytest.fixture(scope="module")
def lora(tmp_path_factory: pytest.TempPathFactory, task: Path, full: Trial) -> Trial:
    """An adapter on what full training made: random weights are nothing to adapt."""
    return sft_runs.train(tmp_path_factory.mktemp("lora") / "a", task, base=full.model, **LORA)


@pytest.fixture(scope="module")
def full_score(tmp_path_factory: pytest.TempPathFactory, task: Path, full: Trial) -> float:
    return sft_runs.exact_match(tmp_path_factory.mktemp("score") / "a", full.model, task)


def test_full_training_lowers_the_loss_and_raises_exact_match(
    full: Trial, full_score: float, task: Path, tmp_path: Path
) -> None:
    losses = full.values("train/loss")
    assert losses[60] < 0.5 * losses[10]
    base_score = sft_runs.exact_match(tmp_path / "base", task / "base", task)
    assert full_score > base_score + 0.3


def test_lora_lowers_the_loss_and_its_merged_weights_raise_exact_match(
    lora: Trial, full_score: float, task: Path, tmp_path: Path
) -> None:
    losses = lora.values("train/loss")
    assert losses[60] < 0.7 * losses[10]
    assert sft_runs.exact_match(tmp_path / "lora", lora.model, task) > full_score + 0.1


def test_the_model_is_plain_weights_with_the_adapter_beside_when_asked(
    full: Trial, lora: Trial
) -> None:
    needed = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert needed <= {path.name for path in full.model.iterdir()}
    assert not (full.model / "adapter").exists()
    assert (lora.model / "adapter" / "adapter_model.safetensors").is_file()
    assert not [p for p in lora.model.rglob("*") if p.suffix in (".bin", ".pt", ".pth")]


def test_every_health_metric_is_reported_at_its_steps(full: Trial) -> None:
    for name in ("loss", "grad_norm", "learning_rate", "mean_token_accuracy", "tokens_per_s"):
        assert list(full.values(f"train/{name}")) == [10, 20, 30, 40, 50, 60], name
    assert full.values("train/learning_rate")[60] == pytest.approx(2e-3)


def test_the_last_steps_are_reported_whatever_report_every_is(task: Path, tmp_path: Path) -> None:
    trial = sft_runs.train(tmp_path / "run", task, max_steps=5, report_every=4)
    assert list(trial.values("train/loss")) == [4, 5]


def test_a_loss_that_is_no_number_after_the_last_report_is_no_model(
    task: Path, tmp_path: Path
) -> None:
    wild = {"learning_rate": 1e30, "max_grad_norm": 0, "warmup_steps": 0}
    more = {"max_steps": 3, "report_every": 10}
    status = contract.EXIT_NOT_FINITE
    trial = sft_runs.train(tmp_path / "run", task, status=status, **wild, **more)
    assert not (trial.model / "model.safetensors").exists()


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(
    full: Trial, task: Path, tmp_path: Path
) -> None:
    again = sft_runs.train(tmp_path / "again", task)
    other = sft_runs.train(tmp_path / "other", task, seed=1)
    assert again.weights_digest() == full.weights_digest()
    assert other.weights_digest() != full.weights_digest()


def test_a_stop_leaves_model_and_checkpoint_and_the_resumed_run_ends_bitwise_equal(
    full: Trial, task: Path, tmp_path: Path
) -> None:
    directory = sft_runs.ask_to_stop(tmp_path / "stopped")
    stopped = sft_runs.train(directory, task, status=contract.EXIT_STOPPED)
    assert (stopped.model / "model.safetensors").is_file()
    assert [path.name for path in stopped.resume.iterdir()] == ["checkpoint-1"]
    assert stopped.weights_digest() != full.weights_digest()
    resumed = sft_runs.train(tmp_path / "resumed", task, resume=stopped.resume)
    assert resumed.weights_digest() == full.weights_digest()
    assert resumed.values("train/loss")[60] == full.values("train/loss")[60]


def test_a_run_killed_between_checkpoints_resumes_to_bitwise_equal_weights(
    full: Trial, lora: Trial, task: Path, tmp_path: Path
) -> None:
    killed, process = sft_runs.start(tmp_path / "killed", task, base=full.model, **LORA)
    sft_runs.kill_once_saved(killed, process)
    resumed = sft_runs.train(
        tmp_path / "resumed", task, base=full.model, resume=killed.resume, **LORA
    )
    assert resumed.weights_digest() == lora.weights_digest()
