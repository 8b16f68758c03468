"""The settings of a program that can train in several processes, and what they mean to TRL.

Standard library only, like everything that is read before training begins.
"""

import importlib.util
from dataclasses import dataclass
from typing import Any, Literal

from inner_trials import ranks
from inner_trials.planning import configuration
from inner_trials.settings import SettingsError, at_least


@dataclass(frozen=True, kw_only=True)  # no slots: it is a second base beside TrainingSettings
class ShardedSettings:
    """How the work is split over processes."""

    trainer: Literal["single", "fsdp2", "zero3"] = "single"
    """`fsdp2`, `zero3`: weights, gradients and optimizer are split over processes."""
    data_parallel: int | None = at_least(1, default=None)
    """Processes of fsdp2 or zero3, each with batches of its own; null: one for each GPU."""


def trainer_of(settings: object) -> str:
    """`single` too for a program that knows nothing else."""
    return settings.trainer if isinstance(settings, ShardedSettings) else "single"


def processes(settings: object) -> int:
    """How many ranks the settings ask for; 0 where the program is one process.

    Raises:
        SettingsError: several processes, but nothing that splits the work over them, or what
            cannot be split.
    """
    if not isinstance(settings, ShardedSettings):
        return 0
    if settings.trainer == "single":
        if settings.data_parallel not in (None, 1):
            raise SettingsError(
                f"options.data_parallel: {settings.data_parallel} needs trainer: fsdp2 or zero3"
            )
        return 0
    if settings.trainer == "zero3" and not importlib.util.find_spec("deepspeed"):
        raise SettingsError(
            "options.trainer: zero3 needs deepspeed, which this Python lacks; install it there,"
            " name one that has it in program.python, or write trainer: fsdp2"
        )
    if getattr(settings, "parameterization", "") == "qlora" and not ranks.visible_gpus():
        raise SettingsError(
            f"options.trainer: {settings.trainer} splits no 4-bit weights on a CPU; write"
            " trainer: single, or parameterization: lora"
        )
    return settings.data_parallel or ranks.visible_gpus() or 1


def arguments(settings: object, *, recomputes: bool) -> dict[str, Any]:
    """What TRL's configurations take beside the rest; nothing for one process."""
    trainer = trainer_of(settings)
    if trainer == "fsdp2":
        config = configuration.fsdp_config(recomputes=recomputes)
        # Recomputing is FSDP's own: around it, every weight would be gathered once more.
        return {"fsdp": True, "fsdp_config": config, "activation_checkpointing": False}
    return {"deepspeed": configuration.deepspeed_config()} if trainer == "zero3" else {}
