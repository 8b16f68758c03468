"""LoRA and QLoRA: their settings, starting from an earlier adapter, and plain weights at the end.

The optional input `adapter` (what `keep_adapter` saved) is merged into the base before training.
"""

import dataclasses
import hashlib
import importlib.util
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from inner_trials import models, reporting
from inner_trials.models import ModelError
from inner_trials.settings import SettingsError, above, at_least

CONFIG_FILE: Final = "adapter_config.json"
WEIGHTS_FILE: Final = "adapter_model.safetensors"
BASE_FILE: Final = "base.json"
"""Beside an adapter that a program saved: which base it belongs to."""
BESIDE: Final = "adapter_sha256"
"""In that file, where the program began from an earlier adapter: which one."""
HEADS: Final = ("lm_head", "embed_out", "score")
"""Kept whole on a 4-bit base: a reward model's head is new and trained as it is."""
ALL_LINEAR: Final = "all-linear"
_PREFIX: Final = "base_model.model."
CHUNK_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSettings:
    """What is trained: all weights, or small matrices beside them."""

    parameterization: Literal["full", "lora", "qlora"] = "full"
    """`qlora`: LoRA on a base stored in 4-bit NF4; needs bitsandbytes."""
    lora_r: int = at_least(1, default=16)
    lora_alpha: float = above(0.0, default=32.0)
    lora_dropout: float = field(default=0.0, metadata={"at_least": 0.0, "below": 1.0})
    lora_target: str = ALL_LINEAR
    """`all-linear`, or names of modules with commas between."""
    keep_adapter: bool = False
    """Also save the LoRA adapter alone, below model/adapter."""


def check_adapter(settings: AdapterSettings, base: Path) -> None:
    """Check, with the standard library alone, what is needed for the parameterization.

    Raises:
        SettingsError: qlora without bitsandbytes.
        ModelError: the input `adapter` is none, or belongs to another base.
    """
    if settings.parameterization == "qlora" and not importlib.util.find_spec("bitsandbytes"):
        raise SettingsError(
            "options.parameterization: qlora needs bitsandbytes, which this Python lacks; install"
            " arl[qlora] there, or name one that has it in program.python"
        )
    start = _find_start()
    if start is not None:
        check_fit(start, base)


def check_fit(start: Path, base: Path) -> None:
    """Raises ModelError: the directory is no LoRA adapter, or belongs to another base."""
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        if not (start / name).is_file():
            raise ModelError(f"adapter/{name}: no such file; this is not a LoRA adapter")
    if (start / BASE_FILE).is_file():
        noted = models.read_json(start / BASE_FILE)
        if BESIDE in noted:
            raise ModelError(
                "adapter: it was trained on its base with another adapter merged into that, and"
                " without it is another model; mount the whole model it was saved with as base"
            )
        wanted = noted.get("weights_sha256")
        if wanted != weights_digest(base):
            raise ModelError(
                "adapter: it was trained on another base (its base.json names weights"
                f" {str(wanted)[:16]}…, these are {weights_digest(base)[:16]}…); mount that base"
            )
    _check_shapes(start, base)


def _check_shapes(start: Path, base: Path) -> None:
    """Every pair of LoRA matrices must fit a weight of the base."""
    weights = models.tensor_shapes(base)
    config = models.read_json(start / CONFIG_FILE)
    is_turned = bool(config.get("fan_in_fan_out"))  # GPT-2 stores inputs first
    for name, shape in models.tensor_shapes(start).items():
        module, is_a, _ = name.removeprefix(_PREFIX).partition(".lora_A.")
        if not is_a:
            module = module.partition(".lora_B.")[0]
        target = weights.get(f"{module}.weight")
        side = 1 if is_a else 0
        # A maps the layer's inputs to r numbers, B those to its outputs.
        if target is None or shape[side] != target[1 - side if is_turned else side]:
            found = "none of that name" if target is None else f"one of {target}"
            raise ModelError(
                f"adapter: {name} {shape} is for another base, which has {found}; mount the base"
                " that it was trained on"
            )


def load_base(settings: AdapterSettings, base: Path, **options: Any) -> Any:
    """The base to train, with the input `adapter` merged into it, in 4 bits for qlora.

    `options` go to `models.load_model`.

    Raises:
        ModelError: it is no model.
        SettingsError: `lora_target` names no part of it.
    """
    model = _load(settings, base, **options)
    if settings.parameterization != "full":
        _check_targets(settings, model)
    return model


def _load(settings: AdapterSettings, base: Path, **options: Any) -> Any:
    start = _find_start()
    if settings.parameterization != "qlora":
        model = models.load_model(base, **options)
        return model if start is None else with_adapter(model, start)
    if start is None:
        return models.load_model(base, quantization=quantization_config(), **options)
    with tempfile.TemporaryDirectory() as folder:  # only files can be loaded in 4 bits
        whole = with_adapter(models.load_model(base), start)
        whole.save_pretrained(folder)
        return models.load_model(Path(folder), quantization=quantization_config(), **options)


