"""The formulas of policy optimisation, each a few lines on tensors of (completions, tokens).

GRPO itself runs TRL's; these are what its numbers are checked against, what PPO is made of, and
how ratios are computed again from recorded rollouts. Masks are 1 for tokens that count.
"""

from typing import Any, Final, Literal, TypeAlias

import torch

Tensor: TypeAlias = Any
Scale: TypeAlias = Literal["group", "batch", "none"]
SCALE_FLOOR: Final = 1e-4


def group_advantages(rewards: Tensor, size: int, scale: Scale) -> Tensor:
    """Rewards less their group's mean, over a standard deviation (Shao et al. 2024, section
    4.1.2) or not (Liu et al. 2025). A group of equal rewards has no advantage at all."""
    grouped = rewards.view(-1, size)
    advantages = (grouped - grouped.mean(dim=1, keepdim=True)).flatten()
    if scale == "none":
        return advantages
    if scale == "batch":
        return advantages / (rewards.std() + SCALE_FLOOR)
    return advantages / (grouped.std(dim=1).repeat_interleave(size) + SCALE_FLOOR)


def token_ratios(logprobs: Tensor, old: Tensor) -> Tensor:
    return torch.exp(logprobs - old)


def sequence_ratios(logprobs: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """One ratio a completion, of the geometric means (GSPO, Zheng et al. 2025, equation 7)."""
    mean = ((logprobs - old) * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
    return torch.exp(mean).unsqueeze(1)


def clipped_losses(
    ratios: Tensor, advantages: Tensor, *, low: float, high: float, delta: float | None = None
) -> Tensor:
    """PPO's clipped surrogate (Schulman et al. 2017, equation 7), with an upper clip of its own
    (DAPO, Yu et al. 2025) and, as `delta`, a bound where the advantage is negative."""
    clipped = torch.clamp(ratios, 1 - low, 1 + high)
    bounded = ratios if delta is None else torch.clamp(ratios, max=delta)
    return -torch.minimum(bounded * advantages, clipped * advantages)


def cispo_losses(ratios: Tensor, advantages: Tensor, logprobs: Tensor, *, high: float) -> Tensor:
    """Clipped importance weights without a clipped update (MiniMax 2025, equation 4)."""
    return -torch.clamp(ratios, max=high).detach() * advantages * logprobs


def clip_fraction(
    ratios: Tensor, advantages: Tensor, mask: Tensor, *, low: float, high: float
) -> Tensor:
    """The share of tokens whose update is clipped away."""
    is_low = (ratios < 1 - low) & (advantages < 0)
    is_high = (ratios > 1 + high) & (advantages > 0)
    return masked_mean((is_low | is_high).float(), mask)


def aggregate(losses: Tensor, mask: Tensor, how: str, *, constant: float = 1.0) -> Tensor:
    """One loss of all tokens: `grpo` a mean of means, `bnpo`, `dapo` and `cispo` a mean of
    tokens, `dr_grpo` a sum over completions times `constant`, their longest length."""
    if how == "grpo":
        return ((losses * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)).mean()
    if how == "dr_grpo":
        return (losses * mask).sum() / (losses.shape[0] * constant)
    return masked_mean(losses, mask)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    return (values * mask).sum() / mask.sum().clamp(min=1)


def kl_estimates(logprobs: Tensor, reference: Tensor, kind: Literal["k1", "k2", "k3"]) -> Tensor:
    """Per token, of KL(policy, reference) from samples of the policy (Schulman 2020): k1 is
    unbiased, k2 half a square, k3 unbiased and never negative."""
    difference = logprobs - reference
    if kind == "k1":
        return difference
    if kind == "k2":
        return difference.square() / 2
    return torch.exp(-difference) - 1 + difference


def sampler_weights(
    trainer: Tensor,
    sampler: Tensor,
    mask: Tensor,
    *,
    level: Literal["token", "sequence"],
    how: Literal["importance_sampling", "tis", "mis"],
    maximum: float,
) -> Tensor:
    """How much more likely the trainer finds what the sampler drew, where the two differ though
    their weights are the same: truncated at `maximum` (TIS, Yao et al. 2025) or 0 beyond it."""
    difference = (trainer - sampler) * mask
    if level == "sequence":
        difference = difference.sum(dim=1, keepdim=True)
    weights = torch.exp(difference)
    if how == "tis":
        return torch.clamp(weights, max=maximum)
    return weights if how == "importance_sampling" else weights * (weights <= maximum)


def gae(
    rewards: Tensor, values: Tensor, mask: Tensor, *, gamma: float, decay: float
) -> tuple[Tensor, Tensor]:
    """Advantages and returns of completions that end with their last token (generalized
    advantage estimation, Schulman et al. 2016, equation 16; `decay` is its lambda)."""
    advantages = torch.zeros_like(rewards)
    after = torch.zeros_like(rewards[:, 0])
    value_after = torch.zeros_like(after)
    for at in reversed(range(rewards.shape[1])):
        alive = mask[:, at]
        delta = rewards[:, at] + gamma * value_after - values[:, at]
        after = (delta + gamma * decay * after) * alive
        value_after = values[:, at] * alive
        advantages[:, at] = after
    return advantages, (advantages + values) * mask


def whitened(values: Tensor, mask: Tensor) -> Tensor:
    """Mean 0 and standard deviation 1 over the tokens that count."""
    kept = values[mask.bool()]
    spread = kept.std() if kept.numel() > 1 else torch.zeros_like(kept.sum())
    return (values - kept.mean()) / (spread + 1e-8) * mask


def value_losses(values: Tensor, old: Tensor, returns: Tensor, clip: float | None) -> Tensor:
    """Squared errors; with `clip` the larger of that and of a value that stays so near the old
    one (the reference implementation of Schulman et al. 2017)."""
    errors = (values - returns).square()
    if clip is None:
        return errors
    near = old + torch.clamp(values - old, -clip, clip)
    return torch.maximum(errors, (near - returns).square())
