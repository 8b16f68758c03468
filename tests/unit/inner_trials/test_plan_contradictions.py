"""A plan and an option that cannot both be are refused, with the axis named and a way out."""

from collections.abc import Mapping
from typing import Any

import pytest

from inner_trials.plan import PlanRefused, validate
from inner_trials.planning.contradictions import CONTRADICTIONS, contradictions, deciding
from inner_trials.planning.kinds import FIXED, plan_of
from inner_trials.planning.runnable import unrunnable

LORA = {"parameterization": "lora"}
SERVED = {"generation": "vllm_server", "vllm_server": "http://x"}
ADAPTERS = {"generation": "vllm_adapters", "vllm_server": "http://x"}
BESIDE = {"rollout": "disaggregated", "sync_payload": "adapter"}
AHEAD = {**LORA, **BESIDE, "placement": "bounded_async", "staleness_bound": 2}
SHARDED = {"trainer": "fsdp2", "data_parallel": 2}

Case = tuple[str, dict[str, Any], dict[str, Any], tuple[str, ...]]
"""Kind, plan, settings, inputs."""

REFUSED: Mapping[str, tuple[str, Case]] = {
    "whole weights": ("sync_payload", ("grpo", {**LORA, "sync_payload": "adapter"}, SERVED, ())),
    "an adapter": ("sync_payload", ("grpo", {**LORA, "sync_payload": "canonical"}, ADAPTERS, ())),
    "early, by NCCL": (
        "sync_payload",
        (
            "grpo",
            {"rollout": "disaggregated", "staleness_bound": 1},
            {"vllm_server": "http://x"},
            (),
        ),
    ),
    "a 4-bit base": ("parameterization", ("grpo", {"parameterization": "qlora"}, ADAPTERS, ())),
    "no server": ("rollout", ("grpo", AHEAD, {}, ())),
    "in step": ("trainer", ("grpo", SHARDED, {"generation": "vllm_colocated"}, ())),
    "ranks and a server": ("trainer", ("grpo", {**LORA, **SHARDED}, ADAPTERS, ())),
    "ranks and turns": ("trainer", ("grpo", SHARDED, {"environment": "retry"}, ())),
    "a wide vLLM": (
        "rollout_gpus",
        ("grpo", {**AHEAD, "rollout_gpus": 1}, {**ADAPTERS, "vllm_tensor_parallel": 2}, ()),
    ),
    "precisions": ("rollout_precision", ("grpo", {"rollout_precision": "bf16"}, {}, ())),
    "no reference": ("reference", ("grpo", {"reference": "none"}, {"beta": 0.1}, ())),
    "ppo's default": ("reference", ("ppo", {"reference": "none"}, {}, ())),
    "a reference": ("reference", ("grpo", {"reference": "copy"}, {}, ())),
    "ppo without": ("reference", ("ppo", {"reference": "copy"}, {"kl_coef": 0}, ())),
    "a copied base": ("reference", ("grpo", {**LORA, "reference": "copy"}, {"beta": 0.1}, ())),
    "another model": (
        "reference",
        ("dpo", {**LORA, "reference": "adapter"}, {}, ("reference",)),
    ),
    "turns": ("reward", ("grpo", {"reward": "verifier"}, {"environment": "retry"}, ())),
    "no turns": ("reward", ("grpo", {"reward": "environment"}, {}, ())),
    "nothing mounted": ("reward", ("grpo", {"reward": "learned"}, {}, ())),
    "a judge mounted": ("reward", ("rejection_sampling", {"reward": "verifier"}, {}, ("reward",))),
}

RIGHT: Mapping[str, Case] = {
    "adapters": ("grpo", {**LORA, **BESIDE}, {"vllm_server": "http://x"}, ()),
    "early": ("grpo", AHEAD, {"vllm_python": "/opt/vllm/bin/python"}, ()),
    "early, by options": ("grpo", LORA, {**ADAPTERS, "staleness_bound": 2}, ()),
    "auto says nothing": ("grpo", {**LORA, "sync_payload": "auto"}, ADAPTERS, ()),
    "whole": ("grpo", {"sync_payload": "canonical"}, SERVED, ()),
    "ranks": ("grpo", SHARDED, {}, ()),
    "ranks that sample": ("rejection_sampling", SHARDED, {}, ()),
    "a reference": ("grpo", {"reference": "copy"}, {"beta": 0.1}, ()),
    "ppo's": ("ppo", {"reference": "copy"}, {}, ()),
    "an adapter's": ("grpo", {**LORA, "reference": "adapter"}, {"beta": 0.1}, ()),
    "turns": ("grpo", {}, {"environment": "retry"}, ()),
    "judged": ("rejection_sampling", {"reward": "learned"}, {}, ("reward",)),
    "dpo's": ("dpo", {"reference": "copy"}, {}, ("reference",)),
}


def found(case: Case) -> list[PlanRefused]:
    kind, stated, settings, inputs = case
    plan = plan_of("p", kind, stated, settings, inputs=inputs)
    validate(plan)
    assert list(unrunnable(plan, kind)) == []
    return list(contradictions(plan, kind, settings, inputs))


@pytest.mark.parametrize("name", REFUSED)
def test_a_plan_that_the_program_s_settings_contradict_is_refused(name: str) -> None:
    axis, case = REFUSED[name]
    refused = found(case)
    assert axis in [each.axis for each in refused], [str(each) for each in refused]
    assert all(
        "write" in each.fix or "name" in each.fix or "mount" in each.fix for each in refused
    )


@pytest.mark.parametrize("name", RIGHT)
def test_a_plan_that_they_go_with_is_not(name: str) -> None:
    assert [str(each) for each in found(RIGHT[name])] == []


@pytest.mark.parametrize("kind", sorted(FIXED))
def test_no_kind_contradicts_itself(kind: str) -> None:
    assert found((kind, {}, {}, ())) == []


def test_every_contradiction_is_one_of_those_above() -> None:
    told = {(each.axis, each.rule) for _, case in REFUSED.values() for each in found(case)}
    assert told == {(each.axis, each.rule) for each in CONTRADICTIONS}


def test_a_search_over_what_decides_an_axis_is_looked_at_again() -> None:
    assert {"beta", "environment", "generation", "vllm_server"} <= deciding("grpo")
    assert deciding("sft") == frozenset()
