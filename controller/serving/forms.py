"""What a stored model is made of, by its files alone: whole, quantised, or an adapter."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from ledger.errors import InvalidInput
from ledger.records import Json

CONFIG: Final = "config.json"
ADAPTER_CONFIG: Final = "adapter_config.json"
ADAPTER_WEIGHTS: Final = "adapter_model.safetensors"
ADAPTER_BASE: Final = "base.json"
ADAPTER_PLACE: Final = "adapter"
"""Below a merged model, where its trial kept the adapter as well."""
CONFIG_BYTES: Final = 1024 * 1024
PICKLED: Final = (".bin", ".ckpt", ".pickle", ".pkl", ".pt", ".pth")
QUANTISATIONS: Final = frozenset(
    "awq bitsandbytes compressed-tensors fp8 gptq modelopt mxfp4 torchao".split()
)
"""What vLLM reads of a config's quantization_config."""
_GENERATES: Final = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")


class Form(StrEnum):
    FULL = "full"
    QUANTISED = "quantised"
    ADAPTER = "adapter"


class Store(Protocol):
    """What is needed of ledger.artifacts.ArtifactStore."""

    def manifest(self, tree: str) -> list[tuple[str, int, int, str]]: ...

    def read_bytes(self, digest: str) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeModel:
    form: Form
    architecture: str
    quantisation: str | None
    dtype: str | None = None
    """Of the weights, or what they stand for, where the config says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterFiles:
    place: str
    """Directory in the tree, like `adapter`; empty: its root."""
    rank: int
    base_weights: str | None
    """sha256 of the weights it was trained on, where its program noted it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """One stored model; at least one of the two."""

    whole: WholeModel | None
    adapter: AdapterFiles | None


def read_files(store: Store, tree: str) -> ModelFiles:
    """What can be served of a stored model.

    Raises:
        InvalidInput: nothing can; the message names the file and the rule.
        NotFound, ArtifactCorrupt: it is not in the store as it was written.
    """
    files = {path: (size, digest) for path, _, size, digest in store.manifest(tree)}
    for path in files:
        if path.lower().endswith(PICKLED):
            raise InvalidInput(
                f"artifact {tree[:12]}: {path} is pickled, which would run code in the server; "
                "save the model as .safetensors"
            )
    found = _Files(store, tree, files)
    whole = _whole(found) if CONFIG in files else None
    places = [p for p in ("", f"{ADAPTER_PLACE}/") if p + ADAPTER_CONFIG in files]
    adapter = _adapter(found, places[0]) if places else None
    if whole is None and adapter is None:
        raise InvalidInput(
            f"artifact {tree[:12]}: it has neither {CONFIG} nor {ADAPTER_CONFIG}, so it is no "
            "model that can be served"
        )
    return ModelFiles(whole=whole, adapter=adapter)


class _Files:
    def __init__(self, store: Store, tree: str, files: Mapping[str, tuple[int, str]]) -> None:
        self.tree = tree
        self.paths = files.keys()
        self._store = store
        self._files = files

    def read(self, path: str) -> Mapping[str, Json]:
        """A JSON object that names no code. Raises InvalidInput."""
        size, digest = self._files[path]
        if size > CONFIG_BYTES:
            raise self.wrong(path, f"has {size} bytes, of which {CONFIG_BYTES} are read")
        try:
            document = json.loads(self._store.read_bytes(digest), object_hook=self._without_code)
        except (ValueError, RecursionError):
            raise self.wrong(path, "is not JSON") from None
        if not isinstance(document, dict):
            raise self.wrong(path, "is not a JSON object")
        return document

    def wrong(self, path: str, rule: str) -> InvalidInput:
        return InvalidInput(f"artifact {self.tree[:12]}: {path} {rule}")

    def _without_code(self, found: dict[str, Json]) -> dict[str, Json]:
        if found.get("auto_map"):
            raise InvalidInput(
                f"artifact {self.tree[:12]}: auto_map names code of the model's own, which no "
                "server runs; save a stock architecture"
            )
        return found


def _whole(files: _Files) -> WholeModel:
    config = files.read(CONFIG)
    named = config.get("architectures")
    architecture = named[0] if isinstance(named, list) and len(named) == 1 else None
    if not isinstance(architecture, str) or not architecture.endswith(_GENERATES):
        rule = f"names the architecture {architecture or named}, which generates nothing"
        raise files.wrong(CONFIG, f"{rule}; serve a language model")
    if not any("/" not in path and path.endswith(".safetensors") for path in files.paths):
        raise files.wrong(CONFIG, "has no .safetensors file beside it")
    quantisation = config.get("quantization_config")
    said = config.get("dtype") or config.get("torch_dtype")
    dtype = said if isinstance(said, str) else None
    if not quantisation:
        return WholeModel(
            form=Form.FULL, architecture=architecture, quantisation=None, dtype=dtype
        )
    method = quantisation.get("quant_method") if isinstance(quantisation, Mapping) else None
    if method not in QUANTISATIONS:
        known = ", ".join(sorted(QUANTISATIONS))
        raise files.wrong(CONFIG, f"says quant_method {method}, but vLLM serves {known}")
    return WholeModel(
        form=Form.QUANTISED, architecture=architecture, quantisation=str(method), dtype=dtype
    )


def _adapter(files: _Files, place: str) -> AdapterFiles:
    if place + ADAPTER_WEIGHTS not in files.paths:
        raise files.wrong(place + ADAPTER_CONFIG, f"has no {ADAPTER_WEIGHTS} beside it")
    config = files.read(place + ADAPTER_CONFIG)
    kind = config.get("peft_type")
    if kind != "LORA":
        raise files.wrong(place + ADAPTER_CONFIG, f"says peft_type {kind}, but vLLM serves LORA")
    if config.get("modules_to_save"):
        rule = "keeps whole modules beside its LoRA weights, which vLLM does not load"
        raise files.wrong(place + ADAPTER_CONFIG, f"{rule}; serve the merged model")
    patterns = config.get("rank_pattern")
    ranks = [config.get("r"), *(patterns.values() if isinstance(patterns, Mapping) else ())]
    whole = [rank for rank in ranks if type(rank) is int and rank > 0]
    if len(whole) != len(ranks):
        raise files.wrong(place + ADAPTER_CONFIG, f"says rank {ranks}: write whole numbers from 1")
    noted = None
    if place + ADAPTER_BASE in files.paths:
        said = files.read(place + ADAPTER_BASE).get("weights_sha256")
        noted = said if isinstance(said, str) else None
    return AdapterFiles(place=place.rstrip("/"), rank=max(whole), base_weights=noted)
