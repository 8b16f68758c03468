"""The rules of who runs where: trainer parallelism, GPUs, placement and staleness."""

from typing import Final

from inner_trials.planning.axes import AUTO, NONE, Plan, placement_of, strategy_of
from inner_trials.planning.signals import Rule

_PLACEMENTS: Final = {
    NONE: (NONE,),
    "colocated": ("colocated", "elastic"),
    "disaggregated": ("dedicated", "bounded_async", "elastic"),
}


def split_ways(plan: Plan) -> int:
    """How many GPUs one replica's compute is split over."""
    return plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel


def replica_gpus(plan: Plan) -> int:
    """GPUs that the stated degrees take together; data_parallel left open counts once."""
    return split_ways(plan) * (plan.data_parallel or 1)


def _is_uneven(plan: Plan) -> bool:
    gpus = plan.trainer_gpus
    if gpus is None or gpus == 0:
        return False
    if plan.data_parallel is None:
        return gpus % split_ways(plan) != 0
    return gpus != replica_gpus(plan)


def _splits_experts_unevenly(plan: Plan) -> bool:
    world = plan.trainer_gpus or (plan.data_parallel and replica_gpus(plan))
    if not world or plan.expert_parallel == 1:
        return False
    return (world // plan.pipeline_parallel) % plan.expert_parallel != 0


def _one_device(axis: str, trainers: str) -> Rule:
    return Rule(
        axis,
        lambda p: p.trainer == "single" and (getattr(p, axis) or 1) > 1,
        "a single trainer is one process on one device",
        f"write {axis}: 1, or trainer: {trainers}",
    )


TRAINER_RULES: Final = (
    _one_device("data_parallel", "fsdp2 or zero3"),
    _one_device("tensor_parallel", "fsdp2 or megatron"),
    _one_device("pipeline_parallel", "megatron"),
    _one_device("context_parallel", "fsdp2, zero3 or megatron"),
    _one_device("expert_parallel", "megatron"),
    _one_device("trainer_gpus", "fsdp2 or zero3"),
    Rule(
        "pipeline_parallel",
        lambda p: p.trainer == "zero3" and p.pipeline_parallel > 1,
        "ZeRO-3 gathers every layer on every rank and does not compose with pipeline stages",
        "write pipeline_parallel: 1, or trainer: fsdp2 or megatron",
    ),
    Rule(
        "trainer_gpus",
        _is_uneven,
        "data, tensor, pipeline and context parallelism multiply to the number of trainer GPUs",
        "write that product, or leave data_parallel out",
    ),
    Rule(
        "expert_parallel",
        _splits_experts_unevenly,
        "experts are split over GPUs of one pipeline stage, in equal parts",
        "write a divisor of trainer GPUs / pipeline_parallel",
    ),
    Rule(
        "trainer_gpus",
        lambda p: p.hardware == "cpu" and bool(p.trainer_gpus),
        "hardware: cpu has no GPUs",
        "write trainer_gpus: 0, or the hardware",
    ),
)

PLACEMENT_RULES: Final = (
    Rule(
        "placement",
        lambda p: placement_of(p) not in _PLACEMENTS[p.rollout],
        "it is no placement of this rollout axis",
        "write auto; colocated rollouts are colocated or elastic, disaggregated ones dedicated,"
        " bounded_async or elastic",
    ),
    Rule(
        "rollout_gpus",
        lambda p: p.rollout == NONE and bool(p.rollout_gpus),
        "nothing is rolled out, so no GPU is used for it",
        "write rollout_gpus: 0, or leave it out",
    ),
    Rule(
        "rollout_gpus",
        lambda p: (
            p.rollout == "colocated"
            and p.rollout_gpus is not None
            and p.trainer_gpus is not None
            and p.rollout_gpus != p.trainer_gpus
        ),
        "colocated means one pool, so both GPU counts are the same",
        "write trainer_gpus and rollout_gpus alike, or rollout: disaggregated",
    ),
    Rule(
        "rollout_gpus",
        lambda p: (
            p.rollout == "disaggregated" and p.rollout_gpus == 0 and p.rollout_hardware != "cpu"
        ),
        "dedicated actors have devices of their own",
        "write rollout_gpus: 1 or more, or rollout_hardware: cpu",
    ),
    Rule(
        "rollout_hardware",
        lambda p: p.rollout == NONE and p.rollout_hardware != AUTO,
        "nothing is rolled out, so nothing runs on it",
        "write rollout_hardware: auto",
    ),
    Rule(
        "rollout_hardware",
        lambda p: p.rollout == "colocated" and p.rollout_hardware not in (AUTO, p.hardware),
        "colocated means one pool, so both run on the same hardware",
        "write rollout_hardware: auto, or rollout: disaggregated",
    ),
    Rule(
        "prefill_decode",
        lambda p: p.rollout == NONE and p.prefill_decode == "apart",
        "it separates pools inside an actor, and there are no actors",
        "write prefill_decode: together; the server's own is no part of the plan",
    ),
    Rule(
        "prefill_decode",
        lambda p: (
            p.prefill_decode == "apart" and p.rollout_gpus is not None and p.rollout_gpus < 2
        ),
        "prefill and decode apart are two pools",
        "write rollout_gpus: 2 or more, or prefill_decode: together",
    ),
)

STALENESS_RULES: Final = (
    Rule(
        "staleness_bound",
        lambda p: p.rollout == NONE and p.staleness_bound > 0,
        "without rollouts nothing gets stale",
        "write staleness_bound: 0",
    ),
    Rule(
        "staleness_bound",
        lambda p: placement_of(p) == "bounded_async" and p.staleness_bound < 1,
        "asynchronous rollouts need a staleness bound",
        "write 1 or more policy versions, or placement: dedicated",
    ),
    Rule(
        "staleness_bound",
        lambda p: placement_of(p) in ("colocated", "dedicated") and p.staleness_bound > 0,
        "a synchronous placement waits for new weights at every update",
        "write staleness_bound: 0, or placement: bounded_async",
    ),
    Rule(
        "correction",
        lambda p: p.stage == "online_rl" and p.staleness_bound > 0 and p.correction == NONE,
        "stale trajectories are of another policy and need an importance correction",
        "write correction: tis or importance_sampling",
    ),
    Rule(
        "behaviour_logprobs",
        lambda p: p.staleness_bound > 0 and not p.behaviour_logprobs,
        "stale trajectories keep the log-probabilities of the policy that sampled them",
        "write behaviour_logprobs: true",
    ),
    Rule(
        "staleness_bound",
        lambda p: p.stage == "rejection_sampling" and p.staleness_bound > 0,
        "the policy that is sampled does not change in this stage",
        "write staleness_bound: 0",
    ),
    Rule(
        "rollout_strategy",
        lambda p: strategy_of(p) == "bounded_replay" and p.rollout == "colocated",
        "a queue of older trajectories lies between actors and a learner that are apart",
        "write rollout: disaggregated, or rollout_strategy: group",
    ),
)
