"""The spaces of the recorded training runs, and the way between a space and the unit cube."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from ledger.records import Params, ParamValue
from proposers.search_space import (
    Categorical,
    Distribution,
    Float,
    Int,
    SearchSpace,
    in_order,
    is_active,
)

SPACES: Final[Mapping[str, SearchSpace]] = {
    "sft": {
        "learning_rate": Float(2e-4, 2e-2, log=True),
        "batch_size": Int(4, 64, log=True),
        "warmup_steps": Int(0, 40),
        "weight_decay": Float(1e-3, 1.0, log=True),
        "adam_beta2": Float(0.9, 0.999),
        "lr_scheduler_type": Categorical(("constant_with_warmup", "linear", "cosine")),
    },
    "dpo_lora": {
        "learning_rate": Float(2e-5, 5e-2, log=True),
        "beta": Float(0.01, 1.0, log=True),
        "lora_r": Int(2, 32, log=True),
        "alpha_over_r": Float(0.5, 4.0, log=True),
        "warmup_steps": Int(0, 20),
        "loss_type": Categorical(("sigmoid", "hinge", "ipo")),
        "label_smoothing": Float(0.0, 0.4, when=(("loss_type", ("sigmoid",)),)),
    },
    "grpo_lora": {
        "learning_rate": Float(5e-5, 2e-2, log=True),
        "lora_r": Int(2, 32, log=True),
        "num_generations": Categorical((2, 4, 8, 16)),
        "loss_type": Categorical(("grpo", "dr_grpo", "dapo", "cispo")),
        "beta": Float(1e-4, 1.0, log=True),
        "temperature": Float(0.4, 1.6),
        "epsilon": Float(0.05, 0.5, log=True, when=(("loss_type", ("grpo", "dr_grpo")),)),
    },
}
"""What the rows of each table were drawn from."""


def from_cube(space: SearchSpace, shares: Sequence[float]) -> Params:
    """The point at `shares` in [0, 1), one for each parameter in the order of `in_order`."""
    params: dict[str, ParamValue] = {}
    for name, share in zip(in_order(space), shares, strict=True):
        if is_active(space, name, params):
            params[name] = value_at(space[name], share)
    return params


def value_at(distribution: Distribution, share: float) -> ParamValue:
    """The value below which `share` of the distribution lies."""
    if isinstance(distribution, Categorical):
        return distribution.at(min(int(share * distribution.size), distribution.size - 1))
    low, high = float(distribution.low), float(distribution.high)
    if isinstance(distribution, Int):
        low, high = max(low - 0.5, low / 2), high + 0.5
    if distribution.log:
        value = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    else:
        value = low + share * (high - low)
    if isinstance(distribution, Int):
        return min(max(round(value), distribution.low), distribution.high)
    return min(max(float(f"{value:.6g}"), distribution.low), distribution.high)


def share_of(distribution: Float | Int, value: float) -> float:
    low, high = float(distribution.low), float(distribution.high)
    if distribution.log:
        low, high, value = math.log(low), math.log(high), math.log(value)
    return (value - low) / (high - low)
