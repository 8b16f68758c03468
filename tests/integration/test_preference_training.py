"""DPO, reward models and rejection sampling really train: a tiny run of each, what it leaves."""

import json
from pathlib import Path

import pytest

from inner_trials import adapters, contract, rewards
from tests.integration import preference_runs, sft_runs
from tests.integration.sft_runs import Trial

pytestmark = pytest.mark.train

SAMPLING = {
    "learning_rate": 2e-3,
    "max_steps": 10,
    "report_every": 5,
    "samples": 4,
    "max_new_tokens": 6,
    "sample_batch_size": 64,
    "prompts_limit": 128,
    "min_reward": 0.0,
}
"""Of a model with random weights anything that it ended itself has to do."""


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory, task: Path) -> dict[str, Path]:
    return preference_runs.write_pairs(task, tmp_path_factory.mktemp("pairs"))


def files_of(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_dpo_widens_the_margin_and_watches_what_it_must_not_lose(
    task: Path, pairs: dict[str, Path], tmp_path: Path
) -> None:
    trial = sft_runs.train(
        tmp_path / "dpo",
        task,
        program="dpo",
        data={**pairs, "fixed": task / "data"},
        max_steps=20,
        report_every=5,
        guard_every=10,
        **preference_runs.OPTIONS,
    )
    margins = trial.values("train/preference_margin")
    assert list(margins) == [5, 10, 15, 20]
    assert margins[20] > margins[5] + 0.01
    assert list(trial.values("heldout/preference_margin")) == [10, 20]
    assert trial.values("heldout/preference_margin")[20] > 0
    for name in ("guard/forgetting", "guard/overfit_loss", "guard/overfit_preference_accuracy"):
        assert list(trial.values(name)) == [10, 20], name
    assert 1 < trial.values("run/start_up_s")[0] < 100
    assert trial.values("run/peak_memory_bytes")[20] > 1e8
    assert {"config.json", "model.safetensors", "tokenizer.json", "pins.json"} <= files_of(
        trial.model
    )


def test_a_reward_model_is_saved_with_a_version_that_others_can_check(
    task: Path, pairs: dict[str, Path], tmp_path: Path
) -> None:
    trial = sft_runs.train(
        tmp_path / "reward",
        task,
        program="reward_model",
        data=pairs,
        **{**sft_runs.OPTIONS, "learning_rate": 1e-3, "max_steps": 20},
    )
    losses = trial.values("train/loss")
    assert losses[20] < losses[10]
    description = rewards.check_reward_model(trial.model)
    accuracy = trial.values("heldout/preference_accuracy")[20]
    assert description["metrics"]["heldout/preference_accuracy"] == accuracy
    config = json.loads((trial.model / "config.json").read_text())
    assert config["architectures"] == ["LlamaForSequenceClassification"]


def test_rejection_sampling_leaves_a_model_and_the_data_set_it_learned(
    task: Path, tmp_path: Path
) -> None:
    asked = {**SAMPLING, "verifier_options": {"ignore_spaces": True}}
    trial = sft_runs.train(tmp_path / "best", task, program="rejection_sampling", **asked)
    data_set = trial.model / "data_set"
    lineage = json.loads((data_set / "lineage.json").read_text())
    rows = (data_set / "rows.jsonl").read_text().splitlines()
    assert (lineage["judge"], lineage["prompts"], lineage["rows"]) == ("exact/1", 128, len(rows))
    assert len(lineage["base_sha256"]) == len(lineage["prompts_sha256"]) == 64
    assert (lineage["judge_options"], lineage["chat"]) == ({"ignore_spaces": True}, True)
    assert lineage["sampling"]["samples"] == 4
    assert len((data_set / "samples.ndjson").read_text().splitlines()) == 128
    assert 0 < trial.values("sampling/kept_share")[0] <= 1
    losses = trial.values("train/loss")
    assert losses[10] < losses[5]
    assert (trial.model / "model.safetensors").is_file()
    said = json.loads((trial.directory / "output" / "facts" / "run.json").read_text())
    assert (said["reward"]["judge"], said["sampling"]["samples"]) == ("exact/1", 4)
    assert said["policy_versions"] == {"first": 0, "last": 0}


@pytest.mark.slow
@pytest.mark.parametrize("program", ["dpo", "reward_model", "rejection_sampling"])
def test_a_stopped_run_resumes_to_bitwise_equal_weights_and_seeds_differ(
    task: Path, pairs: dict[str, Path], tmp_path: Path, program: str
) -> None:
    inputs = {"train": task / "data"} if program == "rejection_sampling" else pairs
    options = {**SAMPLING, "lora_dropout": 0.05, "parameterization": "lora"}
    if program != "rejection_sampling":
        options = {"max_steps": 10, "learning_rate": 2e-3, "parameterization": "lora"}

    def run(name: str, *, seed: int = 0, resume: Path | None = None, status: int = 0) -> Trial:
        return sft_runs.train(
            tmp_path / name,
            task,
            program=program,
            data=inputs,
            seed=seed,
            resume=resume,
            status=status,
            **options,
        )

    whole = run("whole")
    assert run("again").weights_digest() == whole.weights_digest()
    assert run("other", seed=1).weights_digest() != whole.weights_digest()
    sft_runs.ask_to_stop(tmp_path / "stopped")
    stopped = run("stopped", status=contract.EXIT_STOPPED)
    assert list(stopped.resume.iterdir())
    resumed = run("resumed", resume=stopped.resume)
    assert resumed.weights_digest() == whole.weights_digest()


@pytest.mark.slow
def test_a_data_set_once_sampled_is_not_sampled_again(task: Path, tmp_path: Path) -> None:
    options = {**SAMPLING, "save_every": 3, "max_steps": 8}
    whole = sft_runs.train(tmp_path / "whole", task, program="rejection_sampling", **options)
    resumed = sft_runs.train(
        tmp_path / "resumed", task, program="rejection_sampling", resume=whole.resume, **options
    )
    assert resumed.values("sampling/reward_mean") == {}
    assert list(resumed.values("train/loss")) == []
    assert resumed.weights_digest() == whole.weights_digest()
    data_sets = [trial.model / "data_set" for trial in (whole, resumed)]
    assert len({(path / "lineage.json").read_bytes() for path in data_sets}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("program", ["sft", "dpo"])
def test_a_loss_that_is_no_number_ends_the_run_with_a_status_of_its_own(
    task: Path, pairs: dict[str, Path], tmp_path: Path, program: str
) -> None:
    trial, process = sft_runs.start(
        tmp_path / "nan",
        task,
        program=program,
        data={"train": task / "data"} if program == "sft" else pairs,
        learning_rate=1e30,
        max_grad_norm=0,
        warmup_steps=0,
        report_every=1,
    )
    log, _ = process.communicate(timeout=280)
    assert process.returncode == contract.EXIT_NOT_FINITE, log
    assert f"{program}: train/loss is nan at step" in log
    assert "Traceback" not in log
    assert not (trial.model / "model.safetensors").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"reference": "precomputed"},
        {"reference": "precomputed", "parameterization": "lora", "gradient_checkpointing": True},
        {"reference": "copy", "parameterization": "lora", "lora_target": "q_proj,v_proj"},
        {"f_divergence": "js_divergence", "gradient_accumulation_steps": 2},
        {"loss_type": "robust", "label_smoothing": 0.1, "lr_scheduler_type": "cosine"},
        {"sft_weight": 1.0, "precision": "bf16", "weight_decay": 0.1},
    ],
)
def test_every_choice_of_dpo_trains(
    task: Path, pairs: dict[str, Path], tmp_path: Path, options: dict[str, object]
) -> None:
    options = {"learning_rate": 1e-3, "max_steps": 15, "report_every": 5, **options}
    trial = sft_runs.train(tmp_path / "run", task, program="dpo", data=pairs, **options)
    losses = trial.values("train/loss")
    assert losses[15] < losses[5]


@pytest.mark.slow
def test_a_run_may_start_from_another_runs_adapter(
    task: Path, pairs: dict[str, Path], tmp_path: Path
) -> None:
    first = sft_runs.train(
        tmp_path / "first", task, parameterization="lora", keep_adapter=True, max_steps=20
    )
    adapter = first.model / "adapter"
    assert {"adapter_config.json", "base.json"} <= files_of(adapter)
    second = sft_runs.train(
        tmp_path / "second",
        task,
        program="dpo",
        data={**pairs, "adapter": adapter},
        max_steps=1,
        learning_rate=1e-12,
        parameterization="lora",
        keep_adapter=True,
    )
    noted = json.loads((second.model / "adapter" / "base.json").read_text())
    assert noted["adapter_sha256"] == adapters.weights_digest(adapter), "it stands on the first"
    from safetensors.torch import load_file

    merged, start = (load_file(t.model / "model.safetensors") for t in (second, first))
    assert merged.keys() == start.keys()
    assert all((merged[name] - start[name]).abs().max() < 1e-5 for name in start)
