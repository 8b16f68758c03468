"""What a PPO study may set or search."""

from dataclasses import dataclass, field

from inner_trials.online import OnlineSettings
from inner_trials.settings import SettingsError, above, at_least


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(OnlineSettings):
    """All that a study may set or search. `max_steps` counts batches of samples."""

    learning_rate: float = above(0.0, default=1e-5)
    per_device_train_batch_size: int = at_least(1, default=16)
    """Completions in one pass of the model."""
    rollout_batch_size: int = at_least(1, default=64)
    """Completions sampled, of so many prompts, before the policy is updated from them."""
    epochs: int = at_least(1, default=4)
    """Passes over these, in shuffled parts of per_device_train_batch_size times
    gradient_accumulation_steps."""
    gamma: float = field(default=1.0, metadata={"above": 0.0, "at_most": 1.0})
    gae_lambda: float = field(default=0.95, metadata={"at_least": 0.0, "at_most": 1.0})
    epsilon: float = above(0.0, default=0.2)
    epsilon_high: float | None = above(0.0, default=None)
    value_clip: float | None = above(0.0, default=None)
    value_weight: float = at_least(0.0, default=0.5)
    entropy_coef: float = at_least(0.0, default=0.0)
    kl_coef: float = at_least(0.0, default=0.05)
    """What a nat of distance from the base costs, taken off the reward of each token."""
    target_kl: float | None = above(0.0, default=None)
    """No further pass over a batch once the policy moved so far from the one that sampled."""
    whiten_advantages: bool = True


def check_settings(settings: Settings) -> None:
    """Raises SettingsError for what only together makes no sense."""
    if settings.precision == "fp16":
        raise SettingsError("options.precision: ppo trains in fp32 or bf16; write one of them")
    if settings.environment:
        raise SettingsError("options.environment: ppo has no turns; use kind grpo")
