"""What a program kind says of its plan: the axes it fixes, its defaults, and which of a program's
settings are axes by another name."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from inner_trials.planning.axes import AUTO, AXES, NONE, Plan, PlanRefused, one_of

Axes: TypeAlias = Mapping[str, object]

_OFFLINE: Final[Axes] = {
    "reward": NONE,
    "optimizer": NONE,
    "rollout": NONE,
    "sync": NONE,
    "group_size": 0,
    "rollout_precision": NONE,
    "correction": NONE,
}
_PAIRS: Final[Axes] = {**_OFFLINE, "reward": "preferences"}

FIXED: Final[Mapping[str, Axes]] = {
    "sft": {"stage": "sft", **_OFFLINE},
    "dpo": {"stage": "dpo", **_PAIRS},
    "reward_model": {"stage": "reward_model", **_PAIRS},
    "rejection_sampling": {
        "stage": "rejection_sampling",
        "optimizer": NONE,
        "sync": NONE,
        "correction": NONE,
    },
    "grpo": {"stage": "online_rl", "optimizer": "grpo"},
    "ppo": {"stage": "online_rl", "optimizer": "ppo"},
}
"""What a kind is: a plan that says otherwise contradicts it."""

_EVERY: Final[Axes] = {
    "trainer": "single",
    "parameterization": "full",
    "deployment_quant": NONE,
    "outer_controller": "arl",
}
_ACTORS: Final[Axes] = {"rollout": "colocated", "reward": "verifier"}
DEFAULTS: Final[Mapping[str, Axes]] = {
    "sft": _EVERY,
    "dpo": _EVERY,
    "reward_model": _EVERY,
    "rejection_sampling": {**_EVERY, **_ACTORS, "group_size": 8},
    "grpo": {**_EVERY, **_ACTORS, "group_size": 8, "correction": NONE},
    "ppo": {**_EVERY, **_ACTORS, "group_size": 1, "correction": NONE},
}
"""What a kind is where nothing is said."""

_BY_STAGE: Final[Mapping[str, str]] = {
    "sft": "sft",
    "dpo": "dpo",
    "reward_model": "reward_model",
    "rejection_sampling": "rejection_sampling",
    "online_rl": "grpo",
}

_TRAINING: Final[Mapping[str, str]] = {
    "parameterization": "parameterization",
    "precision": "train_precision",
}
_LOSS: Final[Mapping[str, str]] = {**_TRAINING, "loss_type": "loss_type"}
SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "sft": _TRAINING,
    "dpo": {**_LOSS, "reference": "reference"},
    "reward_model": _TRAINING,
    "rejection_sampling": {"num_generations": "group_size"},
    "grpo": {**_LOSS, "num_generations": "group_size"},
    "ppo": _TRAINING,
    "command": {"num_generations": "group_size", "precision": "train_precision"},
}
"""Settings of each kind's program that are axes: by the setting's name, the axis's."""


def axis_of(kind: str, setting: str) -> str:
    """The axis that a program's setting, or a parameter of the space, is; else nothing."""
    known = SETTINGS.get(kind, {}).get(setting)
    return known or (setting if setting in AXES else "")


def plan_of(name: str, kind: str, stated: Axes, settings: Axes, *, gpus: int = 0) -> Plan:
    """The whole plan of a program: what is stated, what its settings say, and the rest as the
    kind has it.

    Args:
        stated: axes that the study's plan names.
        settings: the program's options and parameters; those that are axes count.
        gpus: of one trial.

    Raises:
        PlanRefused: the plan contradicts the kind or a setting, or says too little. Whether the
            whole is valid is `inner_trials.plan.validate`'s to say.
    """
    base = _kind_of(kind, stated)
    fixed, found = FIXED[base], {**FIXED[base], **DEFAULTS[base]}
    for setting, value in settings.items():
        axis = axis_of(kind, setting)
        if not axis or value in (AUTO, None):
            continue
        if axis in stated and stated[axis] != value:
            rule = f"the program's setting {setting} says {value!r}"
            raise PlanRefused(axis, stated[axis], rule, "write both alike, or leave one out")
        found[axis] = value
    for axis, value in stated.items():
        if kind != "command" and axis in fixed and value != fixed[axis]:
            raise PlanRefused(
                axis,
                value,
                f"program.kind {kind} has {axis} {fixed[axis]}",
                f"write {fixed[axis]}, leave it out, or write another program.kind",
            )
        found[axis] = value
    return _completed(Plan(name=name, **(_BLANK | found)), found, gpus)  # type: ignore[arg-type]  # validate tells


_BLANK: Final[dict[str, object]] = {
    "sync": AUTO,
    "train_precision": AUTO,
    "rollout_precision": AUTO,
    "group_size": 0,
}


def _completed(plan: Plan, found: Axes, gpus: int) -> Plan:
    """With what follows from other axes and from the hardware."""
    if plan.train_precision == AUTO:
        plan = replace(plan, train_precision="bf16" if gpus else "fp32")
    if plan.rollout_precision == AUTO:
        plan = replace(plan, rollout_precision=plan.train_precision)
    if plan.sync == AUTO:
        follows = {"colocated": "local", "disaggregated": "full"}
        plan = replace(plan, sync=follows.get(plan.rollout, NONE))
    return plan


def _kind_of(kind: str, stated: Axes) -> str:
    """Whose defaults count: a command's are those of its stage."""
    if kind != "command":
        return kind
    if stated.get("optimizer") == "ppo":
        return "ppo"
    stage = stated.get("stage")
    if stage is None:
        raise PlanRefused("stage", stage, "a command's plan says what it trains", one_of("stage"))
    return _BY_STAGE.get(stage, "sft") if isinstance(stage, str) else "sft"


def settings_of(kind: str, stated: Axes) -> dict[str, object]:
    """What a plan's axes are to the program of that kind: settings by name."""
    names = {axis: setting for setting, axis in SETTINGS.get(kind, {}).items()}
    return {
        names[axis]: value
        for axis, value in stated.items()
        if axis in names and value not in (AUTO, None)
    }