def _check_targets(settings: AdapterSettings, model: Any) -> None:
    paths = [path for path, part in model.named_modules() if hasattr(part, "weight")]
    for name in _targets(settings):
        if not any(path == name or path.endswith(f".{name}") for path in paths):
            known = sorted({path.rpartition(".")[2] for path in paths} - {""})
            raise SettingsError(
                f"options.lora_target: the base has no part named {name!r}; write all-linear, or"
                f" some of {', '.join(part for part in known if not part.isdigit())}"
            )


def _targets(settings: AdapterSettings) -> list[str]:
    """The modules that are named; none for all of them."""
    if settings.lora_target == ALL_LINEAR:
        return []
    return [name.strip() for name in settings.lora_target.split(",")]


def with_adapter(model: Any, start: Path) -> Any:
    """The model with an adapter merged into its weights."""
    from peft import PeftConfig, PeftModel

    config = PeftConfig.from_pretrained(start)
    # Merged, it has no task any more: an adapter of a language model fits its classifier, too.
    config.task_type = None
    whole = PeftModel.from_pretrained(model, start, config=config).merge_and_unload()
    whole.requires_grad_(requires_grad=True)  # peft had frozen it
    return whole


def _find_start() -> Path | None:
    try:
        return reporting.input_path("adapter")
    except reporting.MissingInput:
        return None


def quantization_config() -> Any:
    """NF4 with double quantisation (Dettmers et al. 2023), computing in bf16 on a GPU that has
    it and in fp32 elsewhere."""
    import torch
    from transformers import BitsAndBytesConfig

    has_bf16 = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16 if has_bf16 else torch.float32,
        llm_int8_skip_modules=list(HEADS),
    )


def lora_config(settings: AdapterSettings, *, task: str = "CAUSAL_LM") -> Any:
    """peft's configuration; None for full training."""
    if settings.parameterization == "full":
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=settings.lora_r,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        # A list even of one name: alone it would be an expression for whole paths.
        target_modules=_targets(settings) or ALL_LINEAR,
        task_type=task,
        # The head of a reward model is new: it has to be trained as a whole.
        modules_to_save=["score"] if task == "SEQ_CLS" else None,
    )


def restore_precision(model: Any, settings: AdapterSettings) -> None:
    """On a 4-bit base TRL halves the precision of all that is trained. A new head needs that of
    what the base computes; an adapter is read back from a checkpoint in fp32, and a run that was
    stopped would go on to other weights."""
    if settings.parameterization != "qlora":
        return
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data = weight.data.float()


def merged(model: Any, settings: AdapterSettings) -> Any:
    """Plain weights that answer as the trained adapter does; on a 4-bit base, the weights that
    its codes stand for."""
    if settings.parameterization != "qlora":
        return model.merge_and_unload()
    _dequantise(model)
    whole = model.merge_and_unload()
    whole.hf_quantizer, whole.is_quantized, whole.is_loaded_in_4bit = None, False, False
    del whole.config.quantization_config
    return whole


def _dequantise(model: Any) -> None:
    """Replace each 4-bit layer, with its adapter where it has one, by an ordinary one. (peft's
    own merging would round the sum to 4 bits again.)"""
    from bitsandbytes.nn import Linear4bit
    from peft.tuners.lora.bnb import Linear4bit as AdaptedLinear4bit

    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if isinstance(layer, AdaptedLinear4bit):
                deltas = [layer.get_delta_weight(adapter) for adapter in layer.active_adapters]
                setattr(parent, name, _plain(layer.get_base_layer(), deltas))
            elif isinstance(layer, Linear4bit) and not isinstance(parent, AdaptedLinear4bit):
                setattr(parent, name, _plain(layer, []))


def _plain(layer: Any, deltas: Sequence[Any]) -> Any:
    from bitsandbytes.functional import dequantize_4bit
    from torch.nn import Linear

    weight = dequantize_4bit(layer.weight.data, layer.weight.quant_state).float()
    for delta in deltas:
        weight += delta.float()
    plain = Linear(weight.shape[1], weight.shape[0], bias=layer.bias is not None)
    plain.weight.data = weight
    if layer.bias is not None:
        plain.bias.data = layer.bias.data.float()
    return plain


def save_adapter(model: Any, base: Path, directory: Path) -> None:
    """The adapter alone, with a note of the base it belongs to, and of the adapter that was
    merged into that."""
    model.save_pretrained(directory)
    note = {"weights_sha256": weights_digest(base)}
    if (start := _find_start()) is not None:
        note[BESIDE] = weights_digest(start)
    (directory / BASE_FILE).write_text(json.dumps(note) + "\n", encoding="utf-8")


def weights_digest(directory: Path) -> str:
    """sha256 over a model's weight files, in order of their names."""
    digest = hashlib.sha256()
    for path in sorted(directory.glob("*.safetensors")):
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()


def described(settings: AdapterSettings) -> dict[str, object]:
    """The fields that say how something was parameterised, for lineage."""
    names = [field.name for field in dataclasses.fields(AdapterSettings)]
    return {name: getattr(settings, name) for name in names}
