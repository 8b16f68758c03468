"""The options of the learned policy, readable without torch."""

from pathlib import PurePath
from typing import ClassVar

from pydantic import Field, field_validator

from proposers.options import HostedOptions

SHIPPED = "shipped"
NONE = "none"


class PpoOptions(HostedOptions):
    FILES: ClassVar = ("warm_start",)

    update_every: int = Field(default=8, ge=2, le=1_000)
    """Trials that end between two updates of the policy."""
    epochs: int = Field(default=4, ge=1, le=100)
    """Gradient steps of one update; it ends early when the policy has moved far enough."""
    learning_rate: float = Field(default=5e-5, gt=0, le=0.1, strict=False)
    clip_range: float = Field(default=0.2, gt=0, lt=1, strict=False)
    """How far an update may move the probability of what was proposed, as a share."""
    entropy_coefficient: float = Field(default=0.0, ge=0, le=1, strict=False)
    """How much wide proposals are worth by themselves."""
    warm_start: str = SHIPPED
    """What the policy knows at the start: shipped (learned from made-up functions), none, or the
    absolute path of a file that `python -m proposers.ppo_pretrain` wrote."""

    @field_validator("warm_start")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value in (SHIPPED, NONE):
            return value
        path = PurePath(value)
        if not path.is_absolute() or path.suffix != ".safetensors":
            raise ValueError(
                f"{value!r} is no weights; write shipped, none, or the absolute path of a"
                " .safetensors file"
            )
        return value
