"""The planner: the user's acceptance example word for word, and each further rule by itself."""

import ast
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from inner_trials import plan as planner
from inner_trials.plan import (
    AXES,
    RULES,
    Plan,
    PlanRefused,
    refusals,
    rollout_gpu_floor,
    validate,
)
from inner_trials.planning.precision import WORD_RULES
from tests.unit.inner_trials import plan_examples as e


@pytest.mark.parametrize("plan", e.VALID, ids=lambda plan: plan.name)
def test_a_plan_that_is_right_is_accepted(plan: Plan) -> None:
    validate(plan)
    assert list(refusals(plan)) == []


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (replace(e.grpo, group_size=1), "GRPO needs group_size >= 2"),
        (
            replace(e.dpo, rollout="disaggregated", sync="full", rollout_precision="bf16"),
            "DPO is offline: rollout and weight sync must be none",
        ),
        (
            replace(e.grpo, reward="none"),
            "online RL needs verifier, learned, or environment reward",
        ),
        (replace(e.grpo, sync="none"), "disaggregated RL needs full or delta weight sync"),
        (
            replace(e.grpo, correction="none"),
            "BF16 trainer with FP8/INT8 rollouts needs an importance correction",
        ),
        (
            replace(e.grpo, rollout_precision="int8", sync="delta"),
            "INT8 rollout delta needs a verified format-aware synchronization path",
        ),
        # the messages that the example only defines
        (replace(e.sft, stage="pretrain"), "stage must be sft, dpo, or online_rl"),
        (replace(e.sft, trainer="ddp"), "unsupported trainer backend"),
        (replace(e.sft, parameterization="prefix"), "unsupported parameterization"),
        (
            replace(e.sft, reward="verifier"),
            "SFT has no reward, RL optimizer, rollout, or weight sync",
        ),
        (replace(e.dpo, reward="none"), "DPO needs chosen/rejected preferences"),
        (
            replace(e.dpo, optimizer="grpo"),
            "DPO uses its preference loss, not an online RL optimizer",
        ),
        (
            replace(e.grpo, optimizer="rlvr"),
            "online RL needs GRPO or PPO in this reference planner",
        ),
        (
            replace(e.grpo, rollout="none"),
            "online RL needs colocated or disaggregated rollouts",
        ),
        (
            replace(e.grpo, rollout="colocated"),
            "colocated RL uses local phase-to-phase weight visibility",
        ),
        (
            replace(e.sft, rollout_precision="bf16"),
            "offline stages do not have rollout precision",
        ),
    ],
)
def test_the_fixed_messages_are_kept_word_for_word(plan: Plan, message: str) -> None:
    with pytest.raises(PlanRefused) as caught:
        validate(plan)
    assert isinstance(caught.value, ValueError)
    assert str(caught.value) == message
    assert caught.value.axis in AXES
    assert caught.value.fix.startswith("write ")


def test_the_first_thing_wrong_is_said_first() -> None:
    wrong = replace(
        *(e.grpo,), trainer="ddp", parameterization="x", reward="none", group_size=0, sync="none"
    )
    said = []
    for repair in (
        {"trainer": "fsdp2"},
        {"parameterization": "lora"},
        {"reward": "verifier"},
        {"group_size": 8},
        {"sync": "full"},
    ):
        with pytest.raises(PlanRefused) as caught:
            validate(wrong)
        said.append(caught.value.axis)
        wrong = replace(wrong, **repair)  # type: ignore[arg-type]  # each of its own type
    validate(wrong)
    assert said == ["trainer", "parameterization", "reward", "group_size", "sync"]


def test_the_rate_model_gives_the_example_s_six_gpus() -> None:
    assert rollout_gpu_floor(64, 8, 2048, 10_000, 20) == 6
    assert rollout_gpu_floor(64, 16, 2048, 10_000, 20) == 11
    assert rollout_gpu_floor(1, 1, 1, 10_000, 20) == 1
    assert rollout_gpu_floor(10**18, 1, 1, 1, 1) == 10**18


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("value", [0, -1])
def test_the_rate_model_takes_only_positive_numbers(place: int, value: int) -> None:
    numbers = [64, 8, 2048, 10_000, 20]
    numbers[place] = value
    with pytest.raises(ValueError, match=r"^rate-model inputs must all be positive$"):
        rollout_gpu_floor(*numbers)


