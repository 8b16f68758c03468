"""The rules between the objective, its signal, its losses and its experience."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from inner_trials.planning.axes import (
    AUTO,
    DPO_LOSSES,
    GRPO_LOSSES,
    NONE,
    SFT_LOSSES,
    Plan,
    placement_of,
    strategy_of,
)

OFFLINE: Final = ("sft", "dpo", "reward_model")
MOVING: Final = ("", "latest", "main", "master", "head")
"""Names under which another thing may be found tomorrow."""


@dataclass(frozen=True)
class Rule:
    """One thing that no plan may be."""

    axis: str
    """What to change."""
    breaks: Callable[[Plan], bool]
    """Asked only of plans whose axes all have values of their own."""
    rule: str
    fix: str


def _losses(plan: Plan) -> tuple[str, ...]:
    by_stage = {"sft": SFT_LOSSES, "dpo": DPO_LOSSES}
    return tuple(GRPO_LOSSES if plan.optimizer == "grpo" else by_stage.get(plan.stage, ()))


def _samples(plan: Plan) -> bool:
    return plan.stage not in OFFLINE


def _is_moving(version: str | None) -> bool:
    return version is not None and version.strip().lower() in MOVING


STAGE_RULES: Final = (
    Rule(
        "reward",
        lambda p: p.stage == "reward_model" and p.reward != "preferences",
        "a reward model learns from chosen and rejected pairs",
        "write reward: preferences",
    ),
    Rule(
        "rollout",
        lambda p: p.stage == "reward_model" and p.rollout != NONE,
        "a reward model is trained offline",
        "write rollout: none",
    ),
    Rule(
        "sync",
        lambda p: p.stage in ("reward_model", "rejection_sampling") and p.sync != NONE,
        "no weights change under the actors of this stage",
        "write sync: none",
    ),
    Rule(
        "optimizer",
        lambda p: p.stage in ("reward_model", "rejection_sampling") and p.optimizer != NONE,
        "this stage updates no policy by rewards",
        "write optimizer: none, or stage: online_rl",
    ),
    Rule(
        "reward",
        lambda p: p.stage == "rejection_sampling" and p.reward in (NONE, "preferences"),
        "rejection sampling keeps what a scorer likes",
        "write reward: verifier, learned or environment",
    ),
    Rule(
        "group_size",
        lambda p: p.stage == "rejection_sampling" and p.group_size < 1,
        "rejection sampling samples at least one answer to a prompt",
        "write group_size: 1 or more; the best of N needs several",
    ),
    Rule(
        "rollout",
        lambda p: p.stage == "rejection_sampling" and p.rollout == NONE,
        "rejection sampling generates its candidates",
        "write rollout: colocated or disaggregated",
    ),
    Rule(
        "rollout_precision",
        lambda p: _samples(p) and p.rollout_precision == NONE,
        "every precision plane is named, and the actors have one",
        "write rollout_precision: bf16, or what they run in",
    ),
    Rule(
        "group_size",
        lambda p: not _samples(p) and p.group_size != 0,
        "an offline stage samples no completions",
        "write group_size: 0",
    ),
    Rule(
        "group_size",
        lambda p: p.optimizer == "ppo" and p.group_size < 1,
        "PPO samples at least one completion of a prompt",
        "write group_size: 1 or more",
    ),
)

SIGNAL_RULES: Final = (
    Rule(
        "loss_type",
        lambda p: p.loss_type != AUTO and p.loss_type not in _losses(p),
        "it is no loss of this stage and optimizer",
        "write auto; sft has nll and dft, DPO sigmoid, hinge, ipo and others, GRPO grpo, dr_grpo,"
        " dapo, bnpo, cispo, sapo, luspo and vespo",
    ),
    Rule(
        "reference",
        lambda p: p.stage == "dpo" and p.reference in (NONE, "moving"),
        "DPO needs a fixed reference policy",
        "write copy, adapter (with an adapter) or precomputed",
    ),
    Rule(
        "reference",
        lambda p: p.stage not in ("dpo", "online_rl") and p.reference not in (AUTO, NONE),
        "this stage has no reference policy",
        "write reference: auto",
    ),
    Rule(
        "reference",
        lambda p: p.reference == "adapter" and p.parameterization == "full",
        "with every weight trained there is no adapter to turn off",
        "write copy or precomputed, or parameterization: lora",
    ),
    Rule(
        "reference",
        lambda p: p.stage == "online_rl" and p.reference == "precomputed",
        "completions that are still to be sampled have no cached log-probabilities",
        "write auto, none, copy, adapter or moving",
    ),
    Rule(
        "value_model",
        lambda p: p.optimizer == "ppo" and p.value_model == NONE,
        "PPO needs a value model",
        "write separate or shared, or optimizer: grpo, which needs none",
    ),
    Rule(
        "value_model",
        lambda p: p.optimizer != "ppo" and p.value_model not in (AUTO, NONE),
        "only PPO trains a value model; GRPO compares the completions of a prompt instead",
        "write value_model: none, or optimizer: ppo",
    ),
    Rule(
        "scorer",
        lambda p: p.reward != "learned" and p.scorer != AUTO,
        "only a learned reward has a scorer",
        "write scorer: auto, or reward: learned",
    ),
    Rule(
        "reward_version",
        lambda p: p.reward == "learned" and _is_moving(p.reward_version),
        "a learned reward needs its version",
        "write its revision or digest, or leave it out: its digest is taken at submit",
    ),
    Rule(
        "reward_version",
        lambda p: p.reward in ("verifier", "environment") and _is_moving(p.reward_version),
        "a verifier or environment is versioned, or scores of two days do not compare",
        "write its revision or digest, or leave it out: its digest is taken at submit",
    ),
    Rule(
        "reward_version",
        lambda p: p.reward in (NONE, "preferences") and p.reward_version is not None,
        "without a scorer there is no version of one; data is pinned by its digest",
        "leave it out",
    ),
    Rule(
        "environment_version",
        lambda p: _is_moving(p.environment_version),
        "trajectories of another environment or tool are other data",
        "write its revision or digest, or leave it out",
    ),
    Rule(
        "environment_version",
        lambda p: (
            p.environment_version is not None
            and p.reward != "environment"
            and strategy_of(p) != "multi_turn"
        ),
        "without multi-turn rollouts or an environment's reward there is none",
        "leave it out, or write rollout_strategy: multi_turn",
    ),
)

EXPERIENCE_RULES: Final = (
    Rule(
        "rollout_strategy",
        lambda p: not _samples(p) and p.rollout_strategy not in (AUTO, NONE),
        "an offline stage samples nothing",
        "write rollout_strategy: auto",
    ),
    Rule(
        "rollout_strategy",
        lambda p: _samples(p) and strategy_of(p) == NONE,
        "how experience is sampled is the training distribution",
        "write group, multi_turn or bounded_replay; best_of_n for rejection_sampling",
    ),
    Rule(
        "rollout_strategy",
        lambda p: p.stage == "online_rl" and p.rollout_strategy == "best_of_n",
        "best-of-N builds data for SFT or DPO; a policy gradient needs the losers too",
        "write group, or stage: rejection_sampling",
    ),
    Rule(
        "rollout_strategy",
        lambda p: p.stage == "rejection_sampling" and strategy_of(p) != "best_of_n",
        "rejection sampling keeps the best of N",
        "write rollout_strategy: auto",
    ),
    Rule(
        "rollout_strategy",
        lambda p: p.rollout_strategy == "bounded_replay" and p.staleness_bound < 1,
        "replay takes trajectories of older policies, so their age has a bound",
        "write staleness_bound: 1 or more, and a correction",
    ),
    Rule(
        "rollout_record",
        lambda p: _samples(p) and p.rollout_record == "text",
        "text may be tokenized otherwise than it was generated, and ratios are wrong then",
        "write rollout_record: token_ids",
    ),
    Rule(
        "correction",
        lambda p: p.stage != "online_rl" and p.correction != NONE,
        "there are no rollouts to correct for in this stage",
        "write correction: none",
    ),
    Rule(
        "behaviour_logprobs",
        lambda p: p.correction != NONE and not p.behaviour_logprobs,
        "an importance correction divides by the actors' own probabilities",
        "write behaviour_logprobs: true, or correction: none",
    ),
    Rule(
        "behaviour_logprobs",
        lambda p: placement_of(p) == "bounded_async" and not p.behaviour_logprobs,
        "asynchronous trajectories keep the actors' log-probabilities",
        "write behaviour_logprobs: true",
    ),
    Rule(
        "behaviour_logprobs",
        lambda p: p.optimizer == "ppo" and not p.behaviour_logprobs,
        "PPO's ratio is against the policy that sampled",
        "write behaviour_logprobs: true",
    ),
    Rule(
        "evaluator_frozen",
        lambda p: p.outer_controller not in (NONE, "human") and not p.evaluator_frozen,
        "what proposes by itself must not be able to change what judges it",
        "write evaluator_frozen: true, or outer_controller: human",
    ),
)
