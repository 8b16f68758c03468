"""The GPU check's own parts: its study is a valid one, the plain script gets the same settings,
and what is not as it should be is told."""

import dataclasses
from pathlib import Path

import pytest
import yaml

from controller.spec.loading import parse_study
from controller.spec.plan_section import plan_refusals
from inner_trials.grpo_settings import Settings, check_settings, trl_options
from inner_trials.settings import read_settings
from scripts import gpu_grpo
from scripts.gpu_check import Clock
from scripts.gpu_grpo import Measured, Size

SIZE = Size(steps=40, batch=256)
GOOD = Measured(tokens_per_s=1000.0, reward=0.7, wall_s=60.0)
CHOSEN = {"learning_rate": SIZE.learning_rate}
COMMON = {"use_cpu": False, "bf16": True, "dataloader_pin_memory": True, "max_steps": 40}


@pytest.mark.parametrize("gpu", [True, False])
def test_its_study_is_one_that_arl_takes(gpu: bool) -> None:
    written = yaml.safe_load(yaml.safe_dump(gpu_grpo.study(SIZE, gpu=gpu)))
    spec = parse_study(written)
    assert list(plan_refusals(spec, CHOSEN)) == []
    assert spec.resources.gpus == int(gpu)
    check_settings(read_settings(Settings, {"options": spec.program.options}))


def test_the_plain_script_trains_with_the_settings_of_the_baseline() -> None:
    spec = gpu_grpo.study(SIZE, gpu=True)
    given = gpu_grpo.plain_settings(spec, Path("/w"))
    document = {"options": spec["program"]["options"], "parameters": CHOSEN}
    settings = read_settings(Settings, document)
    common = {name: getattr(settings, name) for name in given["config"] if hasattr(settings, name)}
    ours = trl_options(settings, {**common, **COMMON})
    assert {name: ours.get(name) for name in given["config"]} == given["config"]
    assert (given["base"], given["train"]) == ("/w/base", "/w/data/train.jsonl")


def test_on_a_cpu_neither_has_vllm() -> None:
    spec = gpu_grpo.study(SIZE, gpu=False)
    assert spec["program"]["options"]["generation"] == "transformers"
    config = gpu_grpo.plain_settings(spec, Path("/w"))["config"]
    assert not any(name.startswith("vllm") or name == "use_vllm" for name in config)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"tokens_per_s": 960.0}, ""),
        ({"tokens_per_s": 900.0}, "1.111 x the plain script's time"),
        ({"reward": 0.5}, "0.200 apart"),
    ],
)
def test_a_run_that_is_slower_or_learns_otherwise_is_told(
    changes: dict[str, float], words: str
) -> None:
    ours = dataclasses.replace(GOOD, **changes)
    found = gpu_grpo.problems(ours, GOOD, [0.01], [0.6, 0.7, 0.7])
    assert len(found) == bool(words)
    assert all(words in text for text in found)


def test_actors_that_are_far_from_the_trainer_and_trials_without_a_score_are_told() -> None:
    found = gpu_grpo.problems(GOOD, GOOD, [0.01, 0.4], [0.6, None, 0.7])
    assert len(found) == 2
    assert "0.400 apart" in found[0]
    assert "2 of 3" in found[1]


def test_runs_that_were_never_rewarded_compare_nothing() -> None:
    idle = dataclasses.replace(GOOD, reward=0.0)
    (found,) = gpu_grpo.problems(idle, idle, [], [0.6, 0.7, 0.7])
    assert found == "nothing was rewarded, so there is nothing to compare"


def test_the_first_update_is_left_out_of_the_speed() -> None:
    found = gpu_grpo.measured([1.0, 10.0, 12.0], [0.0] * 10 + [1.0] * 10, 5.0)
    assert found == Measured(11.0, 1.0, 5.0)
    with pytest.raises(RuntimeError, match="no tokens per second"):
        gpu_grpo.measured([], [], 5.0)


def test_nothing_is_started_once_the_time_is_over() -> None:
    with pytest.raises(RuntimeError, match="no time is left for sleep 30"):
        Clock(0.0).measure(["sleep", "30"], {})
