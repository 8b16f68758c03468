"""The GRPO program really trains: it learns, repeats, resumes to the bit and stops when asked."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from evaluator.statistics import mean_interval
from inner_trials import contract, rollouts
from tests.integration import sft_runs
from tests.integration.sft_runs import Trial

pytestmark = pytest.mark.train

OPTIONS: dict[str, Any] = {
    "parameterization": "lora",
    "learning_rate": 1e-3,
    "max_steps": 6,
    "per_device_train_batch_size": 32,
    "num_generations": 8,
    "max_completion_length": 8,
    "warmup_steps": 0,
}


def grpo(directory: Path, task: Path, base: Path, **settings: Any) -> Trial:
    return sft_runs.train(directory, task, program="grpo", base=base, **{**OPTIONS, **settings})


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory, task: Path, tuned: Path) -> Trial:
    directory = tmp_path_factory.mktemp("short") / "a"
    return grpo(
        directory,
        task,
        tuned,
        data=sft_runs.with_heldout(task),
        guard_every=3,
        save_every=3,
        beta=0.05,
    )


def test_a_run_reports_its_health_at_every_step(short: Trial) -> None:
    for name in (
        "train/reward",
        "train/grad_norm",
        "train/loss",
        "health/entropy",
        "health/kl",
        "health/clip_fraction",
        "health/zero_variance_groups",
        "health/reward_variance_in_groups",
        "health/importance_ratio_mean",
        "health/importance_ratio_max",
        "health/length",
        "health/truncated",
        "health/well_formed",
        "alarm/any",
    ):
        assert sorted(set(short.values(name))) == [1, 2, 3, 4, 5, 6] or name == "alarm/any", name
    assert set(short.values("alarm/any").values()) == {0.0}
    assert short.values("health/kl")[1] == 0.0
    assert short.values("health/kl")[6] > 0.0
    assert 0.0 < short.values("health/entropy")[1] < 3.0


def test_held_out_prompts_are_answered_before_during_and_at_the_end(short: Trial) -> None:
    heldout = short.values("heldout/reward")
    assert list(heldout) == [0, 3, 6]
    assert 0.2 < heldout[0] < 0.9
    assert list(short.values("guard/over_optimised")) == [3, 6], (
        "there is no proxy before training"
    )


def test_a_run_says_how_it_sampled_who_judged_and_which_policies(short: Trial) -> None:
    path = short.directory / "output" / contract.FACTS_DIR / contract.FACTS_FILE
    found = json.loads(path.read_text())
    assert found["sampling"]["max_completion_length"] == 8
    assert found["reward"]["judge"].startswith("exact/")
    assert found["policy_versions"] == {"first": 0, "last": 5}
    assert found["checkpoints"] == {"last_step": 6, "resumed_from": None, "saved": [3]}


def test_model_and_record_are_left_and_nothing_of_the_trainers(short: Trial) -> None:
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {
        path.name for path in short.model.iterdir()
    }
    rows = rollouts.read_rollouts(short.directory / "output" / "rollouts")
    assert len(rows) == 6 * 32
    assert {path.name for path in (short.directory / "output").iterdir()} == {
        "facts",
        "model",
        "resume",
        "rollouts",
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"save_every": 2},
        {"parameterization": "full", "learning_rate": 1e-4, "beta": 0.1, "save_every": 2},
        {"num_iterations": 2, "steps_per_generation": 2, "save_every": 4, "max_steps": 8},
        {"gradient_accumulation_steps": 2, "save_every": 2},
    ],
    ids=["lora", "full", "iterations", "accumulation"],
)
def test_a_run_killed_between_checkpoints_resumes_to_bitwise_equal_weights(
    task: Path, tuned: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    given = {
        **OPTIONS,
        "max_steps": 12,
        **options,
        "data": sft_runs.with_heldout(task),
        "guard_every": 4,
    }
    whole = sft_runs.train(tmp_path / "whole", task, program="grpo", base=tuned, **given)
    killed, process = sft_runs.start(
        tmp_path / "killed",
        task,
        program="grpo",
        base=tuned,
        **given,
    )
    sft_runs.kill_once_saved(killed, process)
    resumed = sft_runs.train(
        tmp_path / "resumed", task, program="grpo", base=tuned, resume=killed.resume, **given
    )
    assert resumed.weights_digest() == whole.weights_digest()
    for name in ("train/reward", "health/entropy", "guard/over_optimised"):
        last = max(whole.values(name))
        assert resumed.values(name)[last] == whole.values(name)[last], name
    ours, theirs = (
        rollouts.read_rollouts(trial.directory / "output" / "rollouts")
        for trial in (whole, resumed)
    )
    assert ours == theirs, "the record is whole, whatever was sampled twice"


@pytest.mark.slow
def test_a_stop_waits_for_the_end_of_a_cycle_and_the_resumed_run_ends_equal(
    task: Path, tuned: Path, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"num_iterations": 3, "max_steps": 9}
    whole = grpo(tmp_path / "whole", task, tuned, **given)
    directory = sft_runs.ask_to_stop(tmp_path / "stopped")
    stopped = grpo(directory, task, tuned, status=contract.EXIT_STOPPED, **given)
    assert (stopped.model / "model.safetensors").is_file()
    assert list(stopped.values("train/loss")) == [1, 2, 3]
    resumed = grpo(tmp_path / "resumed", task, tuned, resume=stopped.resume, **given)
    assert resumed.weights_digest() == whole.weights_digest()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_weights_and_another_seed_others(
    task: Path, tuned: Path, tmp_path: Path
) -> None:
    digests = [
        grpo(tmp_path / str(n), task, tuned, seed=seed).weights_digest()
        for n, seed in enumerate((0, 0, 1))
    ]
    assert digests[0] == digests[1] != digests[2]


LOSSES: dict[str, dict[str, Any]] = {
    "grpo": {},
    "dr_grpo": {"scale_rewards": "none"},
    "dapo": {"epsilon_high": 0.28, "mask_truncated_completions": True},
    "bnpo": {"scale_rewards": "batch"},
    "cispo": {"epsilon_high": 5.0},
    "sapo": {"top_entropy_quantile": 0.5},
    "luspo": {"entropy_coef": 0.01},
    "vespo": {"temperature": 0.8, "top_p": 0.9, "top_k": 10, "min_p": 0.01},
}


@pytest.mark.slow
@pytest.mark.parametrize("loss_type", LOSSES)
def test_every_loss_trains(loss_type: str, task: Path, tuned: Path, tmp_path: Path) -> None:
    options = {"num_iterations": 2, "loss_type": loss_type, **LOSSES[loss_type]}
    trial = grpo(tmp_path / "a", task, tuned, **options)
    assert len(trial.values("train/loss")) == 6
    assert trial.weights_digest() != sft_runs.Trial(tuned.parent.parent).weights_digest()


@pytest.mark.slow
def test_gspo_and_penalties_run(task: Path, tuned: Path, tmp_path: Path) -> None:
    options = {
        "loss_type": "grpo",
        "importance_sampling_level": "sequence",
        "repetition_penalty": 1.1,
        "delta": 2.0,
        "num_iterations": 2,
        "gradient_checkpointing": True,
        "format_weight": 0.1,
    }
    trial = grpo(tmp_path / "a", task, tuned, **options)
    assert len(trial.values("train/loss")) == 6


@pytest.mark.slow
def test_a_collapsing_run_rings_an_alarm(task: Path, tuned: Path, tmp_path: Path) -> None:
    trial = grpo(
        tmp_path / "a",
        task,
        tuned,
        data=sft_runs.with_heldout(task),
        parameterization="full",
        learning_rate=1e-2,
        max_steps=40,
        guard_every=10,
        alarms={"no_signal": 0.9, "malformed": 0.2},
    )
    assert max(trial.values("alarm/any").values()) == 1.0
    lines = (trial.directory / "reports").read_text().splitlines()
    rung = {json.loads(line)["metric"] for line in lines if '"alarm/' in line} - {"alarm/any"}
    assert rung & {"alarm/no_signal", "alarm/malformed", "alarm/entropy_collapse"}


@pytest.mark.slow
def test_a_learned_reward_is_watched_by_a_verifier_on_held_out_prompts(
    task: Path, tuned: Path, tmp_path: Path
) -> None:
    rows = [json.loads(line) for line in (task / "data" / "train.jsonl").read_text().splitlines()]
    pairs = [
        {"prompt": row["prompt"], "chosen": row["completion"], "rejected": row["completion"][::-1]}
        for row in rows[:512]
        if row["completion"] != row["completion"][::-1]
    ]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    judge = sft_runs.train(
        tmp_path / "judge",
        task,
        program="reward_model",
        base=tuned,
        data={"train": tmp_path / "pairs.jsonl"},
        learning_rate=1e-3,
        max_steps=20,
    )
    trial = grpo(
        tmp_path / "a",
        task,
        tuned,
        data=sft_runs.with_heldout(task, reward=judge.model),
        reward="learned",
        guard_every=3,
    )
    assert list(trial.values("heldout/proxy")) == [0, 3, 6]
    assert list(trial.values("guard/over_optimised")) == [0, 3, 6]
    row = rollouts.read_rollouts(trial.directory / "output" / "rollouts")[0]
    assert row["verifier"].startswith("reward_model/")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_sft_then_grpo_beats_sft_alone_over_five_seeds(task: Path, tmp_path: Path) -> None:
    gains = []
    for seed in range(5):
        began = time.monotonic()
        first = sft_runs.train(tmp_path / f"sft{seed}", task, seed=seed)
        then = grpo(
            tmp_path / f"grpo{seed}",
            task,
            first.model,
            seed=seed,
            learning_rate=5e-4,
            max_steps=60,
            per_device_train_batch_size=64,
        )
        before = sft_runs.exact_match(tmp_path / f"before{seed}", first.model, task)
        after = sft_runs.exact_match(tmp_path / f"after{seed}", then.model, task)
        gains.append(after - before)
        took = time.monotonic() - began
        print(f"seed {seed}: {before:.3f} to {after:.3f} in {took:.0f} s", flush=True)
    interval = mean_interval(gains)
    print(f"gain {sum(gains) / 5:+.3f} ({interval.low:+.3f} to {interval.high:+.3f})", flush=True)
    assert interval.low > 0.0
