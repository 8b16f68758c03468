"""Weights in 8 or 4 bits with torchao; activations stay as they are. Runs on any machine."""

import importlib.util
from pathlib import Path
from typing import Any

from inner_trials import models
from inner_trials.convert import loading
from inner_trials.models import ModelError
from inner_trials.settings import SettingsError


def check(artifact: Path, group_size: int | None) -> None:
    """Raises SettingsError: torchao is missing, or the groups do not fit the model."""
    if importlib.util.find_spec("torchao") is None:
        raise SettingsError(
            "options.method: int8 and int4 need torchao, which this Python lacks; name one that"
            " has it in convert's python (scripts/beside.sh torchao makes one)"
        )
    if group_size is not None:
        check_groups(artifact, group_size)


def check_groups(artifact: Path, group_size: int) -> None:
    """Raises SettingsError: the inputs of some layer are no whole number of groups."""
    for name, shape in sorted(models.tensor_shapes(artifact).items()):
        inner = len(shape) == 2 and not any(part in name for part in ("embed", "lm_head", "wte"))
        if inner and shape[1] % group_size:
            raise SettingsError(
                f"options.group_size: {group_size} does not divide the {shape[1]} inputs of"
                f" {name}; write a divisor of it"
            )


def int8() -> Any:
    """One scale for each row of a weight."""
    from torchao.quantization import Int8WeightOnlyConfig

    return Int8WeightOnlyConfig(version=2)


def int4(group_size: int) -> Any:
    """One scale for each group of a row. On a CPU torchao computes with one byte a weight."""
    import torch
    from torchao.quantization import IntxWeightOnlyConfig
    from torchao.quantization.granularity import PerGroup

    return IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(group_size))


def quantise(artifact: Path, output: Path, config: Any) -> None:
    """Quantise every linear layer but the head, and write what was quantised.

    Raises:
        ModelError: no layer was.
    """
    from transformers import TorchAoConfig

    model = loading.load(artifact, quantization=TorchAoConfig(config))
    if not any(type(weight).__module__.startswith("torchao") for weight in _weights(model)):
        raise ModelError("artifact: the model has no linear layer that torchao could quantise")
    model.save_pretrained(output)


def _weights(model: Any) -> list[Any]:
    return [parameter.data for parameter in model.parameters()]
