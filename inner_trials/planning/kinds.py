"""What a program kind says of its plan: the axes it fixes, its defaults, and which of a program's
settings are axes by another name."""

from collections.abc import Collection, Mapping
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
_ACTORS: Final[Axes] = {**_EVERY, "rollout": "colocated", "reward": "verifier"}
DEFAULTS: Final[Mapping[str, Axes]] = {
    "sft": _EVERY,
    "dpo": _EVERY,
    "reward_model": _EVERY,
    "rejection_sampling": {**_ACTORS, "group_size": 4},
    "grpo": {**_ACTORS, "group_size": 8, "correction": "tis"},
    "ppo": {**_ACTORS, "group_size": 1, "correction": NONE, "value_model": "shared"},
}
"""What a kind is where nothing is said."""

BY_INPUT: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "dpo": {"reference": ("reference", "copy")},
    "grpo": {"reward": ("reward", "learned")},
    "ppo": {"reward": ("reward", "learned")},
    "rejection_sampling": {"reward": ("reward", "learned")},
}
"""Axes that follow from an input that the study mounts, by its name."""

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
_SHARDED: Final = {**_TRAINING, "trainer": "trainer", "data_parallel": "data_parallel"}
SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "sft": _SHARDED,
    "dpo": {**_SHARDED, "loss_type": "loss_type", "reference": "reference"},
    "reward_model": _SHARDED,
    "rejection_sampling": {
        **_SHARDED,
        "samples": "group_size",
        "reward_version": "reward_version",
    },
    "grpo": {
        **_SHARDED,
        "loss_type": "loss_type",
        "num_generations": "group_size",
        "generation": "rollout",
        "staleness_bound": "staleness_bound",
        "correction": "correction",
        "reward": "reward",
        "reward_version": "reward_version",
    },
    "ppo": {**_TRAINING, "reward": "reward", "reward_version": "reward_version"},
    "command": {"num_generations": "group_size", "precision": "train_precision"},
}
"""Settings of each kind's program that are axes: by the setting's name, the axis's."""

_WORDS: Final[Mapping[tuple[str, str], str]] = {
    ("generation", "transformers"): "colocated",
    ("generation", "vllm_colocated"): "colocated",
    ("generation", "vllm_server"): "disaggregated",
    ("generation", "vllm_adapters"): "disaggregated",
}
"""What a setting's word is on its axis, where it is another one."""
_SAID: Final[Mapping[tuple[str, object], str]] = {
    ("generation", "disaggregated"): "vllm_server",
    ("generation", "colocated"): "",
}
"""What an axis's word is to the program; nothing where its default is one of several."""


def axis_of(kind: str, setting: str) -> str:
    """The axis that a program's setting, or a parameter of the space, is; else nothing."""
    known = SETTINGS.get(kind, {}).get(setting)
    return known or (setting if setting in AXES else "")


def plan_of(
    name: str,
    kind: str,
    stated: Axes,
    settings: Axes,
    *,
    inputs: Collection[str] = (),
    gpus: int = 0,
) -> Plan:
    """The whole plan of a program: what is stated, what its settings say, and the rest as the
    kind has it.

    Args:
        stated: axes that the study's plan names.
        settings: the program's options and parameters; those that are axes count.
        inputs: names of what the study mounts.
        gpus: of one trial.

    Raises:
        PlanRefused: the plan contradicts the kind or a setting, or says too little. Whether the
            whole is valid is `inner_trials.plan.validate`'s to say.
    """
    base = _kind_of(kind, stated)
    found: dict[str, object] = {**FIXED[base], **DEFAULTS[base]}
    found |= dict(axis for name, axis in BY_INPUT.get(kind, {}).items() if name in inputs)
    if kind == "command":
        # What a program of your own does is yours to say.
        found |= {"correction": NONE, "value_model": AUTO}
    found |= _set_axes(kind, stated, settings)
    for axis, value in stated.items():
        fixed = FIXED[base].get(axis, value)
        if kind != "command" and value != fixed:
            raise PlanRefused(
                axis,
                value,
                f"program.kind {kind} has {axis} {fixed}",
                f"write {fixed}, leave it out, or write another program.kind",
            )
        if value != AUTO or axis not in found:
            found[axis] = value
    return _completed(Plan(name=name, **(_BLANK | found)), gpus)  # type: ignore[arg-type]  # validate tells


def _set_axes(kind: str, stated: Axes, settings: Axes) -> dict[str, object]:
    """The axes that settings are. Raises PlanRefused where the plan states another value."""
    found: dict[str, object] = {}
    for setting, said in settings.items():
        axis = axis_of(kind, setting)
        if not axis or said in (AUTO, None, ""):
            continue
        value = _word(setting, said)
        if stated.get(axis, AUTO) not in (AUTO, value):
            rule = f"the program's setting {setting} says {said!r}"
            raise PlanRefused(axis, stated[axis], rule, "write both alike, or leave one out")
        found[axis] = value
    if settings.get("generation") == "vllm_adapters":
        found["sync_payload"] = "adapter"
    if kind == "grpo" and settings.get("environment"):
        found |= {"reward": "environment", "rollout_strategy": "multi_turn"}
    return found


_BLANK: Final[dict[str, object]] = {
    "sync": AUTO,
    "train_precision": AUTO,
    "rollout_precision": AUTO,
    "group_size": 0,
}


def _word(setting: str, said: object) -> object:
    """A setting's value as its axis has it; programs take 8.0 for 8."""
    if isinstance(said, float) and said.is_integer():
        return int(said)
    return _WORDS.get((setting, said), said) if isinstance(said, str) else said


def _completed(plan: Plan, gpus: int) -> Plan:
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
    said = {
        names[axis]: _SAID.get((names[axis], value), value)
        for axis, value in stated.items()
        if axis in names and value not in (AUTO, None)
    }
    if said.get("generation") == "vllm_server" and stated.get("sync_payload") == "adapter":
        said["generation"] = "vllm_adapters"
    if said.get("staleness_bound") == 0:
        del said["staleness_bound"]  # a stored plan says it of every program
    return {setting: value for setting, value in said.items() if value != ""}
