"""A plan's axes that follow from others, written out for the record of a run."""

from dataclasses import replace

import pytest

from inner_trials.plan import Plan
from inner_trials.planning.kinds import plan_of
from inner_trials.planning.settled import PLANES, settled

KINDS = ("sft", "dpo", "grpo", "ppo", "reward_model", "rejection_sampling")


def plan(kind: str, **settings: object) -> Plan:
    return plan_of("study", kind, {}, settings, inputs={"train": "t.jsonl"}, gpus=0)


@pytest.mark.parametrize("kind", KINDS)
def test_no_plane_is_left_to_guess_but_the_served_cache(kind: str) -> None:
    found = settled(plan(kind), 0)
    open_ones = {name for name in (*PLANES, "placement") if found[name] in ("auto", None)}
    assert open_ones == {"serving_kv_precision"}
    assert (found["trainer_gpus"], found["rollout_gpus"], found["data_parallel"]) == (0, 0, 1)


def test_what_is_sampled_has_a_cache_as_its_actors_compute() -> None:
    assert settled(plan("sft"), 0)["kv_precision"] == "none"
    bf16 = plan("grpo", precision="bf16")
    assert settled(bf16, 1)["kv_precision"] == "bf16"
    assert settled(replace(bf16, rollout_precision="fp8"), 1)["kv_precision"] == "bf16"
    assert settled(replace(bf16, kv_precision="fp8"), 1)["kv_precision"] == "fp8"


def test_a_frozen_base_and_what_is_sent_are_named() -> None:
    assert settled(plan("sft"), 0)["base_precision"] == "none"
    assert settled(plan("grpo", parameterization="lora"), 0)["base_precision"] == "fp32"
    assert settled(plan("sft", parameterization="qlora"), 1)["base_precision"] == "nf4"
    apart = replace(plan("grpo"), rollout="disaggregated", sync="full")
    assert settled(apart, 2)["sync_payload"] == "canonical"
    assert settled(replace(apart, sync_payload="adapter"), 2)["sync_payload"] == "adapter"
    assert settled(apart, 2)["placement"] == "dedicated"


def test_gpus_that_the_plan_does_not_count_are_those_of_the_trial() -> None:
    found = settled(replace(plan("grpo"), tensor_parallel=2), 8)
    assert (found["trainer_gpus"], found["rollout_gpus"], found["data_parallel"]) == (8, 8, 4)
    assert settled(replace(plan("sft"), trainer_gpus=4), 8)["trainer_gpus"] == 4
