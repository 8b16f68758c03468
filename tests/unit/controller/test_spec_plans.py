"""The study file's `program.plan`: what follows when it is left out, and what is refused."""

from typing import Any

import pytest

from controller.spec.errors import StudyRefused
from controller.spec.loading import json_schema, parse_study, resolved
from controller.spec.plan_section import (
    plan_document,
    plan_fault,
    planned_settings,
    study_plan,
    whole_plan,
)
from controller.spec.study import StudySpec
from controller.steps.attempt_specs import train_document
from inner_trials.plan import AXES, validate

LORA = {"parameterization": {"type": "categorical", "choices": ["full", "lora"]}}


def study(plan: dict[str, Any] | None = None, kind: str = "sft", **changes: Any) -> dict[str, Any]:
    program: dict[str, Any] = {"kind": kind, "options": changes.pop("options", {})}
    program |= {"argv": ["train"]} if kind == "command" else {"base": "b", "data": {"train": "t"}}
    return {
        "name": "planned",
        "objective": {"metric": "score", "direction": "maximize"},
        "program": program if plan is None else {**program, "plan": plan},
        "space": {"lr": {"type": "float", "low": 0.1, "high": 1.0}, **changes.pop("space", {})},
        "evaluator": {
            "program": "exact_match",
            "splits": {"search": "s.jsonl"},
            "metrics": {"score": {}},
        },
        "budget": {"trials": 3},
        **changes,
    }


def spec(plan: dict[str, Any] | None = None, kind: str = "sft", **changes: Any) -> StudySpec:
    return parse_study(study(plan, kind, **changes))


def problems(plan: dict[str, Any], kind: str = "sft", **changes: Any) -> list[str]:
    with pytest.raises(StudyRefused) as refused:
        spec(plan, kind, **changes)
    return [str(problem) for problem in refused.value.problems]


def test_without_a_plan_the_kind_says_it_all() -> None:
    plan = study_plan(spec(), {})
    assert plan is not None
    validate(plan)
    assert (plan.stage, plan.trainer, plan.parameterization) == ("sft", "single", "full")
    assert (plan.train_precision, plan.rollout, plan.outer_controller) == ("fp32", "none", "arl")
    on_gpu = study_plan(spec(resources={"gpus": 1}), {})
    assert on_gpu is not None
    assert on_gpu.train_precision == "bf16"


def test_a_command_without_a_plan_has_none() -> None:
    bare = spec(kind="command", space={"trainer": {"type": "int", "low": 1, "high": 2}})
    assert study_plan(bare, {}) is None
    assert whole_plan(bare) is None
    assert plan_document(bare, {}) is None
    assert plan_fault(bare, {"trainer": 1}) == ""


def test_options_are_axes_too() -> None:
    plan = study_plan(spec(options={"parameterization": "lora", "precision": "bf16"}), {})
    assert plan is not None
    assert (plan.parameterization, plan.train_precision) == ("lora", "bf16")
    assert planned_settings(spec({"parameterization": "lora"})) == {"parameterization": "lora"}
    assert planned_settings(spec({"stage": "dpo"}, "command")) == {}


