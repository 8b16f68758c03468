"""QLoRA on a CPU: NF4 bases under sft, dpo and reward models, and whole weights at the end."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration import preference_runs, sft_runs
from tests.integration.sft_runs import ROOT, Trial

pytestmark = [pytest.mark.train, pytest.mark.slow, pytest.mark.timeout(1200)]

QLORA = {
    "parameterization": "qlora",
    "learning_rate": 2e-3,
    "max_steps": 30,
    "keep_adapter": True,
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """bitsandbytes, which `make setup` leaves out: peft imports it wherever it is, for a second
    of each trial's time."""
    if importlib.util.find_spec("bitsandbytes"):
        return None
    directory = tmp_path_factory.mktemp("packages")
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    argv += ["--target", str(directory), "-c", str(ROOT / "constraints" / "cpu.txt")]
    subprocess.run([*argv, "bitsandbytes"], check=True, timeout=240)
    return directory


def test_sft_on_a_4_bit_base_learns_and_leaves_weights_that_any_evaluator_loads(
    task: Path, full: Trial, packages: Path | None, tmp_path: Path
) -> None:
    trial = sft_runs.train(
        tmp_path / "a", task, base=full.model, packages=packages, save_every=20, **QLORA
    )
    losses = trial.values("train/loss")
    assert losses[30] < losses[10]
    before = sft_runs.exact_match(tmp_path / "before", full.model, task)
    assert sft_runs.exact_match(tmp_path / "after", trial.model, task) > before + 0.05
    assert (trial.model / "adapter" / "base.json").is_file()
    resumed = sft_runs.train(
        tmp_path / "b", task, base=full.model, packages=packages, resume=trial.resume, **QLORA
    )
    assert resumed.weights_digest() == trial.weights_digest()


@pytest.mark.parametrize("program", ["grpo", "ppo"])
def test_rewards_are_learned_from_on_a_4_bit_base(
    task: Path, full: Trial, packages: Path | None, tmp_path: Path, program: str
) -> None:
    trial = sft_runs.train(
        tmp_path / "a",
        task,
        program=program,
        base=full.model,
        packages=packages,
        **{**QLORA, "max_steps": 6, "learning_rate": 1e-3, "max_completion_length": 8},
    )
    assert len(trial.values("train/reward")) == 6
    assert trial.values("train/grad_norm")[6] > 0.0
    assert sft_runs.exact_match(tmp_path / "after", trial.model, task) > 0.0


@pytest.mark.parametrize("program", ["dpo", "reward_model"])
def test_preferences_are_learned_on_a_4_bit_base(
    task: Path, full: Trial, packages: Path | None, tmp_path: Path, program: str
) -> None:
    trial = sft_runs.train(
        tmp_path / "a",
        task,
        program=program,
        base=full.model,
        data=preference_runs.write_pairs(task, tmp_path / "pairs"),
        packages=packages,
        **QLORA,
    )
    margins = trial.values("train/preference_margin")
    assert margins[30] > margins[10]
    assert (trial.model / "model.safetensors").is_file()


def test_qlora_without_its_library_is_refused_before_anything_is_loaded(
    task: Path, tmp_path: Path
) -> None:
    if importlib.util.find_spec("bitsandbytes"):
        pytest.skip("bitsandbytes is installed here")
    _, process = sft_runs.start(tmp_path / "a", task, **QLORA)
    log, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert log.startswith("sft: options.parameterization: qlora needs bitsandbytes")
    assert log.count("\n") == 1
