"""Reads a model's size from its directory without loading anything."""

import json
import math
from pathlib import Path
from typing import Final

from inner_trials.planning.memory import ModelShape

_HEADER_BYTES: Final = 100 * 1024 * 1024
UNPACKED: Final = ("embed_tokens.", "embed_in.", "embed_out.", "wte.", "wpe.", "lm_head.", "norm")
"""Parts of weights' names: what is no layer that 4 bits are made of."""


def read_shape(directory: Path) -> ModelShape:
    """From config.json and the headers of the safetensors files.

    Raises:
        ValueError: it is no model's directory, or says too little of itself; one line.
    """
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
        sizes: dict[str, int] = {}
        for path in directory.glob("*.safetensors"):
            sizes |= _sizes(path)
        return ModelShape(
            parameters=sum(sizes.values()),
            unpacked=sum(n for name, n in sizes.items() if any(p in name for p in UNPACKED)),
            num_hidden_layers=int(config["num_hidden_layers"]),
            hidden_size=hidden,
            intermediate_size=int(config.get("intermediate_size") or 4 * hidden),
            num_attention_heads=heads,
            num_key_value_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or hidden // heads),
            vocab_size=int(config["vocab_size"]),
        )
    except KeyError as error:
        raise ValueError(f"config.json does not say {error}") from None
    except OSError as error:
        raise ValueError(f"{error.strerror}: {Path(str(error.filename)).name}") from None
    except (AttributeError, ArithmeticError, RecursionError, TypeError) as error:
        raise ValueError(f"it is no model's directory: {error}") from None


def _sizes(path: Path) -> dict[str, int]:
    """Eight bytes with the header's length, then the header, as JSON."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > _HEADER_BYTES:
            raise ValueError(f"{path.name} is not a safetensors file")
        header = json.loads(file.read(size))
    return {n: math.prod(t["shape"]) for n, t in header.items() if n != "__metadata__"}
