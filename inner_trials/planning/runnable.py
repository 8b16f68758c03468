"""Which plans ARL's own programs run: the others are valid, and need a command of your own."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Final

from inner_trials.planning.axes import AUTO, AXES, NONE, VALUES, Plan, PlanRefused
from inner_trials.planning.kinds import DEFAULTS, FIXED

_ELSEWHERE: Final = frozenset(
    {
        *("deployment_quant", "serving_kv_precision", "outer_controller", "evaluator_frozen"),
        *("reward_version", "hardware", "rollout_hardware", "trainer_gpus", "rollout_gpus"),
        *("group_size", "staleness_bound"),
    }
)
"""Axes that a training program has nothing to do with."""

_TRAINED: Final = ("fp32", "bf16", "fp16")
_TRAINING: Final[Mapping[str, tuple[str, ...]]] = {
    "trainer": ("single",),
    "parameterization": VALUES["parameterization"],
    "train_precision": _TRAINED,
}
_SHARDED: Final = {**_TRAINING, "trainer": ("single", "fsdp2", "zero3")}
"""By inner_trials/sharding.py, with any data_parallel; so are processes of one machine meant."""
RUNS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "sft": _SHARDED,
    "dpo": {
        **_SHARDED,
        "loss_type": VALUES["loss_type"],
        "reference": (AUTO, "adapter", "copy", "precomputed"),
    },
    "reward_model": _SHARDED,
    "rejection_sampling": {
        **_SHARDED,
        "reward": ("verifier", "learned"),
        "scorer": (AUTO, "reward_model"),
        "rollout_precision": _TRAINED,
        "rollout_strategy": (AUTO, "best_of_n"),
    },
    "grpo": {
        **_SHARDED,
        "loss_type": VALUES["loss_type"],
        "reward": ("verifier", "learned", "environment"),
        "scorer": (AUTO, "reward_model"),
        "rollout": ("colocated", "disaggregated"),
        "sync": ("local", "full"),
        "sync_payload": (AUTO, "canonical", "adapter"),
        "rollout_precision": _TRAINED,
        "correction": (NONE, "importance_sampling", "tis", "mis"),
        "placement": (AUTO, "colocated", "dedicated", "bounded_async"),
        "rollout_strategy": (AUTO, "group", "multi_turn"),
        "reference": (AUTO, NONE, "copy", "adapter"),
    },
    "ppo": {
        **_TRAINING,
        "train_precision": ("fp32", "bf16"),
        "reward": ("verifier", "learned"),
        "scorer": (AUTO, "reward_model"),
        "sync": ("local",),
        "rollout_precision": ("fp32", "bf16"),
        "rollout_strategy": (AUTO, "group"),
        "value_model": (AUTO, "shared"),
        "reference": (AUTO, NONE, "copy", "adapter"),
    },
}
"""By kind and axis, the values that its program runs. An axis that is not named runs only as it
is by default; a kind that is not named is not held to anything here."""

_USUAL: Final = {field.name: field.default for field in fields(Plan)}


def unrunnable(plan: Plan, kind: str) -> Iterator[PlanRefused]:
    """What the built-in program of that kind would leave undone of a valid plan."""
    if kind not in RUNS:
        return
    runs, given = RUNS[kind], {**_USUAL, **FIXED[kind], **DEFAULTS[kind]}
    for axis in AXES:
        value = getattr(plan, axis)
        allowed = runs.get(axis, (given[axis],))
        if axis in _ELSEWHERE or value in allowed or _says_the_same(plan, axis, value):
            continue
        yield PlanRefused(
            axis,
            value,
            f"the built-in {kind} program runs {' or '.join(str(word) for word in allowed)}",
            "write that, or program.kind: command with a launcher of your own",
        )


def _says_the_same(plan: Plan, axis: str, value: object) -> bool:
    """Stated as it is anyway, or what another axis is for."""
    if axis == "data_parallel":
        return value == 1 or plan.trainer != "single"  # a trainer that is not run is said so
    none_is_usual = (
        "value_model",
        "placement",
        "rollout_strategy",
        "kv_precision",
        "sync_payload",
    )
    return axis in none_is_usual and value == NONE
