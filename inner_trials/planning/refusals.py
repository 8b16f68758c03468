"""The first checks of a plan, in their fixed order and with their fixed messages."""

from collections.abc import Iterator
from typing import Final

from inner_trials.planning.axes import (
    CORRECTIONS,
    NONE,
    VALUES,
    Plan,
    PlanRefused,
    home_of,
    one_of,
)

ONLINE_REWARDS: Final = ("verifier", "learned", "environment")


def first_refusals(plan: Plan) -> Iterator[PlanRefused]:
    """What these checks refuse, the first first. Values added since are checked by other rules."""
    yield from _names(plan)
    if plan.stage == "sft":
        yield from _sft(plan)
    if plan.stage == "dpo":
        yield from _dpo(plan)
    if plan.stage == "online_rl":
        yield from _online_rl(plan)
        yield from _actors(plan)
    is_online = _is(plan.stage, "online_rl", "rejection_sampling")
    if not is_online and not _is(plan.rollout_precision, NONE):
        yield _no(
            plan,
            "rollout_precision",
            "offline stages do not have rollout precision",
            "write rollout_precision: none",
        )


def _no(plan: Plan, axis: str, text: str, fix: str) -> PlanRefused:
    return PlanRefused(axis, getattr(plan, axis), text, fix, text)


def _is(value: object, *words: str) -> bool:
    # Not a set's `in`: a value may be anything, also what cannot be hashed.
    return isinstance(value, str) and value in words


def _named(plan: Plan, axis: str, text: str) -> Iterator[PlanRefused]:
    value = getattr(plan, axis)
    if not _is(value, *VALUES[axis]):
        home = home_of(value, axis)
        fix = f"{value} belongs to the axis {home}; here " if home else ""
        yield _no(plan, axis, text, f"{fix}{one_of(axis)}")


def _names(plan: Plan) -> Iterator[PlanRefused]:
    yield from _named(plan, "stage", "stage must be sft, dpo, or online_rl")
    yield from _named(plan, "trainer", "unsupported trainer backend")
    yield from _named(plan, "parameterization", "unsupported parameterization")


def _sft(plan: Plan) -> Iterator[PlanRefused]:
    for axis in ("reward", "optimizer", "rollout", "sync"):
        if not _is(getattr(plan, axis), NONE):
            yield _no(
                plan,
                axis,
                "SFT has no reward, RL optimizer, rollout, or weight sync",
                f"write {axis}: none, or another stage",
            )


def _dpo(plan: Plan) -> Iterator[PlanRefused]:
    if plan.reward != "preferences":
        text = "DPO needs chosen/rejected preferences"
        yield _no(plan, "reward", text, "write reward: preferences")
    for axis in ("rollout", "sync"):
        if not _is(getattr(plan, axis), NONE):
            text = "DPO is offline: rollout and weight sync must be none"
            yield _no(plan, axis, text, f"write {axis}: none")
    if plan.optimizer != NONE:
        text = "DPO uses its preference loss, not an online RL optimizer"
        yield _no(plan, "optimizer", text, "write optimizer: none")


def _online_rl(plan: Plan) -> Iterator[PlanRefused]:
    if not _is(plan.reward, *ONLINE_REWARDS):
        yield _no(
            plan,
            "reward",
            "online RL needs verifier, learned, or environment reward",
            "write reward: verifier, learned or environment (a judge is learned)",
        )
    if not _is(plan.optimizer, "grpo", "ppo"):
        home = home_of(plan.optimizer, "optimizer")
        hint = f" ({plan.optimizer} belongs to the axis {home})" if home else ""
        text = "online RL needs GRPO or PPO in this reference planner"
        yield _no(plan, "optimizer", text, f"write optimizer: grpo or ppo{hint}")
    if plan.optimizer == "grpo" and _is_below_two(plan.group_size):
        yield _no(plan, "group_size", "GRPO needs group_size >= 2", "write group_size: 2 or more")
    if not _is(plan.rollout, "colocated", "disaggregated"):
        text = "online RL needs colocated or disaggregated rollouts"
        yield _no(plan, "rollout", text, "write rollout: colocated or disaggregated")
    if plan.rollout == "colocated" and plan.sync != "local":
        text = "colocated RL uses local phase-to-phase weight visibility"
        yield _no(plan, "sync", text, "write sync: local")
    if plan.rollout == "disaggregated" and not _is(plan.sync, "full", "delta"):
        text = "disaggregated RL needs full or delta weight sync"
        yield _no(plan, "sync", text, "write sync: full or delta")


def _actors(plan: Plan) -> Iterator[PlanRefused]:
    is_quantized = plan.train_precision == "bf16" and _is(plan.rollout_precision, "fp8", "int8")
    if is_quantized and not _is(plan.correction, *CORRECTIONS):
        yield _no(
            plan,
            "correction",
            "BF16 trainer with FP8/INT8 rollouts needs an importance correction",
            "write correction: tis or importance_sampling, or rollout_precision: bf16",
        )
    is_proven = plan.sync_payload == "verified_format_aware"
    if plan.sync == "delta" and plan.rollout_precision == "int8" and not is_proven:
        yield _no(
            plan,
            "sync",
            "INT8 rollout delta needs a verified format-aware synchronization path",
            "write sync: full, or sync_payload: verified_format_aware once it is verified",
        )


def _is_below_two(count: object) -> bool:
    return not isinstance(count, int | float) or count < 2
