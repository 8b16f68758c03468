"""What a valid plan implies: what it needs beside a model, what it leaves, what it does without,
and what nobody has shown to work until it was tried."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from inner_trials.planning.axes import (
    AUTO,
    NONE,
    Plan,
    actor_hardware_of,
    placement_of,
    strategy_of,
)
from inner_trials.planning.precision import is_quantized_actor


@dataclass(frozen=True, slots=True, kw_only=True)
class Implications:
    """Each a list of short phrases, the general first."""

    called: tuple[str, ...]
    """What people call such a system; names, not further choices."""
    needs: tuple[str, ...]
    leaves: tuple[str, ...]
    """What has to be kept, or a result cannot be explained later."""
    does_without: tuple[str, ...]
    to_verify: tuple[str, ...]
    """What the planner cannot know and a small run can show."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One of the configurations that a plan combines."""

    when: Callable[[Plan], bool]
    needs: tuple[str, ...]
    leaves: tuple[str, ...]
    does_without: tuple[str, ...]


def _is_online(plan: Plan) -> bool:
    return plan.stage == "online_rl"


def _is_sharded(plan: Plan) -> bool:
    return plan.trainer in ("fsdp2", "zero3")


_PARTS: Final = (
    _Part(
        lambda p: True,
        ("base model at a fixed revision", "its tokenizer and chat template, pinned"),
        ("base revision, tokenizer and template digests", "data revisions", "runtime versions"),
        (),
    ),
    _Part(
        lambda p: p.stage == "sft",
        ("demonstrations", "loss masks over prompt and padding"),
        (),
        ("a rollout engine", "a reward service"),
    ),
    _Part(
        lambda p: p.stage in ("dpo", "reward_model"),
        ("pairs of a chosen and a rejected answer",),
        (),
        ("an online rollout engine", "a reward service", "weight sync to actors"),
    ),
    _Part(
        lambda p: p.stage == "dpo",
        ("a fixed reference policy, or its log-probabilities of every pair",),
        ("which reference it was held against",),
        (),
    ),
    _Part(
        lambda p: p.stage == "rejection_sampling",
        ("prompts", "a rollout engine", "a scorer"),
        ("the kept answers as data, with their sampler and scorer",),
        ("a policy gradient", "weight sync to actors"),
    ),
    _Part(
        lambda p: p.parameterization == "full",
        ("gradients and optimizer state of every weight", "room for full checkpoints"),
        ("a full checkpoint",),
        (),
    ),
    _Part(
        lambda p: p.parameterization == "lora",
        ("an adapter's rank and target modules", "the whole base in memory"),
        ("the adapter, with the exact base it belongs to",),
        ("optimizer state of the frozen weights",),
    ),
    _Part(
        lambda p: p.parameterization == "qlora",
        ("an adapter's rank and target modules", "4-bit loading and dequantization kernels"),
        ("the adapter, its base's revision and the quantization settings",),
        ("optimizer state of the frozen weights", "a BF16 base in GPU memory"),
    ),
    _Part(
        _is_sharded,
        ("a process group", "a sharding plan", "a mixed-precision policy"),
        ("sharded model and optimizer state, or a consolidated export",),
        ("any particular objective: the same sharding serves SFT, DPO, PPO and GRPO",),
    ),
    _Part(
        _is_online,
        ("prompts", "a rollout engine", "a reward", "weight sync", "sampling settings"),
        ("policy versions, sampling settings and rollout records", "the reward's version"),
        (),
    ),
    _Part(
        lambda p: p.optimizer == "grpo",
        ("groups whose rewards differ: one without variance teaches nothing",),
        (),
        ("a value model",),
    ),
    _Part(
        lambda p: p.optimizer == "ppo",
        ("a value model with its optimizer state",),
        ("the value model, to resume",),
        (),
    ),
    _Part(
        lambda p: p.reward == "learned",
        ("a reward model or judge to serve",),
        (),
        (),
    ),
    _Part(
        lambda p: p.reward == "verifier",
        ("ground truth", "a deterministic verifier", "a sandbox with timeouts for it"),
        ("the exact verifier's version",),
        ("a learned reward model",),
    ),
    _Part(
        lambda p: p.reward == "environment" or strategy_of(p) == "multi_turn",
        ("an environment with timeouts", "a rule for partial trajectories"),
        ("the environment's and tools' versions",),
        (),
    ),
    _Part(
        lambda p: _is_online(p) and p.rollout == "disaggregated",
        ("a pool of actors and one of learners", "trajectory transport with policy versions"),
        ("topology and synchronization of each step",),
        ("phase switching on one pool",),
    ),
    _Part(
        lambda p: _is_online(p) and p.rollout == "colocated",
        ("memory for the actor's weights and cache beside the trainer's, in turns",),
        (),
        ("a second pool", "weight transfer over a network"),
    ),
    _Part(
        lambda p: placement_of(p) == "bounded_async",
        ("queues", "a staleness bound", "an importance correction", "recovery of both sides"),
        ("trajectories by policy version", "checkpoints of actors and learner"),
        ("a barrier after every rollout batch",),
    ),
    _Part(
        is_quantized_actor,
        ("low-bit inference kernels", "conversion at every refresh", "actors' log-probabilities"),
        ("the actors' format, scales, engine version and correction",),
        ("a quantized trainer or final model",),
    ),
    _Part(
        lambda p: p.deployment_quant != NONE,
        ("a conversion tool", "calibration data where the method asks for it", "its kernels"),
        ("the quantized checkpoint with its scales",),
        ("new behaviour data",),
    ),
    _Part(
        lambda p: p.qat != NONE,
        ("a training loop that simulates the served format",),
        ("which format was simulated",),
        (),
    ),
)

