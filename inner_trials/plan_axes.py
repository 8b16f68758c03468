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
    others imply, or is settled later (versions and GPU counts, when the study is submitted).
    """

    name: str
    stage: str
    """Which loss: sft, dpo, online_rl, reward_model; rejection_sampling makes data instead."""
    trainer: str
    """How training state is distributed; megatron needs a launcher of your own."""
    parameterization: str
    """Which weights change."""
    rollout: str
    """Where completions are generated, seen from the trainer."""
    reward: str
    """What makes a completion better. A judge is a learned reward: see scorer."""
    optimizer: str
    """How rewards update the policy; RLVR is a reward, not an optimizer."""
    group_size: int
    """Completions of one prompt; 0 where nothing is sampled."""
    sync: str
    """How new weights reach the actors."""
    train_precision: str
    """Of the trained weights and the compute."""
    rollout_precision: str
    """Of the actors' weights and activations."""
    correction: str
    """Against the difference between the actors' and the trainer's probabilities."""
    deployment_quant: str
    """How the promoted model is converted to be served: the method, not only the bits."""
    outer_controller: str
    """Who proposes and judges experiments."""

    loss_type: str = AUTO
    """The loss within the stage, by TRL's name: dapo is a loss of the optimizer grpo."""
    value_model: str = AUTO
    """PPO's critic."""
    reference: str = AUTO
    """The policy that the trained one is held against."""
    scorer: str = AUTO
    """What a learned reward is: a reward model or a judge."""
    reward_version: str | None = None
    """Of the reward model, judge, verifier or environment; None: its digest, taken at submit."""
    environment_version: str | None = None
    """Of the tools and environment of multi-turn rollouts; None: as reward_version."""
    data_parallel: int | None = None
    """Replicas or shards; None: as many as there are GPUs for."""
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    context_parallel: int = 1
    expert_parallel: int = 1
    trainer_gpus: int | None = None
    """None: settled when the study is submitted."""
    rollout_gpus: int | None = None
    """Of the actors; colocated, the same GPUs as the trainer's."""
    placement: str = AUTO
    """How trainer and actors take turns."""
    prefill_decode: str = "together"
    """Inside the actor or server; says nothing about where the trainer is."""
    staleness_bound: int = 0
    """How many policy versions old a trajectory may be; 0: synchronous."""
    rollout_strategy: str = AUTO
    """What experience is made of."""
    behaviour_logprobs: bool = True
    """Whether the actors' own log-probabilities travel with each token."""
    rollout_record: str = "token_ids"
    """What reaches the learner."""
    base_precision: str = AUTO
    """Of a frozen base under an adapter."""
    gradient_precision: str = AUTO
    optimizer_precision: str = AUTO
    """Of the optimizer's state."""
    kv_precision: str = AUTO
    """Of the actors' KV cache."""
    sync_payload: str = AUTO
    """What is sent to the actors; packed: low-bit tensors as they are stored."""
    serving_kv_precision: str = AUTO
    """Of the served model's KV cache."""
    qat: str = NONE
    """Quantization-aware training: the format that the forward pass simulates."""
    hardware: str = AUTO
    """What the trainer runs on; auto: not said."""
    rollout_hardware: str = AUTO
    """What the actors run on; auto: as the trainer."""
    evaluator_frozen: bool = True
    """Whether nothing that proposes can change what judges."""


class PlanRefused(ValueError):
    """A plan that cannot be right.

    `str()` is the whole sentence; `axis` is the field to change, `value` what it has, `rule` what
    must hold, `fix` what to write.
    """

    def __init__(self, axis: str, value: object, rule: str, fix: str, text: str = "") -> None:
        self.axis, self.value, self.rule, self.fix = axis, value, rule, fix
        super().__init__(text or f"{axis}: {shown(value)}: {rule}; {fix}")


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
    *("importance_sampling", "tis"),
    *("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
)
"""`tis` is TRL's token_truncate; the last four are its own names."""

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
    "reference": (AUTO, NONE, "frozen_copy", "adapter_off", "cached_logprobs", "moving"),
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
