"""How a conversion loads the model it is given, whatever it is a model of."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from inner_trials import models

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CLASSIFIER: Final = "ForSequenceClassification"


def load(directory: Path, quantization: Any = None) -> "PreTrainedModel":
    """A language model or a reward model, by its config. Raises ModelError."""
    summary = models.check_model(directory)
    rewards = summary.architecture.endswith(CLASSIFIER)
    return models.load_model(
        directory,
        quantization=quantization,
        auto_class=f"AutoModel{CLASSIFIER}" if rewards else "AutoModelForCausalLM",
    )
