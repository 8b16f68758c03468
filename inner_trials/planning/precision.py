"""The rules of the precision planes: each named by itself, each where it can be."""

from typing import Final

from inner_trials.planning.axes import (
    AUTO,
    FP4,
    LOW_PRECISIONS,
    NONE,
    Plan,
    actor_hardware_of,
    base_of,
)
from inner_trials.planning.signals import OFFLINE, Rule

STATIC: Final = ("int4", "gptq_int4", "awq_int4", "gptq", "awq", "torchao_int4")
_QUANTIZED_CACHES: Final = ("fp8", "int8", "nvfp4")
_OLD: Final = ("cpu", "ampere")


def is_quantized_actor(plan: Plan) -> bool:
    """Whether the actors compute in fewer bits than the trainer."""
    low = plan.rollout_precision in LOW_PRECISIONS
    return low and plan.rollout_precision != plan.train_precision


def format_of(deployment: str) -> str:
    """The representation that a conversion method makes."""
    return deployment.rpartition("_")[2]


WORD_RULES: Final = (
    Rule(
        "train_precision",
        lambda p: p.train_precision == "nf4",
        "NF4 stores a frozen base; what is trained needs a precision that gradients fit in",
        "write train_precision: bf16, and parameterization: qlora for an NF4 base",
    ),
    Rule(
        "train_precision",
        lambda p: p.train_precision in ("int8", "int4", *FP4),
        "weights in a few bits lose small updates; low bits belong to other planes",
        "write fp32, bf16, fp16 or fp8; qat simulates a format that you will serve",
    ),
    Rule(
        "rollout_precision",
        lambda p: p.rollout_precision in STATIC,
        "static weight-only formats (GPTQ, AWQ) are no actor format: they are converted once, and"
        " an actor's weights change at every update",
        "write fp8, int8, bf16 or fp32, and convert the promoted model (deployment_quant)",
    ),
    Rule(
        "rollout_precision",
        lambda p: p.rollout_precision == "nf4",
        "NF4 stores a frozen base for training; it is no actor format",
        "write fp8, int8, bf16 or fp32",
    ),
    Rule(
        "deployment_quant",
        lambda p: p.deployment_quant == "nf4",
        "NF4 is how QLoRA stores its base and says nothing about the serving format",
        "write none, awq_int4, gptq_int4 or another serving format",
    ),
    Rule(
        "deployment_quant",
        lambda p: p.deployment_quant in ("int4", "int8"),
        "it names a representation, not the method that produces it",
        "write awq_int4, gptq_int4 or torchao_int4; smoothquant_int8 or torchao_int8",
    ),
    Rule(
        "base_precision",
        lambda p: p.base_precision in STATIC,
        "GPTQ and AWQ convert a finished model to be served",
        "write auto; qlora keeps its base in nf4",
    ),
)
"""Of words that a plane knows from elsewhere: asked before the axes' own values are."""

