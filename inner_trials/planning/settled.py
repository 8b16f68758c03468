"""A plan with what it leaves to its other axes written out, as the record of a run holds it."""

from dataclasses import asdict
from typing import Any, Final

from inner_trials.planning.axes import AUTO, NONE, Plan, base_of, placement_of, strategy_of
from inner_trials.planning.topology import split_ways

PLANES: Final = (
    "train_precision",
    "gradient_precision",
    "optimizer_precision",
    "base_precision",
    "rollout_precision",
    "kv_precision",
    "sync_payload",
    "deployment_quant",
    "serving_kv_precision",
    "qat",
)
"""Every precision plane. The served model's cache is its server's to choose, unless it is said."""
_CACHES: Final = ("fp32", "bf16", "fp16")


def settled(plan: Plan, gpus: int) -> dict[str, Any]:
    """Every axis of a valid plan of a trial that was given so many GPUs."""
    trainer_gpus = gpus if plan.trainer_gpus is None else plan.trainer_gpus
    found = {
        "base_precision": base_of(plan),
        "gradient_precision": plan.train_precision,
        "optimizer_precision": "fp32",
        "kv_precision": _cache_of(plan),
        "sync_payload": NONE if plan.sync in (NONE, "local") else "canonical",
        "placement": placement_of(plan),
        "rollout_strategy": strategy_of(plan),
        "trainer_gpus": trainer_gpus,
        "data_parallel": max(1, trainer_gpus // split_ways(plan)),
        "rollout_gpus": {NONE: 0, "colocated": trainer_gpus}.get(plan.rollout),
    }
    given = asdict(plan)
    return {
        axis: found.get(axis, value) if value in (AUTO, None) else value
        for axis, value in given.items()
    }


def _cache_of(plan: Plan) -> str:
    """Actors in 8 or 4 bits keep a 16-bit cache unless the plan says otherwise."""
    if plan.rollout == NONE or plan.rollout_precision in _CACHES:
        return plan.rollout_precision
    return "bf16"
