"""Loads a model and its tokenizer from a directory: offline, safetensors only, no remote code."""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from inner_trials import failures

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_MAX_HEADER_BYTES: Final = 100 * 1024 * 1024
SHOWN: Final = 3
SAID_CHARS: Final = 300
"""Of what a library said, which may be pages long."""


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
    config = read_json(directory / "config.json")
    for name in ("config.json", "tokenizer_config.json"):
        path = directory / name
        if path.exists() and "auto_map" in read_json(path):
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
        parameters=sum(math.prod(shape) for path in weights for shape in _shapes(path).values()),
        weight_files=len(weights),
    )


def context_tokens(directory: Path) -> int | None:
    """How many positions a model has; None where its config does not say."""
    config = read_json(directory / "config.json")
    value = config.get("max_position_embeddings", config.get("n_positions"))  # GPT-2's name
    return value if isinstance(value, int) and value > 1 else None


def row_tokens(limit: int, directory: Path) -> int:
    """How long a row may be: what the study says, or all that the base has positions for."""
    positions = context_tokens(directory)
    return limit if positions is None else min(limit, positions)


def check_padding(directory: Path) -> None:
    """A reward is read at the last token that is no padding, so the two must be told apart.

    Raises:
        ModelError: the tokenizer names no padding token, or the end token is it.
    """
    settings = read_json(directory / "tokenizer_config.json")
    pad, end = (_content(settings.get(name)) for name in ("pad_token", "eos_token"))
    if pad is None or pad == end:
        raise ModelError(
            f"{directory.name}/tokenizer_config.json: its pad_token is {pad or 'missing'}, but a"
            " reward model needs one that is not the end token; name another special token of its"
            " vocabulary"
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
    except Exception as error:  # broken files raise anything, from KeyError to tokenizers' own
        raise _unreadable(directory, "tokenizer", error) from error
    if tokenizer.eos_token is None:
        raise ModelError(f"{directory.name}: its tokenizer names no eos_token")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_model(
    directory: Path,
    *,
    dtype: str = "float32",
    quantization: Any = None,
    auto_class: str = "AutoModelForCausalLM",
    new_weights: tuple[str, ...] = (),
) -> "PreTrainedModel":
    """The directory's model, in `dtype` ("auto" for the dtype it was saved in).

    Args:
        quantization: how its linear layers are stored while they are frozen.
        auto_class: which of transformers' classes loads it.
        new_weights: weights that the directory may lack; they are drawn at random.

    Raises:
        ModelError: it is refused by `check_model`, or weights are missing or of another shape.
    """
    import transformers

    check_model(directory)
    placed = {} if quantization is None else {"device_map": _device_map()}
    labels = {"num_labels": 1} if auto_class == "AutoModelForSequenceClassification" else {}
    try:
        model, report = getattr(transformers, auto_class).from_pretrained(
            directory,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=dtype,
            quantization_config=quantization,
            output_loading_info=True,
            # Else the error names none of them; they are refused below.
            ignore_mismatched_sizes=True,
            **placed,
            **labels,
        )
    except Exception as error:
        if failures.typed(error) is not None:
            raise
        raise _unreadable(directory, "model", error) from error
    missing = {*report["missing_keys"]} - {*new_weights}
    wrong = sorted({*missing, *(_mismatch(key) for key in report["mismatched_keys"])})
    if wrong:
        raise ModelError(
            f"{directory.name}: weights missing or of another shape than config.json says:"
            f" {', '.join(wrong[:SHOWN])}{' …' if len(wrong) > SHOWN else ''}"
        )
    return model


def _mismatch(key: Any) -> str:
    """transformers gives the name, or it with the shapes found and wanted."""
    if isinstance(key, str):
        return key
    name, found, wanted = key
    return f"{name} {tuple(found)} for {tuple(wanted)}"


def _unreadable(directory: Path, what: str, error: Exception) -> ModelError:
    said = " ".join(str(error).split())[:SAID_CHARS] or type(error).__name__
    return ModelError(f"{directory.name}: its {what} cannot be read: {said}")


def _device_map() -> dict[str, Any]:
    import torch

    return {"": 0 if torch.cuda.is_available() else "cpu"}


def _content(token: Any) -> str | None:
    return token.get("content") if isinstance(token, dict) else token


def read_json(path: Path) -> Mapping[str, Any]:
    """A JSON object in a model's directory.

    Raises:
        ModelError: there is none.
    """
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


def tensor_shapes(directory: Path) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor in a directory's weight files, from their headers.

    Raises:
        ModelError: a file is not in the safetensors format.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for path in sorted(directory.glob("*.safetensors")):
        shapes |= _shapes(path)
    return shapes


def _shapes(path: Path) -> dict[str, tuple[int, ...]]:
    where = f"{path.parent.name}/{path.name}"
    with path.open("rb") as file:
        prefix = file.read(8)
        size = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else _MAX_HEADER_BYTES + 1
        if size > _MAX_HEADER_BYTES:
            raise ModelError(f"{where}: not a safetensors file")
        try:
            header = json.loads(file.read(size))
            tensors = {name: t["shape"] for name, t in header.items() if name != "__metadata__"}
            return {name: tuple(int(n) for n in shape) for name, shape in tensors.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ModelError(f"{where}: not a safetensors file") from None