PRECISION_RULES: Final = (
    Rule(
        "base_precision",
        lambda p: p.base_precision == "nf4" and p.parameterization != "qlora",
        "an NF4 base is frozen and requires an adapter",
        "write parameterization: qlora, or base_precision: auto",
    ),
    Rule(
        "base_precision",
        lambda p: p.parameterization == "qlora" and base_of(p) != "nf4",
        "QLoRA is LoRA over a base in NF4",
        "write base_precision: auto, or parameterization: lora",
    ),
    Rule(
        "base_precision",
        lambda p: p.parameterization == "full" and base_of(p) != NONE,
        "with every weight trained there is no frozen base",
        "write base_precision: auto, or parameterization: lora",
    ),
    Rule(
        "base_precision",
        lambda p: p.parameterization == "lora" and base_of(p) == NONE,
        "an adapter has a frozen base, and it has a precision",
        "write base_precision: auto",
    ),
    Rule(
        "base_precision",
        lambda p: base_of(p) in FP4 and p.hardware != "blackwell",
        "an FP4 base needs hardware and kernels that compute with it",
        "write hardware: blackwell if it is so, or parameterization: qlora",
    ),
    Rule(
        "train_precision",
        lambda p: p.parameterization == "qlora" and p.train_precision == "fp8",
        "QLoRA computes its adapters in higher precision",
        "write train_precision: bf16",
    ),
    Rule(
        "train_precision",
        lambda p: p.train_precision == "fp8" and p.hardware in _OLD,
        "this hardware has no FP8 training path",
        "write bf16, or hardware: hopper, ada or blackwell",
    ),
    Rule(
        "train_precision",
        lambda p: p.train_precision == "fp16" and p.hardware == "cpu",
        "FP16 training scales its loss, which needs a GPU",
        "write train_precision: fp32 or bf16",
    ),
    Rule(
        "gradient_precision",
        lambda p: p.gradient_precision == "fp8" and p.train_precision != "fp8",
        "FP8 gradients belong to an FP8 training path",
        "write gradient_precision: auto, or train_precision: fp8",
    ),
    Rule(
        "rollout_precision",
        lambda p: p.rollout_precision in FP4 and actor_hardware_of(p) != "blackwell",
        "FP4 actors need hardware that supports them",
        "write rollout_hardware: blackwell if it is so, or rollout_precision: fp8",
    ),
    Rule(
        "rollout_precision",
        lambda p: p.rollout_precision == "fp8" and actor_hardware_of(p) in _OLD,
        "FP8 weights and activations need Ada, Hopper or later",
        "write int8 or bf16, or the rollout_hardware",
    ),
    Rule(
        "rollout_precision",
        lambda p: p.rollout_precision == "int8" and actor_hardware_of(p) == "blackwell",
        "Blackwell has no INT8 weight-and-activation kernels",
        "write rollout_precision: fp8",
    ),
    Rule(
        "kv_precision",
        lambda p: p.kv_precision == "nvfp4" and actor_hardware_of(p) != "blackwell",
        "an NVFP4 cache needs hardware that supports it",
        "write rollout_hardware: blackwell if it is so, or kv_precision: fp8",
    ),
    Rule(
        "kv_precision",
        lambda p: p.stage in OFFLINE and p.kv_precision not in (AUTO, NONE),
        "an offline stage has no actors, and so no KV cache of theirs",
        "write kv_precision: auto; the server's is serving_kv_precision",
    ),
    Rule(
        "kv_precision",
        lambda p: p.stage not in OFFLINE and p.kv_precision == NONE,
        "actors have a KV cache, and it has a precision",
        "write kv_precision: auto",
    ),
    Rule(
        "correction",
        lambda p: p.stage == "online_rl" and is_quantized_actor(p) and p.correction == NONE,
        "actors in fewer bits sample from another policy than the trainer's",
        "write correction: tis or importance_sampling, or the trainer's rollout_precision",
    ),
    Rule(
        "correction",
        lambda p: (
            p.stage == "online_rl" and p.kv_precision in _QUANTIZED_CACHES and p.correction == NONE
        ),
        "a quantized KV cache changes what is sampled although the weights are the same",
        "write correction: tis or importance_sampling, or kv_precision: auto",
    ),
    Rule(
        "qat",
        lambda p: p.qat != NONE and p.parameterization == "qlora",
        "quantization-aware training adapts the weights that are served; QLoRA's base is frozen",
        "write qat: none, or parameterization: full",
    ),
    Rule(
        "qat",
        lambda p: p.qat != NONE and format_of(p.deployment_quant) != p.qat,
        "quantization-aware training prepares for the format that is served",
        "write the deployment_quant of that format, or qat: none",
    ),
)

SYNC_RULES: Final = (
    Rule(
        "sync_payload",
        lambda p: p.sync in (NONE, "local") and p.sync_payload not in (AUTO, NONE),
        "nothing is sent to actors here",
        "write sync_payload: auto",
    ),
    Rule(
        "sync_payload",
        lambda p: p.sync in ("full", "delta") and p.sync_payload == NONE,
        "what is sent to the actors has a format",
        "write sync_payload: auto",
    ),
    Rule(
        "sync_payload",
        lambda p: p.sync == "delta" and p.sync_payload == "packed",
        "the difference of packed low-bit tensors is not the difference of their weights",
        "write canonical, or verified_format_aware once such a path is verified",
    ),
    Rule(
        "sync_payload",
        lambda p: p.sync_payload == "packed" and p.rollout_precision not in LOW_PRECISIONS,
        "only low-bit actors take packed tensors",
        "write sync_payload: canonical",
    ),
    Rule(
        "sync_payload",
        lambda p: p.sync_payload == "adapter" and p.parameterization == "full",
        "with every weight trained there is no adapter to send",
        "write sync_payload: canonical, or parameterization: lora",
    ),
    Rule(
        "sync_payload",
        lambda p: p.sync_payload == "adapter" and p.sync == "delta",
        "an adapter is a delta already and is sent whole",
        "write sync: full",
    ),
    Rule(
        "sync",
        lambda p: (
            p.sync == "delta"
            and p.rollout_precision in FP4
            and p.sync_payload != "verified_format_aware"
        ),
        "a change of shared scales alters whole blocks of an FP4 actor",
        "write sync: full, or sync_payload: verified_format_aware once it is verified",
    ),
)