BROKEN: list[tuple[Plan, Mapping[str, object], str, str]] = [
    # stages
    (e.reward_model, {"reward": "verifier"}, "reward", "learns from chosen and rejected pairs"),
    (e.reward_model, {"rollout": "colocated"}, "rollout", "a reward model is trained offline"),
    (e.best_of_n, {"sync": "local"}, "sync", "no weights change under the actors"),
    (e.best_of_n, {"optimizer": "grpo"}, "optimizer", "updates no policy by rewards"),
    (e.best_of_n, {"reward": "none"}, "reward", "keeps what a scorer likes"),
    (e.best_of_n, {"group_size": 0}, "group_size", "samples at least one answer"),
    (e.best_of_n, {"rollout": "none"}, "rollout", "generates its candidates"),
    (e.plain, {"rollout_precision": "none"}, "rollout_precision", "every precision plane"),
    (e.sft, {"group_size": 8}, "group_size", "samples no completions"),
    (e.ppo, {"group_size": 0}, "group_size", "at least one completion"),
    # signals
    (e.dpo, {"loss_type": "dapo"}, "loss_type", "no loss of this stage"),
    (e.dpo, {"reference": "none"}, "reference", "DPO needs a fixed reference policy"),
    (e.dpo, {"reference": "moving"}, "reference", "DPO needs a fixed reference policy"),
    (e.sft, {"reference": "copy"}, "reference", "has no reference policy"),
    (
        replace(e.dpo, parameterization="full"),
        {"reference": "adapter"},
        "reference",
        "there is no adapter to turn off",
    ),
    (e.grpo, {"reference": "precomputed"}, "reference", "still to be sampled"),
    (e.ppo, {"value_model": "none"}, "value_model", "PPO needs a value model"),
    (e.grpo, {"value_model": "separate"}, "value_model", "only PPO trains a value model"),
    (e.grpo, {"scorer": "judge"}, "scorer", "only a learned reward has a scorer"),
    (
        e.grpo,
        {"reward": "learned", "reward_version": "latest"},
        "reward_version",
        "a learned reward needs its version",
    ),
    (e.grpo, {"reward_version": " Main "}, "reward_version", "a verifier or environment"),
    (e.dpo, {"reward_version": "1"}, "reward_version", "without a scorer"),
    (
        replace(e.grpo, rollout_strategy="multi_turn"),
        {"environment_version": ""},
        "environment_version",
        "are other data",
    ),
    (e.grpo, {"environment_version": "3"}, "environment_version", "there is none"),
    # experience
    (e.dpo, {"rollout_strategy": "group"}, "rollout_strategy", "samples nothing"),
    (e.grpo, {"rollout_strategy": "none"}, "rollout_strategy", "training distribution"),
    (e.grpo, {"rollout_strategy": "best_of_n"}, "rollout_strategy", "needs the losers too"),
    (e.best_of_n, {"rollout_strategy": "group"}, "rollout_strategy", "keeps the best of N"),
    (e.grpo, {"rollout_strategy": "bounded_replay"}, "rollout_strategy", "their age has a bound"),
    (e.grpo, {"rollout_record": "text"}, "rollout_record", "may be tokenized otherwise"),
    (e.dpo, {"correction": "tis"}, "correction", "no rollouts to correct for"),
    (e.grpo, {"behaviour_logprobs": False}, "behaviour_logprobs", "divides by the actors' own"),
    (
        e.asynchronous,
        {"behaviour_logprobs": False},
        "behaviour_logprobs",
        "asynchronous trajectories keep",
    ),
    (
        replace(e.ppo, rollout_precision="bf16", correction="none"),
        {"behaviour_logprobs": False},
        "behaviour_logprobs",
        "PPO's ratio",
    ),
    (e.grpo, {"evaluator_frozen": False}, "evaluator_frozen", "what judges it"),
    # precision planes: words from elsewhere
    (e.sft, {"train_precision": "nf4"}, "train_precision", "NF4 stores a frozen base"),
    (e.sft, {"train_precision": "int4"}, "train_precision", "lose small updates"),
    (e.grpo, {"rollout_precision": "gptq_int4"}, "rollout_precision", "no actor format"),
    (e.grpo, {"rollout_precision": "nf4"}, "rollout_precision", "NF4 stores a frozen base"),
    (e.sft, {"deployment_quant": "nf4"}, "deployment_quant", "says nothing about the serving"),
    (e.sft, {"deployment_quant": "int4"}, "deployment_quant", "not the method"),
    (e.dpo, {"base_precision": "awq_int4"}, "base_precision", "convert a finished model"),
    # precision planes
    (e.dpo, {"base_precision": "nf4"}, "base_precision", "requires an adapter"),
    (e.full, {"base_precision": "nf4"}, "base_precision", "requires an adapter"),
    (e.sft, {"base_precision": "bf16"}, "base_precision", "QLoRA is LoRA over a base in NF4"),
    (e.full, {"base_precision": "bf16"}, "base_precision", "there is no frozen base"),
    (e.dpo, {"base_precision": "none"}, "base_precision", "an adapter has a frozen base"),
    (e.dpo, {"base_precision": "nvfp4"}, "base_precision", "an FP4 base needs hardware"),
    (e.sft, {"train_precision": "fp8"}, "train_precision", "in higher precision"),
    (
        e.full,
        {"train_precision": "fp8", "hardware": "ampere"},
        "train_precision",
        "no FP8 training path",
    ),
    (e.full, {"train_precision": "fp16", "hardware": "cpu"}, "train_precision", "needs a GPU"),
    (e.full, {"gradient_precision": "fp8"}, "gradient_precision", "FP8 gradients belong"),
    (e.grpo, {"rollout_precision": "nvfp4"}, "rollout_precision", "FP4 actors need hardware"),
    (e.grpo, {"rollout_hardware": "ampere"}, "rollout_precision", "need Ada, Hopper or later"),
    (
        e.grpo,
        {"rollout_precision": "int8", "hardware": "blackwell"},
        "rollout_precision",
        "Blackwell has no INT8",
    ),
    (e.grpo, {"kv_precision": "nvfp4"}, "kv_precision", "an NVFP4 cache needs hardware"),
    (e.sft, {"kv_precision": "fp8"}, "kv_precision", "an offline stage has no actors"),
    (e.grpo, {"kv_precision": "none"}, "kv_precision", "actors have a KV cache"),
    (e.fp4, {"correction": "none"}, "correction", "actors in fewer bits"),
    (
        replace(e.grpo, train_precision="fp32"),
        {"correction": "none"},
        "correction",
        "actors in fewer bits",
    ),
    (e.plain, {"kv_precision": "fp8"}, "correction", "a quantized KV cache changes"),
    (
        replace(e.sft, deployment_quant="torchao_int4"),
        {"qat": "int4"},
        "qat",
        "QLoRA's base is frozen",
    ),
    (e.full, {"qat": "fp8"}, "qat", "prepares for the format that is served"),
    # synchronization
    (e.colocated, {"sync_payload": "packed"}, "sync_payload", "nothing is sent to actors"),
    (e.grpo, {"sync_payload": "none"}, "sync_payload", "has a format"),
    (
        e.grpo,
        {"sync": "delta", "sync_payload": "packed"},
        "sync_payload",
        "is not the difference of their weights",
    ),
    (e.plain, {"sync_payload": "packed"}, "sync_payload", "only low-bit actors"),
    (
        replace(e.grpo, parameterization="full"),
        {"sync_payload": "adapter"},
        "sync_payload",
        "there is no adapter to send",
    ),
    (e.plain, {"sync": "delta", "sync_payload": "adapter"}, "sync_payload", "is a delta already"),
    (e.fp4, {"sync": "delta"}, "sync", "alters whole blocks"),
    # trainer
    *(
        (e.sft, {axis: 2}, axis, "a single trainer is one process on one device")
        for axis in (
            *("data_parallel", "tensor_parallel", "pipeline_parallel", "context_parallel"),
            *("expert_parallel", "trainer_gpus"),
        )
    ),
    (
        replace(e.dpo, trainer="zero3"),
        {"pipeline_parallel": 2},
        "pipeline_parallel",
        "does not compose with pipeline stages",
    ),
    (e.dpo, {"trainer_gpus": 6, "tensor_parallel": 4}, "trainer_gpus", "multiply to"),
    (e.dpo, {"trainer_gpus": 8, "data_parallel": 4}, "trainer_gpus", "multiply to"),
    (e.dpo, {"trainer_gpus": 8, "expert_parallel": 3}, "expert_parallel", "in equal parts"),
    (e.dpo, {"hardware": "cpu", "trainer_gpus": 1}, "trainer_gpus", "has no GPUs"),
    # placement
    (e.grpo, {"placement": "colocated"}, "placement", "no placement of this rollout axis"),
    (e.sft, {"placement": "dedicated"}, "placement", "no placement of this rollout axis"),
    (e.dpo, {"rollout_gpus": 1}, "rollout_gpus", "nothing is rolled out"),
    (
        e.colocated,
        {"trainer_gpus": 8, "rollout_gpus": 4},
        "rollout_gpus",
        "colocated means one pool, so both GPU counts",
    ),
    (e.grpo, {"rollout_gpus": 0}, "rollout_gpus", "devices of their own"),
    (e.dpo, {"rollout_hardware": "hopper"}, "rollout_hardware", "so nothing runs on it"),
    (
        e.colocated,
        {"hardware": "hopper", "rollout_hardware": "ada"},
        "rollout_hardware",
        "both run on the same hardware",
    ),
    (e.sft, {"prefill_decode": "apart"}, "prefill_decode", "there are no actors"),
    (
        e.grpo,
        {"prefill_decode": "apart", "rollout_gpus": 1},
        "prefill_decode",
        "are two pools",
    ),
    # staleness
    (e.sft, {"staleness_bound": 1}, "staleness_bound", "without rollouts nothing gets stale"),
    (e.grpo, {"placement": "bounded_async"}, "staleness_bound", "need a staleness bound"),
    (e.colocated, {"staleness_bound": 1}, "staleness_bound", "waits for new weights"),
    (e.asynchronous, {"correction": "none"}, "correction", "stale trajectories are of another"),
    (
        replace(e.asynchronous, placement="elastic"),
        {"behaviour_logprobs": False},
        "behaviour_logprobs",
        "stale trajectories keep",
    ),
    (
        replace(e.best_of_n, rollout="disaggregated"),
        {"staleness_bound": 1},
        "staleness_bound",
        "does not change in this stage",
    ),
    (
        replace(e.asynchronous, rollout="colocated", sync="local", placement="elastic"),
        {"rollout_strategy": "bounded_replay"},
        "rollout_strategy",
        "lies between actors and a learner",
    ),
]


