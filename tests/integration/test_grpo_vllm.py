"""GRPO whose completions a colocated vLLM samples, on a CPU: corrected, recorded, and watched.

Slow, and only where vLLM is installed: `scripts/vllm_cpu.sh`.
"""

import json
import math
import os
import subprocess
import sysconfig
from pathlib import Path
from statistics import fmean

import pytest

from inner_trials import rollouts
from tests.integration import sft_runs
from tests.integration.sft_runs import Trial
from tests.vllm_server import NEEDS_VLLM, interpreter

pytestmark = [*NEEDS_VLLM, pytest.mark.train, pytest.mark.timeout(900)]

OPTIONS = {
    "parameterization": "lora",
    "learning_rate": 1e-3,
    "max_steps": 8,
    "per_device_train_batch_size": 64,
    "num_generations": 8,
    "max_completion_length": 8,
    "max_length": 128,
    "warmup_steps": 0,
    "generation": "vllm_colocated",
    "vllm_memory_share": 0.05,
    "alarms": {"actor_mismatch": 0.05},
}


def grpo(directory: Path, task: Path, base: Path, *, stale: bool = False, **more: object) -> Trial:
    for name in ("output", "workspace"):
        (directory / name).mkdir(parents=True)
    document = {
        "seed": 0,
        "options": {**OPTIONS, **more},
        "inputs": {"base": str(base), "train": str(task / "data")},
        "workspace": str(directory / "workspace"),
    }
    (directory / "params.json").write_text(json.dumps(document))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(directory / "workspace"),
        "PYTHONPATH": str(sft_runs.code(directory)),
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "ARL_PARAMS": str(directory / "params.json"),
        "ARL_OUTPUT": str(directory / "output"),
        "ARL_REPORTS": str(directory / "reports"),
        **({"ARL_TEST_STALE": "1"} if stale else {}),
    }
    launcher = sft_runs.ROOT / "tests" / "vllm_trainer.py"
    done = subprocess.run(
        [str(interpreter()), str(launcher), "grpo", sysconfig.get_path("purelib")],
        cwd=directory / "workspace",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return Trial(directory)


def test_the_record_has_both_probabilities_and_gives_the_corrections_again(
    task: Path, tuned: Path, tmp_path: Path
) -> None:
    trial = grpo(tmp_path / "a", task, tuned, correction="tis", correction_max=1.01)
    rows = rollouts.read_rollouts(trial.directory / "output" / "rollouts")
    assert {row["behaviour_source"] for row in rows} == {"sampler"}
    said, mismatch = (
        trial.values(f"health/{name}") for name in ("correction_mean", "actor_mismatch")
    )
    for step in range(1, OPTIONS["max_steps"] + 1):
        pairs = [
            (trainer, sampler)
            for row in rows
            if row["policy_version"] == step - 1
            for trainer, sampler in zip(
                row["trainer_logprobs"], row["behaviour_logprobs"], strict=True
            )
        ]
        again = fmean(min(math.exp(trainer - sampler), 1.01) for trainer, sampler in pairs)
        assert again == pytest.approx(said[step], abs=1e-6)
        apart = fmean(abs(trainer - sampler) for trainer, sampler in pairs)
        assert apart == pytest.approx(mismatch[step], abs=1e-6)
    assert max(mismatch.values()) < 0.05, "the same weights, other kernels"
    assert set(trial.values("alarm/any").values()) == {0.0}


def test_a_colocated_vllm_teaches_the_trainer(task: Path, tuned: Path, tmp_path: Path) -> None:
    trial = grpo(tmp_path / "a", task, tuned, max_steps=60, learning_rate=5e-4)
    before = sft_runs.exact_match(tmp_path / "before", tuned, task)
    after = sft_runs.exact_match(tmp_path / "after", trial.model, task)
    mismatch = trial.values("health/actor_mismatch")
    print(f"{before=:.3f} {after=:.3f} mismatch {max(mismatch.values()):.2g}")
    assert after > before + 0.03
    assert max(mismatch.values()) < 0.05
    ratios = trial.values("health/importance_ratio_max")
    assert len(ratios) == 60
    assert max(ratios.values()) < 1.01, "the trainer's own: one update a generation"


def test_an_actor_with_stale_weights_rings_the_alarm(
    task: Path, tuned: Path, tmp_path: Path
) -> None:
    trial = grpo(tmp_path / "a", task, tuned, stale=True, max_steps=16, learning_rate=3e-3)
    mismatch = trial.values("health/actor_mismatch")
    assert mismatch[16] > 10 * mismatch[1]
    assert 1.0 in trial.values("alarm/actor_mismatch").values()
