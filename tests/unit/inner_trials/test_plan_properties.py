"""What holds of every plan there is: the planner is total, and lets nothing wrong through."""

from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inner_trials.plan import AXES, Plan, PlanRefused, refusals, rollout_gpu_floor, validate
from inner_trials.planning.axes import COUNTS, OPTIONAL_COUNTS, SWITCHES, VALUES, VERSIONS
from tests.unit.inner_trials import plan_examples as e

WORDS = sorted({word for words in VALUES.values() for word in words} | {"rlvr", "int4", ""})
STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=True),
    st.text(max_size=5),
    st.sampled_from(WORDS),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.none(), max_size=1),
    st.binary(max_size=2),
    st.just(10**400),
)


def of_axis(axis: str) -> st.SearchStrategy[object]:
    """Values that the axis knows; of counts and versions, a few."""
    if axis in VALUES:
        return st.sampled_from(VALUES[axis])
    if axis in SWITCHES:
        return st.booleans()
    if axis in VERSIONS:
        return st.sampled_from([None, "", "latest", "v1"])
    counts: list[int | None] = [0, 1, 2, 3, 8]
    return st.sampled_from(
        [n for n in [*counts, None] if (n is None) == (axis in OPTIONAL_COUNTS) or n]
    )


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """A valid plan with some axes changed, so that many stay valid."""
    plan = draw(st.sampled_from(e.VALID))
    changed = draw(st.lists(st.sampled_from(AXES), max_size=3, unique=True))
    return replace(plan, **{axis: draw(of_axis(axis)) for axis in changed})  # type: ignore[arg-type]  # each of its own kind


@st.composite
def any_plans(draw: st.DrawFn) -> Plan:
    values = {f.name: draw(st.one_of(of_axis(f.name), STRANGE)) for f in fields(Plan)[1:]}
    return Plan(name="any", **values)  # type: ignore[arg-type]  # of any type on purpose


def refusal_of(plan: Plan) -> PlanRefused | None:
    """Why it is refused, whole; any other error is raised."""
    try:
        validate(plan)
    except PlanRefused as refusal:
        return refusal
    return None


def is_accepted(plan: Plan) -> bool:
    refusal = refusal_of(plan)
    if refusal is None:
        return True
    assert refusal.axis in AXES
    assert refusal.rule
    assert "write" in refusal.fix or "leave it out" in refusal.fix
    assert str(refusal)
    assert "\n" not in str(refusal)
    return False


@settings(max_examples=80)
@given(any_plans())
def test_any_values_are_accepted_or_refused_with_a_fix(plan: Plan) -> None:
    assert is_accepted(plan) in (True, False)


@settings(max_examples=300)
@given(st.sampled_from(e.VALID), st.sampled_from(AXES), STRANGE)
def test_one_strange_value_is_never_another_error(plan: Plan, axis: str, value: object) -> None:
    changed = replace(plan, **{axis: value})  # type: ignore[arg-type]  # of any type on purpose
    known = isinstance(value, str) and value in VALUES.get(axis, ())
    if is_accepted(changed) and axis in VALUES:
        assert known


def check_offline(plan: Plan) -> None:
    if plan.stage == "sft":
        assert {plan.reward, plan.optimizer, plan.rollout, plan.sync} == {"none"}
    if plan.stage in ("dpo", "reward_model"):
        assert plan.reward == "preferences"
        assert {plan.optimizer, plan.rollout, plan.sync} == {"none"}
    if plan.stage == "dpo":
        assert plan.reference not in ("none", "moving")
    if plan.stage in ("sft", "dpo", "reward_model"):
        assert (plan.rollout_precision, plan.group_size, plan.staleness_bound) == ("none", 0, 0)
        assert not plan.rollout_gpus
    assert plan.correction == "none" or plan.stage == "online_rl"