def test_every_plan_that_an_example_breaks_was_right_before() -> None:
    for plan, changes, _, _ in BROKEN:
        assert list(refusals(plan)) == [], changes


@pytest.mark.parametrize(("plan", "changes", "axis", "words"), BROKEN)
def test_a_broken_rule_names_its_axis_the_value_and_the_fix(
    plan: Plan, changes: Mapping[str, object], axis: str, words: str
) -> None:
    broken = replace(plan, **changes)  # type: ignore[arg-type]  # each of its axis's own type
    found = [refusal for refusal in refusals(broken) if words in refusal.rule]
    assert [refusal.axis for refusal in found] == [axis]
    assert str(found[0]).startswith(f"{axis}: {getattr(broken, axis)!r}: {found[0].rule}; ")
    assert found[0].fix.startswith(("write ", "leave it out"))
    with pytest.raises(PlanRefused):
        validate(broken)


def test_every_rule_has_an_example_that_breaks_it() -> None:
    seen = set()
    for plan, changes, _, words in BROKEN:
        broken = replace(plan, **changes)  # type: ignore[arg-type]  # as above
        seen |= {(r.axis, r.rule) for r in refusals(broken) if words in r.rule}
    assert {(rule.axis, rule.rule) for rule in (*RULES, *WORD_RULES)} - seen == set()


