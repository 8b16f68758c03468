"""How much memory a plan takes on each GPU, by the published formulas: an estimate to size a first
run with, not a promise. Fragmentation, workspaces and the CUDA context come on top."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from inner_trials.planning.axes import AUTO, NONE, Plan, base_of
from inner_trials.planning.topology import split_ways

BYTES: Final[Mapping[str, float]] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "nf4": 0.5 + 0.127 / 8,
    "nvfp4": 0.5 + 1 / 16,
    "mxfp4": 0.5 + 1 / 32,
}
"""Of one number with its share of the scales: NF4 with double quantization adds 0.127 bits a
parameter (Dettmers et al. 2023, section 3); NVFP4 has an FP8 scale for 16 numbers, MXFP4 one of 8
bits for 32 (OCP Microscaling specification 1.0)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A decoder-only transformer, by the names of its config.json."""

    parameters: int
    num_hidden_layers: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    unpacked: int = 0
    """Parameters of the embeddings and the output layer, which loading in 4 bits leaves as they
    are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What one process works on at once."""

    sequences: int
    """Of one forward and backward pass."""
    tokens: int
    """Of one sequence."""
    lora_r: int = 16
    recomputes: bool = False
    """Gradient checkpointing: layers' insides are computed again in the backward pass."""
    rollout_sequences: int = 0
    """Completions that an actor generates at once."""
    rollout_tokens: int = 0
    """Of one of them, its prompt included."""
    keeps_fp32: bool = False
    """Whether weights that are frozen stay in FP32, too, and only the compute is in 16 bits, as
    the built-in programs do it."""
    holds_reference: bool = False
    """Whether online training is held against the base: with every weight trained, by a copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes on one GPU (or in one process, on a CPU)."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    reference: int
    """A second copy of the policy, where the plan has one."""
    value_model: int
    actor_weights: int
    kv_cache: int
    trained_parameters: int
    """Of the whole model, not of a shard."""

    @property
    def trainer(self) -> int:
        parts = (self.weights, self.gradients, self.optimizer, self.activations)
        return sum(parts) + self.reference + self.value_model

    @property
    def actor(self) -> int:
        return self.actor_weights + self.kv_cache


def estimate(plan: Plan, model: ModelShape, work: Workload) -> Memory:
    """The memory of a valid plan. Colocated, trainer and actor are on the same GPUs, in turns."""
    trained = trained_parameters(plan, model, work)
    shards = _shards(plan)
    state = _state_bytes(plan, trained)
    active = activation_bytes(plan, model, work)
    pool = plan.trainer_gpus if plan.rollout == "colocated" else plan.rollout_gpus
    # Each actor is a replica with all of the weights; they share the completions out.
    actor = model.parameters * BYTES.get(plan.rollout_precision, 0.0)
    return Memory(
        weights=round(_weight_bytes(plan, model, trained, work) / shards),
        gradients=round(state[0] / shards),
        optimizer=round(state[1] / shards),
        activations=round(active / split_ways(plan)),
        reference=round(_reference_bytes(plan, model, work) / shards),
        value_model=round(_value_bytes(plan, model) / shards),
        actor_weights=round(actor),
        kv_cache=round(kv_bytes(plan, model, work) / max(1, pool or 1)),
        trained_parameters=trained,
    )


def trained_parameters(plan: Plan, model: ModelShape, work: Workload) -> int:
    """All, or those of the adapters: rank * (inputs + outputs) of each linear layer (Hu et al.
    2021, section 4.1), here of attention's four and a gated MLP's three."""
    if plan.parameterization == "full":
        return model.parameters
    hidden, inner = model.hidden_size, model.intermediate_size
    queries = model.num_attention_heads * model.head_dim
    keys = model.num_key_value_heads * model.head_dim
    ends = 2 * (hidden + queries) + 2 * (hidden + keys) + 3 * (hidden + inner)
    return model.num_hidden_layers * work.lora_r * ends


def activation_bytes(plan: Plan, model: ModelShape, work: Workload) -> int:
    """What a pass keeps for its backward: in 16 bits 34 * tokens * hidden bytes a layer
    (Korthikanti et al. 2022, equation 1 without the attention matrix, which is computed again),
    with checkpointing 2 * tokens * hidden (section 5); and the logits with their gradient in
    FP32."""
    tokens = work.sequences * work.tokens
    wide = BYTES[plan.train_precision] / 2
    layers = model.num_hidden_layers * (2 if work.recomputes else 34) * max(1.0, wide)
    return round(tokens * (layers * model.hidden_size + 8 * model.vocab_size))


def kv_bytes(plan: Plan, model: ModelShape, work: Workload) -> int:
    """A key and a value of every layer, key-value head and token (Kwon et al. 2023, section 3)."""
    if plan.rollout == NONE:
        return 0
    precision = plan.rollout_precision if plan.kv_precision == AUTO else plan.kv_precision
    # Actors in 8 or 4 bits keep a 16-bit cache unless the plan says otherwise.
    each = max(2.0, BYTES.get(precision, 2.0)) if plan.kv_precision == AUTO else BYTES[precision]
    token = 2 * model.num_hidden_layers * model.num_key_value_heads * model.head_dim * each
    return round(token * work.rollout_sequences * work.rollout_tokens)


def _shards(plan: Plan) -> int:
    """Over how many GPUs model and optimizer state are split (Rajbhandari et al. 2020, ZeRO-3:
    all state over the data-parallel group)."""
    sharded = plan.trainer in ("fsdp2", "zero3")
    replicas = plan.data_parallel
    if replicas is None:
        replicas = max(1, (plan.trainer_gpus or 1) // split_ways(plan))
    return split_ways(plan) * (replicas if sharded else 1)


def _weight_bytes(plan: Plan, model: ModelShape, trained: int, work: Workload) -> float:
    if plan.parameterization == "full":
        return model.parameters * BYTES[plan.train_precision]
    adapter = trained * BYTES[plan.train_precision]
    if base_of(plan) != "nf4":
        return model.parameters * _frozen(base_of(plan), work) + adapter
    packed = (model.parameters - model.unpacked) * BYTES["nf4"]
    return packed + model.unpacked * _frozen(plan.train_precision, work) + adapter


def _frozen(precision: str, work: Workload) -> float:
    is_wide = work.keeps_fp32 and precision in ("fp32", "bf16", "fp16")
    return BYTES["fp32" if is_wide else precision]


def _state_bytes(plan: Plan, trained: int) -> tuple[float, float]:
    """Gradients; and AdamW's two moments, with an FP32 copy of weights in fewer bits: the 12
    bytes a parameter of Rajbhandari et al. 2020, section 3.1. Programs that keep FP32 weights and
    compute in 16 bits take the same 16 bytes in all."""
    gradient = plan.gradient_precision
    gradient = plan.train_precision if gradient == AUTO else gradient
    moment = "fp32" if plan.optimizer_precision == AUTO else plan.optimizer_precision
    copy = 0.0 if plan.train_precision == "fp32" else BYTES["fp32"]
    return trained * BYTES[gradient], trained * (2 * BYTES[moment] + copy)


def _reference_bytes(plan: Plan, model: ModelShape, work: Workload) -> float:
    has_copy = plan.reference in ("copy", "moving")
    if plan.reference == AUTO and (plan.stage == "dpo" or work.holds_reference):
        has_copy = plan.parameterization == "full"
    return model.parameters * _frozen(plan.train_precision, work) if has_copy else 0.0


def _value_bytes(plan: Plan, model: ModelShape) -> float:
    """A separate critic is as large as the policy and trained whole; a shared one is a head."""
    if plan.optimizer != "ppo" or plan.value_model == "shared":
        return 0.0
    gradients, optimizer = _state_bytes(plan, model.parameters)
    return model.parameters * BYTES[plan.train_precision] + gradients + optimizer
