"""Loads a model and its tokenizer from a directory: offline, safetensors only, no remote code."""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_MAX_HEADER_BYTES: Final = 100 * 1024 * 1024


class ModelError(ValueError):
    """The directory is not a model that may be loaded; one line says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummary:
    architecture: str
    parameters: int
    weight_files: int


def check_model(directory: Path) -> ModelSummary:
    """Check what can be checked without loading anything.

    Raises:
        ModelError: no config, code of its own, or weights that are not safetensors.
    """
    config = _read_config(directory / "config.json")
    for name in ("config.json", "tokenizer_config.json"):
        path = directory / name
        if path.exists() and "auto_map" in _read_config(path):
            raise ModelError(
                f"{directory.name}/{name}: auto_map asks to run code that comes with the model,"
                " which ARL never does; use an architecture that transformers has"
            )
    architectures = config.get("architectures")
    if not isinstance(architectures, list) or len(architectures) != 1:
        raise ModelError(f"{directory.name}/config.json: architectures must name exactly one")
    weights = sorted(directory.glob("*.safetensors"))
    if not weights:
        raise ModelError(
            f"{directory.name}: no .safetensors file; save the model with"
            " save_pretrained (pickled weights are not loaded)"
        )
    return ModelSummary(
        architecture=str(architectures[0]),
        parameters=sum(_count_parameters(path) for path in weights),
        weight_files=len(weights),
    )


def load_tokenizer(directory: Path) -> "PreTrainedTokenizerBase":
    """The directory's tokenizer, with a padding token that is not an ordinary one.

    Raises:
        ModelError: there is none, or it lacks an end token.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        raise ModelError(f"{directory.name}: its tokenizer cannot be read: {error}") from error
    if tokenizer.eos_token is None:
        raise ModelError(f"{directory.name}: its tokenizer names no eos_token")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_model(directory: Path, *, dtype: str = "float32") -> "PreTrainedModel":
    """The directory's causal language model, in `dtype` ("auto" for the dtype it was saved in).

    Raises:
        ModelError: it is refused by `check_model`, or weights are missing or of another shape.
    """
    from transformers import AutoModelForCausalLM

    check_model(directory)
    model, report = AutoModelForCausalLM.from_pretrained(
        directory,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        dtype=dtype,
        output_loading_info=True,
    )
    wrong = sorted({*report["missing_keys"], *(str(k) for k in report["mismatched_keys"])})
    if wrong:
        raise ModelError(f"{directory.name}: weights missing or of another shape: {wrong[:3]}")
    return model


def _read_config(path: Path) -> Mapping[str, Any]:
    where = f"{path.parent.name}/{path.name}"
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{where}: no such file; this is not a model's directory") from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{where}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ModelError(f"{where}: expected a JSON object")
    return value


def _count_parameters(path: Path) -> int:
    where = f"{path.parent.name}/{path.name}"
    with path.open("rb") as file:
        prefix = file.read(8)
        size = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else _MAX_HEADER_BYTES + 1
        if size > _MAX_HEADER_BYTES:
            raise ModelError(f"{where}: not a safetensors file")
        try:
            header = json.loads(file.read(size))
            shapes = [t["shape"] for name, t in header.items() if name != "__metadata__"]
            return sum(_product(shape) for shape in shapes)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ModelError(f"{where}: not a safetensors file") from None


def _product(shape: list[int]) -> int:
    total = 1
    for size in shape:
        total *= int(size)
    return total
