"""The example that launches OpenRLHF's PPO: its study is a valid plan, which becomes arguments."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from controller.spec.documents import read_document
from controller.spec.loading import parse_study
from controller.spec.plan_section import plan_document, plan_refusals

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "openrlhf_ppo"
PARAMETERS = {"learning_rate": 1e-6, "critic_learning_rate": 9e-6, "kl_coef": 0.02}

_spec = importlib.util.spec_from_file_location("launch", EXAMPLE / "launcher" / "launch.py")
assert _spec is not None
assert _spec.loader is not None
launch = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(launch)


def document(**plan: Any) -> dict[str, Any]:
    """What ARL would write for a trial of the study, with other axes of its plan."""
    study, problems = read_document(EXAMPLE / "study.yaml")
    assert problems == []
    spec = parse_study(study)
    assert list(plan_refusals(spec, PARAMETERS)) == []
    whole = plan_document(spec, PARAMETERS)
    assert whole is not None
    return {
        "plan": {**whole, **plan},
        "options": dict(spec.program.options),
        "parameters": dict(PARAMETERS),
        "inputs": {"base": "/in/base", "reward": "/in/reward", "train": "/in/train.jsonl"},
        "output": "/out",
        "seed": 3,
        "resume": None,
    }


def pairs(words: list[str]) -> dict[str, str]:
    """Arguments by name; a switch has no value."""
    found, name = {}, ""
    for word in words:
        if word.startswith("--"):
            name = word[2:]
            assert name not in found, f"{name} is given twice"
            found[name] = ""
        else:
            found[name] = word
    return found


def test_the_plan_and_the_parameters_become_its_arguments() -> None:
    found = pairs(launch.arguments(document()))
    assert (found["pretrain"], found["reward_pretrain"]) == ("/in/base", "/in/reward")
    assert (found["save_path"], found["ckpt_path"]) == ("/out/model", "/out/resume")
    assert (found["zero_stage"], found["seed"], found["bf16"]) == ("3", "3", "")
    for role in ("actor", "critic", "ref", "reward"):
        assert (found[f"{role}_num_nodes"], found[f"{role}_num_gpus_per_node"]) == ("1", "8")
    assert (found["vllm_num_engines"], found["vllm_tensor_parallel_size"]) == ("4", "2")
    assert "colocate_all_models" not in found
    assert (found["actor_learning_rate"], found["init_kl_coef"]) == ("1e-06", "0.02")
    assert (found["generate_max_len"], found["train_batch_size"]) == ("1024", "128")
    assert "load_checkpoint" not in found
    assert "lora_rank" not in found


def test_together_all_models_share_the_gpus_and_an_adapter_has_a_rank() -> None:
    given = document(rollout="colocated", rollout_gpus=8, parameterization="qlora")
    given["options"] |= {"lora_r": 8, "nodes": 2}
    found = pairs(launch.arguments({**given, "resume": "/earlier"}))
    assert "colocate_all_models" in found
    assert (found["actor_num_nodes"], found["actor_num_gpus_per_node"]) == ("2", "4")
    assert (found["lora_rank"], found["load_in_4bit"], found["load_checkpoint"]) == ("8", "", "")


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"trainer": "fsdp2"}, "plan.trainer: 'fsdp2': this launcher runs single or zero3"),
        ({"optimizer": "grpo"}, "plan.optimizer: 'grpo'"),
        ({"staleness_bound": 2}, "plan.staleness_bound: 2"),
        ({"trainer_gpus": None}, "plan.trainer_gpus: None: write how many"),
    ],
)
def test_what_it_would_not_pass_on_is_refused(plan: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        launch.arguments(document(**plan))


def test_an_option_that_it_does_not_know_is_refused() -> None:
    given = document()
    given["options"]["learning_rte"] = 1
    with pytest.raises(ValueError, match="learning_rte: unknown"):
        launch.arguments(given)