@pytest.mark.parametrize(
    ("changes", "home"),
    [
        ({"stage": "lora"}, "parameterization"),
        ({"stage": "grpo"}, "optimizer"),
        ({"optimizer": "dapo"}, "loss_type"),
        ({"optimizer": "rlvr"}, "reward"),
        ({"trainer": "qlora"}, "parameterization"),
        ({"reference": "judge"}, "scorer"),
    ],
)
def test_a_word_of_another_axis_is_sent_home(changes: Mapping[str, object], home: str) -> None:
    refusal = next(refusals(replace(e.grpo, **changes)))  # type: ignore[arg-type]  # a word
    assert f"the axis {home}" in f"{refusal.rule} {refusal.fix}"


def test_the_planner_needs_the_standard_library_only() -> None:
    for file in Path(planner.__file__).parent.glob("plan*/**/*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in (name.partition(".")[0] for name in names):
                assert name == "inner_trials" or name in sys.stdlib_module_names, file


def test_every_axis_says_what_it_may_be() -> None:
    from inner_trials.planning.axes import COUNTS, OPTIONAL_COUNTS, SWITCHES, VALUES, VERSIONS

    told = [*VALUES, *COUNTS, *OPTIONAL_COUNTS, *SWITCHES, *VERSIONS]
    assert sorted(told) == sorted(AXES)
