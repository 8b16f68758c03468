"""Which prompts are sampled, and how completions are put into batches: options and their rules."""

from dataclasses import dataclass
from typing import Literal

from inner_trials.online import OnlineSettings
from inner_trials.settings import SettingsError, at_least


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings(OnlineSettings):
    """What grpo may set of it."""

    # which prompts
    prompt_sampling: Literal["all", "informative"] = "all"
    """`all`: in turn, shuffled anew in each pass; `informative`: those of which all completions
    passed or all failed, which teach nothing, rest for some passes (prompt_choice.py)."""
    rest_after: int = at_least(1, default=2)
    """For informative: groups in a row without a difference before a prompt rests."""
    rest_passes: int = at_least(1, default=3)
    """For informative: passes over the data for which it rests."""
    resample_rounds: int = at_least(0, default=0)
    """For informative: how many times groups without a difference are replaced by those of other
    prompts before the update (dynamic sampling of DAPO, Yu et al. 2025)."""
    # in what batches
    length_buckets: int = at_least(1, default=1)
    """Batches that a generation is sampled in, prompts of like length together; where there are
    several, the micro-batches of an update hold completions of like length, too."""
    straggler_tokens: int = at_least(0, default=0)
    """Completions that are still being written after so many tokens go on together in one batch,
    whatever their bucket; 0: each bucket waits for its last one. None is ever left out."""
    share_prefix: bool = False
    """Compute a prompt once for all completions of its group, when sampling and when learning."""

    partial_episodes: Literal["learn", "mask"] = "learn"
    """Episodes of an environment that ended before their time (cut off, no room, no answer, or
    the environment failed): `learn` from the reward they had; `mask`: they add nothing to the
    loss, though their reward counts in the mean of their group."""

    @property
    def samples_apart(self) -> bool:
        """Whether completions are sampled from random numbers of their own (group_sampling.py)."""
        return self.length_buckets > 1 or self.straggler_tokens > 0 or self.share_prefix


def check_batches(settings: BatchSettings, generation: str) -> None:
    """Raises SettingsError for what only together makes no sense."""
    if settings.resample_rounds and settings.prompt_sampling == "all":
        raise SettingsError(
            f"options.resample_rounds: {settings.resample_rounds} is only read with"
            " prompt_sampling: informative; write that, or leave it out"
        )
    if settings.prompt_sampling == "informative" and settings.reward == "learned":
        raise SettingsError(
            "options.prompt_sampling: informative needs a reward that says passed or failed, and"
            " reward is learned; write all"
        )
    if settings.partial_episodes == "mask" and not settings.environment:
        raise SettingsError(
            "options.partial_episodes: mask is only read with an environment; completions that are"
            " cut off are masked by mask_truncated_completions: true"
        )
    if settings.straggler_tokens >= settings.max_completion_length:
        raise SettingsError(
            f"options.straggler_tokens: {settings.straggler_tokens} must be less than"
            f" max_completion_length ({settings.max_completion_length}), or 0 for none"
        )
    if settings.samples_apart and generation != "transformers":
        raise SettingsError(
            f"options.generation: {generation} makes batches and shares prefixes by itself;"
            " length_buckets, straggler_tokens and share_prefix need generation: transformers"
        )
    _check_prefix(settings)


def _check_prefix(settings: BatchSettings) -> None:
    if not settings.share_prefix:
        return
    if settings.gradient_checkpointing:
        raise SettingsError(
            "options.share_prefix: what a group shares is kept, which gradient_checkpointing would"
            " not; turn one of them off"
        )
    if settings.lora_dropout:
        raise SettingsError(
            f"options.share_prefix: lora_dropout {settings.lora_dropout} would be the same for a"
            " whole group; write 0, or share_prefix: false"
        )