def check_online(plan: Plan) -> None:
    if plan.stage != "online_rl":
        return
    assert plan.reward in ("verifier", "learned", "environment")
    assert plan.optimizer in ("grpo", "ppo")
    assert plan.sync in ({"full", "delta"} if plan.rollout == "disaggregated" else {"local"})
    assert plan.rollout_strategy != "best_of_n"
    assert plan.rollout_record == "token_ids"
    assert plan.optimizer != "grpo" or plan.group_size >= 2
    assert plan.optimizer != "ppo" or plan.value_model != "none"
    assert (plan.reward_version or "x").lower() not in ("", "latest", "main")


def check_actors(plan: Plan) -> None:
    low = plan.rollout_precision in ("fp8", "int8", "nvfp4", "mxfp4")
    if plan.stage == "online_rl" and low and plan.rollout_precision != plan.train_precision:
        assert plan.correction != "none"
        assert plan.behaviour_logprobs
    if "nvfp4" in (plan.rollout_precision, plan.kv_precision):
        assert "blackwell" in (plan.hardware, plan.rollout_hardware)
    if plan.sync == "delta":
        assert plan.sync_payload not in ("packed", "adapter")
        safe = plan.rollout_precision in ("fp32", "bf16", "fp16", "fp8")
        assert safe or plan.sync_payload == "verified_format_aware"


def check_staleness(plan: Plan) -> None:
    if plan.staleness_bound:
        assert plan.rollout == "disaggregated" or plan.placement == "elastic"
        assert plan.correction != "none"
        assert plan.behaviour_logprobs
    if plan.placement == "bounded_async" or plan.rollout_strategy == "bounded_replay":
        assert plan.staleness_bound >= 1


def check_planes(plan: Plan) -> None:
    assert plan.base_precision != "nf4" or plan.parameterization == "qlora"
    assert "nf4" not in (plan.train_precision, plan.rollout_precision, plan.deployment_quant)
    assert not {"int4", "gptq_int4", "awq_int4"} & {plan.rollout_precision, plan.train_precision}


def check_pools(plan: Plan) -> None:
    if plan.rollout == "colocated" and None not in (plan.trainer_gpus, plan.rollout_gpus):
        assert plan.trainer_gpus == plan.rollout_gpus
    if plan.trainer == "single":
        assert (plan.trainer_gpus or 0, plan.tensor_parallel) <= (1, 1)
    if plan.outer_controller in ("arl", "autoresearch-rl", "scheduler"):
        assert plan.evaluator_frozen


CHECKS = (check_offline, check_online, check_actors, check_staleness, check_planes, check_pools)
"""The rules once more, said without the planner's own words for them."""


@settings(max_examples=600)
@given(plans())
def test_no_accepted_plan_breaks_what_the_user_asked_for(plan: Plan) -> None:
    if is_accepted(plan):
        for check in CHECKS:
            check(plan)


@given(*[st.integers(1, 10**6)] * 5)
def test_the_gpu_floor_is_enough_and_one_less_is_not(
    prompts: int, group: int, tokens: int, rate: int, window: int
) -> None:
    gpus = rollout_gpu_floor(prompts, group, tokens, rate, window)
    demand = prompts * group * tokens
    assert gpus * rate * window >= demand
    assert (gpus - 1) * rate * window < demand
    assert rollout_gpu_floor(prompts, group + 1, tokens, rate, window) >= gpus


@given(st.floats())
def test_the_rate_model_takes_no_number_that_is_not_positive(value: float) -> None:
    if value > 0:
        return
    with pytest.raises(ValueError, match="must all be positive"):
        rollout_gpu_floor(1, 1, 1, 1, value)  # type: ignore[arg-type]  # what a form may send


def test_the_counts_have_the_least_that_the_page_says() -> None:
    for axis, least in (COUNTS | OPTIONAL_COUNTS).items():
        refusal = next(refusals(replace(e.grpo, **{axis: least - 1})))  # type: ignore[arg-type]  # a count
        assert refusal.axis == axis
