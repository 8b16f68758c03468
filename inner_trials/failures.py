"""What may go wrong while training and is nobody's mistake: typed, with what to change."""

from typing import Final

from inner_trials.contract import (
    EXIT_ACTORS_LOST,
    EXIT_BAD_INPUT,
    EXIT_NOT_FINITE,
    EXIT_OUT_OF_MEMORY,
    EXIT_RANK_LOST,
)

_NO_NUMBERS: Final = "probability tensor contains"
"""Of torch.multinomial."""
_NO_MEMORY: Final = ("out of memory", "can't allocate memory", "DefaultCPUAllocator")
_LOST: Final = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")
_LESS: Final = (
    "use a smaller per_device_train_batch_size (with more gradient_accumulation_steps), a smaller"
    " max_length, gradient_checkpointing: true, or parameterization: lora or qlora"
)


_STEADIER: Final = (
    "use a smaller learning_rate, a longer warm-up (warmup_steps), clipping (max_grad_norm), or"
    " precision: fp32"
)


class TrainingFailure(Exception):
    """Training cannot go on; one line says why, and `status` is the program's exit status."""

    status: int = 1


class NotFinite(TrainingFailure):
    """A loss or a score is NaN or infinite."""

    status = EXIT_NOT_FINITE


class OutOfMemory(TrainingFailure):
    """The machine's or the GPU's memory does not hold it."""

    status = EXIT_OUT_OF_MEMORY


class RankLost(TrainingFailure):
    """Another of several training processes is gone."""

    status = EXIT_RANK_LOST


class ActorsLost(TrainingFailure):
    """What samples in another process is gone, or stands still."""

    status = EXIT_ACTORS_LOST


class TemplateFailure(TrainingFailure):
    """The base's chat template is broken, or refuses what it is given."""

    status = EXIT_BAD_INPUT


def typed(error: Exception) -> TrainingFailure | None:
    """The failure an exception stands for; None for one that is a mistake of the program's."""
    if isinstance(error, TrainingFailure):
        return error
    text = " ".join(str(error).split())
    named = type(error).__name__ == "OutOfMemoryError"
    told = isinstance(error, RuntimeError) and any(words in text for words in _NO_MEMORY)
    if type(error).__module__.partition(".")[0] == "jinja2":
        return TemplateFailure(f"the base's chat template cannot write the data: {text[:200]}")
    if isinstance(error, RuntimeError) and _NO_NUMBERS in text:
        return NotFinite(
            "the model's probabilities are no numbers (NaN), so that nothing can be sampled from"
            f" them: {_STEADIER}; if it is so from the start, the base's own weights hold NaN"
        )
    if isinstance(error, MemoryError) or named or told:
        return OutOfMemory(f"out of memory: {text[:200] or 'an allocation failed'}; {_LESS}")
    lost = isinstance(error, RuntimeError) and any(words in text for words in _LOST)
    if lost or type(error).__name__ == "DistBackendError":
        return RankLost(f"another rank is gone: {text[:200]}")
    return None


def not_finite(name: str, value: float, step: int) -> NotFinite:
    return NotFinite(
        f"{name} is {value} at step {step}: {_STEADIER}; if it is so from the first step on, the"
        " base's own weights hold NaN"
    )
