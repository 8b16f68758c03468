"""The axes of a post-training plan and their values: one coordinate on each makes a system."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

AUTO: Final = "auto"
"""What the other axes imply."""
NONE: Final = "none"


@dataclass(frozen=True)
class Plan:
    """One post-training system. No axis is an alternative to another: each is chosen by itself.

    The first fourteen fields have no default. A further axis left at `auto` or None is what the
    others imply, or is settled later. `inner_trials.planning.meanings` says what each one is.
    """

    name: str
    stage: str
    trainer: str
    parameterization: str
    rollout: str
    reward: str
    optimizer: str
    group_size: int
    sync: str
    train_precision: str
    rollout_precision: str
    correction: str
    deployment_quant: str
    outer_controller: str

    loss_type: str = AUTO
    value_model: str = AUTO
    reference: str = AUTO
    scorer: str = AUTO
    reward_version: str | None = None
    environment_version: str | None = None
    data_parallel: int | None = None
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    context_parallel: int = 1
    expert_parallel: int = 1
    trainer_gpus: int | None = None
    rollout_gpus: int | None = None
    placement: str = AUTO
    prefill_decode: str = "together"
    staleness_bound: int = 0
    rollout_strategy: str = AUTO
    behaviour_logprobs: bool = True
    rollout_record: str = "token_ids"
    base_precision: str = AUTO
    gradient_precision: str = AUTO
    optimizer_precision: str = AUTO
    kv_precision: str = AUTO
    sync_payload: str = AUTO
    serving_kv_precision: str = AUTO
    qat: str = NONE
    hardware: str = AUTO
    rollout_hardware: str = AUTO
    evaluator_frozen: bool = True


class PlanRefused(ValueError):
    """A plan that cannot be right.

    `axis` is the field to change, `value` what it has, `rule` what must hold, `fix` what to write,
    and `sentence` all of it. `str()` is that sentence too, except where the message is fixed.
    """

    def __init__(self, axis: str, value: object, rule: str, fix: str, text: str = "") -> None:
        self.axis, self.value, self.rule, self.fix = axis, value, rule, fix
        self.sentence = f"{axis}: {shown(value)}: {rule}; {fix}"
        super().__init__(text or self.sentence)


_FULL_PRECISIONS: Final = ("fp32", "bf16", "fp16")
FP4: Final = ("nvfp4", "mxfp4")
LOW_PRECISIONS: Final = ("fp8", "int8", *FP4)

GRPO_LOSSES: Final = ("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo")
DPO_LOSSES: Final = (
    "sigmoid hinge ipo exo_pair nca_pair robust bco_pair sppo_hard aot aot_unpaired apo_zero "
    "apo_down discopop sft sigmoid_norm"
).split()
SFT_LOSSES: Final = ("nll", "dft")
CORRECTIONS: Final = (
    *("importance_sampling", "tis", "mis"),
    *("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
)
"""`tis` is TRL's token_truncate, `mis` its token_mask; the last four are its own names."""

HARDWARE: Final = ("cpu", "ampere", "ada", "hopper", "blackwell")

VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "stage": ("sft", "dpo", "online_rl", "reward_model", "rejection_sampling"),
    "trainer": ("single", "fsdp2", "zero3", "megatron"),
    "parameterization": ("full", "lora", "qlora"),
    "rollout": (NONE, "colocated", "disaggregated"),
    "reward": (NONE, "preferences", "verifier", "learned", "environment"),
    "optimizer": (NONE, "grpo", "ppo"),
    "sync": (NONE, "local", "full", "delta"),
    "train_precision": (*_FULL_PRECISIONS, "fp8"),
    "rollout_precision": (NONE, *_FULL_PRECISIONS, *LOW_PRECISIONS),
    "correction": (NONE, *CORRECTIONS),
    "deployment_quant": (
        *(NONE, "awq_int4", "gptq_int4", "torchao_int4", "smoothquant_int8", "torchao_int8"),
        *("fp8", *FP4),
    ),
    "outer_controller": (NONE, "human", "scheduler", "autoresearch-rl", "arl"),
    "loss_type": (AUTO, *SFT_LOSSES, *DPO_LOSSES, *GRPO_LOSSES),
    "value_model": (AUTO, NONE, "separate", "shared"),
    "reference": (AUTO, NONE, "copy", "adapter", "precomputed", "moving"),
    "scorer": (AUTO, "reward_model", "judge"),
    "placement": (AUTO, NONE, "colocated", "dedicated", "bounded_async", "elastic"),
    "prefill_decode": ("together", "apart"),
    "rollout_strategy": (AUTO, NONE, "group", "best_of_n", "multi_turn", "bounded_replay"),
    "rollout_record": ("token_ids", "text"),
    "base_precision": (AUTO, NONE, *_FULL_PRECISIONS, "fp8", "int8", "nf4", *FP4),
    "gradient_precision": (AUTO, *_FULL_PRECISIONS, "fp8"),
    "optimizer_precision": (AUTO, "fp32", "bf16", "fp8", "int8"),
    "kv_precision": (AUTO, NONE, *_FULL_PRECISIONS, "fp8", "int8", "nvfp4"),
    "sync_payload": (AUTO, NONE, "canonical", "adapter", "packed", "verified_format_aware"),
    "serving_kv_precision": (AUTO, "bf16", "fp16", "fp8", "int8", "nvfp4"),
    "qat": (NONE, "int4", "int8", "fp8", *FP4),
    "hardware": (AUTO, *HARDWARE),
    "rollout_hardware": (AUTO, *HARDWARE),
}
"""What each axis of words may be. The other axes are counts, versions and switches."""

COUNTS: Final[Mapping[str, int]] = {
    "group_size": 0,
    "tensor_parallel": 1,
    "pipeline_parallel": 1,
    "context_parallel": 1,
    "expert_parallel": 1,
    "staleness_bound": 0,
}
"""The least of each axis that is a whole number."""
OPTIONAL_COUNTS: Final[Mapping[str, int]] = {
    "data_parallel": 1,
    "trainer_gpus": 0,
    "rollout_gpus": 0,
}
VERSIONS: Final = ("reward_version", "environment_version")
SWITCHES: Final = ("behaviour_logprobs", "evaluator_frozen")

AXES: Final = tuple(field.name for field in fields(Plan) if field.name != "name")


def shown(value: object) -> str:
    """A value as a message shows it: short, on one line."""
    try:
        text = repr(value) if isinstance(value, str) else ascii(value)
    except ValueError:  # a number of thousands of digits
        text = type(value).__name__
    return text if len(text) <= 60 else f"{text[:59]}…"


def home_of(word: object, axis: str) -> str:
    """The axis that a word belongs to, when it is not `axis`; else nothing."""
    if not isinstance(word, str) or word in (AUTO, NONE):
        return ""
    if word == "rlvr":
        return "reward"
    found = (other for other, words in VALUES.items() if other != axis and word in words)
    return next(found, "")


def one_of(axis: str) -> str:
    """What to write for an axis of words."""
    words = VALUES[axis]
    return f"write {', '.join(words[:-1])} or {words[-1]}"


def placement_of(plan: Plan) -> str:
    """How trainer and actors take turns, also where the plan leaves it to the other axes."""
    if plan.placement != AUTO:
        return plan.placement
    if plan.rollout != "disaggregated":
        return plan.rollout
    return "bounded_async" if plan.staleness_bound else "dedicated"


def strategy_of(plan: Plan) -> str:
    """What experience is made of, also where the plan leaves it to the other axes."""
    if plan.rollout_strategy != AUTO:
        return plan.rollout_strategy
    if plan.stage == "rejection_sampling":
        return "best_of_n"
    return NONE if plan.rollout == NONE else "group"


def base_of(plan: Plan) -> str:
    """The precision of the frozen base; none where every weight is trained."""
    if plan.base_precision != AUTO:
        return plan.base_precision
    frozen = {"qlora": "nf4", "lora": plan.train_precision}
    return frozen.get(plan.parameterization, NONE)


def actor_hardware_of(plan: Plan) -> str:
    return plan.hardware if plan.rollout_hardware == AUTO else plan.rollout_hardware
