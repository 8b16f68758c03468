"""What a program kind says of its plan, and that planner and programs mean the same settings."""

import dataclasses
import importlib
from dataclasses import asdict, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from inner_trials.plan import AXES, Plan, PlanRefused, refusals, validate
from inner_trials.planning.kinds import DEFAULTS, FIXED, SETTINGS, axis_of, plan_of, settings_of
from inner_trials.planning.meanings import MEANINGS
from inner_trials.planning.runnable import RUNS, unrunnable

PROGRAMS = {"grpo": "grpo_settings", "ppo": "ppo_settings"}
"""Kinds whose Settings are in a module of another name."""
REFUSED = {("ppo", "precision", "fp16")}
"""Words of settings that all programs share, which one of them refuses when it starts."""


def settings_class(kind: str) -> Any:
    return importlib.import_module(f"inner_trials.{PROGRAMS.get(kind, kind)}").Settings


def default_plan(kind: str, **changes: Any) -> Plan:
    return plan_of("p", kind, changes, {})


@pytest.mark.parametrize("kind", sorted(FIXED))
@pytest.mark.parametrize("gpus", [0, 1])
def test_every_kind_is_a_valid_plan_that_its_program_runs(kind: str, gpus: int) -> None:
    plan = plan_of("p", kind, {}, {}, gpus=gpus)
    validate(plan)
    assert list(unrunnable(plan, kind)) == []
    assert plan.train_precision == ("bf16" if gpus else "fp32")


@pytest.mark.parametrize("kind", sorted(RUNS))
def test_each_setting_that_is_an_axis_is_one_of_the_program(kind: str) -> None:
    """And every word that the program takes makes a plan whose words the planner knows."""
    made = settings_class(kind)
    fields, hints = {f.name for f in dataclasses.fields(made)}, get_type_hints(made)
    for setting, axis in SETTINGS[kind].items():
        assert setting in fields, setting
        assert axis in AXES
        words = get_args(hints[setting]) if get_origin(hints[setting]) is Literal else ()
        for word in words:
            changed = plan_of("p", kind, {}, {setting: word, "vllm_server": "http://x"})
            strange = [r for r in refusals(changed) if "no such value" in r.rule]
            assert strange == [], (setting, word)
            said = {r.axis for r in unrunnable(changed, kind)}
            assert (axis in said) == ((kind, setting, word) in REFUSED), (setting, word)


@pytest.mark.parametrize("kind", sorted(RUNS))
def test_a_program_s_defaults_are_its_plan_s(kind: str) -> None:
    """Nothing changes when the plan that was left out is written down."""
    made = settings_class(kind)
    plan = default_plan(kind)
    defaults = {f.name: f.default for f in dataclasses.fields(made)}
    for setting, value in settings_of(kind, asdict(plan)).items():
        # What is left open follows from inputs or hardware, which the plan knows.
        assert defaults[setting] in ("auto", "", None, value), setting


def test_a_contradiction_of_the_kind_is_refused() -> None:
    for stated in ({"stage": "dpo"}, {"reward": "verifier"}, {"rollout": "colocated"}):
        (axis,) = stated
        with pytest.raises(PlanRefused, match=r"program\.kind sft has") as caught:
            default_plan("sft", **stated)
        assert caught.value.axis == axis
    with pytest.raises(PlanRefused, match=r"program\.kind grpo has optimizer grpo"):
        default_plan("grpo", optimizer="ppo")


def test_settings_are_read_and_written_by_their_own_names() -> None:
    said = {"num_generations": 4.0, "generation": "vllm_server", "loss_type": "dapo", "x": [1]}
    plan = plan_of("p", "grpo", {}, said)
    assert (plan.group_size, plan.rollout, plan.sync) == (4, "disaggregated", "full")
    assert (plan.loss_type, plan.correction) == ("dapo", "tis")
    validate(plan)
    stated = {"group_size": 4, "rollout": "disaggregated", "loss_type": "auto"}
    assert settings_of("grpo", stated) == {"num_generations": 4, "generation": "vllm_server"}
    assert settings_of("grpo", {"rollout": "colocated"}) == {}
    adapters = {"rollout": "disaggregated", "sync_payload": "adapter"}
    assert settings_of("grpo", adapters) == {"generation": "vllm_adapters"}
    sent = plan_of("p", "grpo", {"parameterization": "lora"}, {"generation": "vllm_adapters"})
    validate(sent)
    assert (sent.rollout, sent.sync, sent.sync_payload) == ("disaggregated", "full", "adapter")
    assert list(unrunnable(sent, "grpo")) == []
    assert axis_of("command", "trainer") == "trainer"
    assert axis_of("sft", "learning_rate") == ""


def test_what_is_mounted_says_what_rewards_and_what_is_held_against() -> None:
    assert plan_of("p", "dpo", {}, {}, inputs=("reference",)).reference == "copy"
    assert plan_of("p", "rejection_sampling", {}, {}, inputs=("reward",)).reward == "learned"
    assert plan_of("p", "rejection_sampling", {}, {}).reward == "verifier"


@pytest.mark.parametrize(
    ("kind", "axis", "value"),
    [
        ("sft", "trainer", "megatron"),
        ("ppo", "trainer", "fsdp2"),
        ("sft", "tensor_parallel", 2),
        ("dpo", "optimizer_precision", "int8"),
        ("grpo", "rollout_precision", "fp8"),
        ("grpo", "prefill_decode", "apart"),
        ("rejection_sampling", "rollout", "disaggregated"),
        ("ppo", "value_model", "separate"),
    ],
)
def test_what_a_program_would_leave_undone_is_said(kind: str, axis: str, value: Any) -> None:
    plan = replace(default_plan(kind), **{axis: value})
    found = list(unrunnable(plan, kind))
    assert axis in [refusal.axis for refusal in found]
    assert "program.kind: command" in found[0].fix
    assert list(unrunnable(plan, "command")) == []


def test_a_command_has_the_defaults_of_its_stage() -> None:
    for stage in ("sft", "dpo", "reward_model", "rejection_sampling", "online_rl"):
        plan = plan_of("p", "command", {"stage": stage}, {})
        validate(plan)
        assert plan.stage == stage
    ppo = plan_of("p", "command", {"stage": "online_rl", "optimizer": "ppo"}, {})
    assert (ppo.group_size, ppo.optimizer) == (1, "ppo")
    with pytest.raises(PlanRefused, match="says what it trains"):
        plan_of("p", "command", {"trainer": "single"}, {})
    assert set(DEFAULTS) == set(FIXED)


def test_every_axis_has_its_sentence() -> None:
    assert list(MEANINGS) == list(AXES)
    assert all(sentence.endswith(".") for sentence in MEANINGS.values())
