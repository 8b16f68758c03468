"""What a converted model may say in its config, and how its adapter is put on.

The trusted side of a conversion: the controller tells an evaluator how a model was converted
(`converted` in its params document), and a config that says anything else than what that
conversion writes is refused. Nothing of ours is imported, so that a copy beside `exact_match.py`
is enough; standard library, and what the conversion's format needs.
"""

import importlib.util
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

KEY: Final = "quantization_config"
ADAPTER: Final = "adapter"
PLAIN: Final = ("merge", "keep")
"""Conversions whose weights are ordinary ones."""
TORCHAO: Final = ("int8", "int4")
PACKED: Final = ("gptq", "awq")
NEEDED: Final = {
    **dict.fromkeys(TORCHAO, "torchao"),
    **dict.fromkeys(PACKED, "compressed_tensors"),
    "keep": "peft",
}
"""Which package reads a conversion's format."""

LORA_SETTINGS: Final = (
    *("r", "lora_alpha", "target_modules", "modules_to_save", "fan_in_fan_out", "bias"),
    *("task_type", "use_rslora", "lora_dropout"),
)

NAME_CHARS: Final = 200
"""Of a layer's name."""

_PER_ROW: Final = {"_type": "PerRow", "_version": 1, "_data": {"dim": -1}}


def torchao_config(method: str, group_size: int) -> dict[str, Any]:
    """The `quantization_config` of a model converted with torchao, word for word."""
    if method == "int8":
        kind = {
            "_type": "Int8WeightOnlyConfig",
            "_version": 2,
            "_data": {"granularity": _PER_ROW, "group_size": None, "set_inductor_config": True},
        }
    else:
        kind = {
            "_type": "IntxWeightOnlyConfig",
            "_version": 2,
            "_data": {
                "weight_dtype": {"_type": "torch.dtype", "_data": "int4"},
                "granularity": {
                    "_type": "PerGroup",
                    "_version": 1,
                    "_data": {"group_size": group_size},
                },
                "mapping_type": {"_type": "MappingType", "_data": "SYMMETRIC"},
                "scale_dtype": None,
                "intx_packing_format": {
                    "_type": "IntxPackingFormat",
                    "_data": "UNPACKED_TO_INT8",
                },
                "intx_choose_qparams_algorithm": {
                    "_type": "IntxChooseQParamsAlgorithm",
                    "_data": "AFFINE",
                },
            },
        }
    return {
        "quant_method": "torchao",
        "quant_type": {"default": kind},
        "modules_to_not_convert": None,
        "include_input_output_embeddings": False,
        "untie_embedding_weights": False,
    }


def needed(converted: Mapping[str, Any]) -> str | None:
    """The package that reads a conversion's format; None for ordinary weights."""
    return NEEDED.get(str(converted.get("method")))


def checked(config: Mapping[str, Any], converted: Mapping[str, Any]) -> dict[str, Any]:
    """The config as it may be given to the library.

    Raises:
        ValueError: it says another format than the conversion writes, or this Python lacks what
            reads it.
    """
    method, found = str(converted.get("method")), config.get(KEY)
    package = needed(converted)
    if package is not None and importlib.util.find_spec(package) is None:
        raise ValueError(
            f"a model converted with {method} is read with {package}, which this Python lacks;"
            " name one that has it in convert's python"
        )
    if method in PLAIN:
        wanted = None
    elif method in TORCHAO:
        wanted = torchao_config(method, int(converted.get("group_size") or 0))
    else:
        return {**config, KEY: _checked_packed(found, int(converted.get("group_size") or 0))}
    if found != wanted:
        raise ValueError(f"config.json: {KEY} is not what the conversion {method} writes")
    return dict(config)


def _checked_packed(found: Any, group_size: int) -> dict[str, Any]:
    """llm-compressor writes much that does not matter; what does is built from its numbers."""
    whole = found if isinstance(found, dict) else {}
    groups = whole.get("config_groups")
    group = groups.get("group_0") if isinstance(groups, dict) and len(groups) == 1 else None
    weights = group.get("weights") if isinstance(group, dict) else None
    weights, ignored = weights if isinstance(weights, dict) else {}, whole.get("ignore")
    wanted = {"num_bits": 4, "type": "int", "group_size": group_size, "strategy": "group"}
    kinds = {"quant_method": "compressed-tensors", "format": "pack-quantized"}
    if (
        {name: whole.get(name) for name in kinds} != kinds
        or {name: weights.get(name) for name in wanted} != wanted
        or not isinstance(weights.get("symmetric"), bool)
        or not isinstance(ignored, list)
        or not all(isinstance(name, str) and len(name) <= NAME_CHARS for name in ignored)
    ):
        raise ValueError(f"config.json: {KEY} is not 4 bits in groups of {group_size}, packed")
    scheme: dict[str, Any] = {
        "targets": ["Linear"],
        "weights": {**wanted, "symmetric": weights["symmetric"]},
    }
    scheme |= {"input_activations": None, "output_activations": None}
    return {
        **kinds,
        "quantization_status": "compressed",
        "ignore": list(ignored),
        "config_groups": {"group_0": scheme},
    }


def finished(model: Any, artifact: Path, converted: Mapping[str, Any]) -> Any:
    """The loaded model as it is served: with its adapter beside the base where it is kept so.

    Raises:
        ValueError: the adapter cannot be read.
    """
    if converted.get("method") != "keep":
        return model
    from peft import PeftModel

    try:
        with tempfile.TemporaryDirectory() as scratch:
            _stage_adapter(artifact / ADAPTER, Path(scratch))
            whole = PeftModel.from_pretrained(model, scratch, local_files_only=True)
    except Exception as error:  # noqa: BLE001  # whatever a broken adapter provokes
        text = " ".join(str(error).split())[:300]
        raise ValueError(f"adapter: {type(error).__name__}: {text}") from None
    return whole.eval()


def _stage_adapter(adapter: Path, staged: Path) -> None:
    """Its weights, and of its settings the numbers and names of layers only."""
    settings = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
    if settings.get("peft_type") != "LORA":
        raise ValueError(f"peft_type is {settings.get('peft_type')!r}, only LORA is loaded")
    kept = {name: settings[name] for name in LORA_SETTINGS if name in settings}
    text = json.dumps({**kept, "peft_type": "LORA"})
    (staged / "adapter_config.json").write_text(text, encoding="utf-8")
    weights = "adapter_model.safetensors"
    (staged / weights).symlink_to((adapter / weights).resolve(strict=True))