_TO_VERIFY: Final[tuple[tuple[Callable[[Plan], bool], str], ...]] = (
    (
        lambda p: p.parameterization == "qlora" and _is_online(p),
        "that trainer, kernels and rollout engine support QLoRA together",
    ),
    (
        _is_sharded,
        "that checkpoints save, restore, reshard and export before a long run",
    ),
    (
        lambda p: _is_sharded(p) and _is_online(p),
        "rollout speed by itself: sharding the learner makes no actor faster",
    ),
    (
        lambda p: p.reward == "verifier",
        "the verifier on equivalents, boundary values, malformed answers, timeouts and cheats",
    ),
    (
        is_quantized_actor,
        "ratios, KL, rewards and the share of updates that change the actors' codes, against BF16",
    ),
    (
        lambda p: p.sync == "delta",
        "that full and delta sync give the same actor distribution",
    ),
    (
        lambda p: p.correction != NONE,
        "that the correction is valid at this staleness and precision",
    ),
    (
        lambda p: p.deployment_quant != NONE or p.serving_kv_precision != AUTO,
        "quality, latency and memory of the exact converted model on the serving runtime",
    ),
    (
        lambda p: p.parameterization != "full",
        "that the adapter's rank and modules suffice: held-out quality beside full fine-tuning",
    ),
    (
        lambda p: p.prefill_decode == "apart",
        "KV transfer between prefill and decode on the real lengths",
    ),
    (
        lambda p: "blackwell" in (p.hardware, actor_hardware_of(p)),
        "that this engine has the FP4 kernels and refreshes their scales",
    ),
)


def implications(plan: Plan) -> Implications:
    """Of a plan that `validate` accepts."""
    parts = [part for part in _PARTS if part.when(plan)]
    without = [word for part in parts for word in part.does_without]
    if plan.qat != NONE and "new behaviour data" in without:
        without.remove("new behaviour data")
    return Implications(
        called=tuple(_called(plan)),
        needs=_once(word for part in parts for word in part.needs),
        leaves=_once(word for part in parts for word in part.leaves),
        does_without=_once(iter(without)),
        to_verify=tuple(words for when, words in _TO_VERIFY if when(plan)),
    )


def _once(words: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def _called(plan: Plan) -> Iterator[str]:
    """RLVR is told here and can be chosen nowhere: it is what a verifier makes of RL."""
    if _is_online(plan) and plan.reward == "verifier":
        yield "RLVR"
    if _is_online(plan) and plan.reward == "learned":
        yield "RL from AI feedback" if plan.scorer == "judge" else "RLHF-style RL"
    if _is_online(plan):
        yield _policy(plan)


def _policy(plan: Plan) -> str:
    """Synchronous is not yet on-policy."""
    if plan.staleness_bound:
        return f"off-policy by at most {plan.staleness_bound} versions"
    if is_quantized_actor(plan):
        return "synchronous, but the actors' numerics are another policy's"
    return "on-policy at every update"