@pytest.mark.parametrize(
    ("plan", "changes", "said"),
    [
        (
            {"stage": "dpo"},
            {},
            'program.plan.stage: "dpo": program.kind sft has stage sft; write sft, leave it out, '
            "or write another program.kind",
        ),
        ({"trainr": "single"}, {}, 'program.plan.trainr: "single": no such key; write trainer'),
        ({"group_size": "8"}, {}, 'program.plan.group_size: "8": it must be a whole number'),
        (
            {"trainer": "ddp"},
            {},
            'program.plan.trainer: "ddp": unsupported trainer backend; write',
        ),
        (
            {"trainer": "megatron"},
            {},
            "the built-in sft program runs single or fsdp2 or zero3; write",
        ),
        ({"qat": "int4", "deployment_quant": "torchao_int4"}, {}, "program.plan.qat:"),
        (
            {"parameterization": "lora"},
            {"options": {"parameterization": "full"}},
            "the program's setting parameterization says 'full'",
        ),
        (
            {"parameterization": "lora"},
            {"space": LORA},
            "space.parameterization searches it; leave it out",
        ),
        (
            {"base_precision": "nf4"},
            {"space": LORA},
            'program.plan.base_precision: "nf4": an NF4 base is frozen',
        ),
        (
            {},
            {"options": {"parameterization": "prefix"}},
            'program.options.parameterization: "prefix": unsupported parameterization',
        ),
        (
            {},
            {"space": {"parameterization": {"type": "categorical", "choices": ["x", "lora"]}}},
            'space.parameterization: "x": the baseline\'s: unsupported parameterization',
        ),
        ({"trainer_gpus": 1}, {}, "a trial gets 0 GPUs (resources.gpus)"),
    ],
)
def test_a_plan_that_cannot_be_names_the_key(
    plan: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    assert any(said in problem for problem in problems(plan, **changes))


def test_a_command_s_plan_says_what_it_trains() -> None:
    (problem,) = problems({"trainer": "fsdp2"}, "command")
    assert problem.startswith(
        "program.plan.stage: a command's plan says what it trains; write sft"
    )
    (problem,) = problems(
        {"stage": "online_rl", "train_precision": "bf16", "rollout_precision": "fp8"}, "command"
    )
    assert problem.startswith(
        'program.plan.correction: "none": BF16 trainer with FP8/INT8 rollouts needs an importance '
        "correction; write correction: tis"
    )


def test_all_that_is_wrong_is_said_at_once() -> None:
    plan = {"stage": "online_rl", "behaviour_logprobs": False, "correction": "tis"}
    found = problems({**plan, "rollout_record": "text", "qat": "int8"}, "command")
    fields = {problem.partition(":")[0] for problem in found}
    assert fields == {f"program.plan.{a}" for a in ("behaviour_logprobs", "rollout_record", "qat")}


def test_what_is_stored_reads_back_as_the_same_plan() -> None:
    given = spec({"deployment_quant": "awq_int4"}, space=LORA)
    program = given.program.model_copy(update={"plan": whole_plan(given)})
    stored = given.model_copy(update={"program": program})
    assert parse_study(resolved(stored)) == stored
    for choice in ("full", "lora"):
        params = {"lr": 0.5, "parameterization": choice}
        assert study_plan(stored, params) == study_plan(given, params)


def test_a_searched_axis_is_checked_for_each_trial() -> None:
    plan = {"stage": "online_rl", "train_precision": "bf16", "correction": "none"}
    words = {"type": "categorical", "choices": ["bf16", "fp8"]}
    searched = spec(plan, "command", space={"rollout_precision": words})
    assert plan_fault(searched, {"lr": 0.5, "rollout_precision": "bf16"}) == ""
    fault = plan_fault(searched, {"lr": 0.5, "rollout_precision": "fp8"})
    assert fault.startswith("correction: 'none': BF16 trainer with FP8/INT8 rollouts needs")
    document = plan_document(searched, {"lr": 0.5, "rollout_precision": "bf16"})
    assert document is not None
    assert document["rollout_precision"] == "bf16"


def test_a_command_s_own_optimizer_is_not_taken_for_the_axis() -> None:
    own = {"type": "categorical", "choices": ["adamw", "sgd"]}
    given = spec({"stage": "sft"}, "command", space={"optimizer": own}, options={"sync": "often"})
    assert plan_fault(given, {"lr": 0.5, "optimizer": "sgd"}) == ""
    plan = study_plan(given, {"lr": 0.5, "optimizer": "sgd"})
    assert plan is not None
    assert (plan.optimizer, plan.sync) == ("none", "none")


def test_editors_are_told_every_axis_and_its_words() -> None:
    definition: Any = json_schema()["$defs"]
    axes = definition["PlanSpec"]["properties"]
    assert sorted(axes) == sorted(AXES)
    assert axes["trainer"]["anyOf"][0]["enum"] == ["single", "fsdp2", "zero3", "megatron"]
    assert all(axis["description"] for axis in axes.values())


def test_a_program_is_told_the_plan_in_its_own_words() -> None:
    given = spec({"parameterization": "lora"}, options={"max_steps": 5})
    document = train_document(given, {"lr": 0.5}, trial_id="t", seed=7)
    assert document["options"] == {"parameterization": "lora", "max_steps": 5}
    assert document["parameters"] == {"lr": 0.5}
    plan = document["plan"]
    assert isinstance(plan, dict)
    assert plan["parameterization"] == "lora"
    bare = train_document(spec(kind="command"), {}, trial_id="t", seed=7)
    assert (bare["options"], bare["plan"]) == ({}, None)
