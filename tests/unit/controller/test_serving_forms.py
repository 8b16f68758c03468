"""What can be served of a stored model follows from its files, and nothing that runs code can."""

import json
from typing import Any

import pytest

from controller.serving.forms import AdapterFiles, Form, WholeModel, read_files
from ledger.digests import sha256_hex
from ledger.errors import InvalidInput

TREE = "a" * 64
CONFIG = {"architectures": ["LlamaForCausalLM"], "hidden_size": 64}
LORA = {"peft_type": "LORA", "r": 8, "target_modules": ["q_proj"]}


class Shelf:
    """A store with one tree."""

    def __init__(self, files: dict[str, Any]) -> None:
        self._content = {
            path: value if isinstance(value, bytes) else json.dumps(value).encode()
            for path, value in files.items()
        }

    def manifest(self, tree: str) -> list[tuple[str, int, int, str]]:
        return [(p, 0o644, len(c), sha256_hex(c)) for p, c in sorted(self._content.items())]

    def read_bytes(self, digest: str) -> bytes:
        return next(c for c in self._content.values() if sha256_hex(c) == digest)


def read(files: dict[str, Any]) -> Any:
    return read_files(Shelf(files), TREE)


WHOLE = {"config.json": CONFIG, "model.safetensors": b"w"}
ADAPTER = {"adapter_config.json": LORA, "adapter_model.safetensors": b"l"}


def test_a_merged_model_with_its_adapter_below_is_both() -> None:
    below = {f"adapter/{name}": content for name, content in ADAPTER.items()}
    found = read({**WHOLE, **below, "adapter/base.json": {"weights_sha256": "d1"}})
    assert found.whole == WholeModel(
        form=Form.FULL, architecture="LlamaForCausalLM", quantisation=None
    )
    assert found.adapter == AdapterFiles(place="adapter", rank=8, base_weights="d1")


def test_an_adapter_alone_is_an_adapter_at_the_root() -> None:
    found = read(ADAPTER)
    assert found.whole is None
    assert found.adapter == AdapterFiles(place="", rank=8, base_weights=None)


@pytest.mark.parametrize("method", ["torchao", "gptq", "awq", "compressed-tensors", "fp8"])
def test_a_quantised_model_says_its_method(method: str) -> None:
    config = {**CONFIG, "quantization_config": {"quant_method": method, "bits": 4}}
    found = read({**WHOLE, "config.json": config})
    assert (found.whole.form, found.whole.quantisation) == (Form.QUANTISED, method)


def test_the_largest_rank_counts() -> None:
    config = {**LORA, "rank_pattern": {"q_proj": 32, "v_proj": 4}}
    assert read({**ADAPTER, "adapter_config.json": config}).adapter.rank == 32


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({"notes.txt": b"x"}, "neither config.json nor adapter_config.json"),
    "pickle": ({**WHOLE, "sub/PYTORCH_MODEL.BIN": b"x"}, "PYTORCH_MODEL.BIN is pickled"),
    "pickled adapter": ({**ADAPTER, "adapter_model.bin": b"x"}, "adapter_model.bin is pickled"),
    "code": ({**WHOLE, "config.json": {**CONFIG, "auto_map": {"A": "a.A"}}}, "auto_map"),
    "deep code": (
        {**WHOLE, "config.json": {**CONFIG, "text_config": {"auto_map": {"A": "a.A"}}}},
        "auto_map",
    ),
    "no json": ({**WHOLE, "config.json": b"{"}, "config.json is not JSON"),
    "nested": ({**WHOLE, "config.json": b"[" * 100_000}, "config.json is not JSON"),
    "list": ({**WHOLE, "config.json": []}, "not a JSON object"),
    "large": ({**WHOLE, "config.json": b" " * 1_100_000}, "1100000 bytes"),
    "classifier": (
        {**WHOLE, "config.json": {"architectures": ["LlamaForSequenceClassification"]}},
        "LlamaForSequenceClassification",
    ),
    "two": ({**WHOLE, "config.json": {"architectures": ["A", "B"]}}, "architecture"),
    "no weights": ({"config.json": CONFIG, "x/model.safetensors": b""}, "no .safetensors"),
    "unknown method": (
        {**WHOLE, "config.json": {**CONFIG, "quantization_config": {"quant_method": "mine"}}},
        "quant_method mine",
    ),
    "no adapter weights": ({"adapter_config.json": LORA}, "adapter_model.safetensors"),
    "other adapter": ({**ADAPTER, "adapter_config.json": {"peft_type": "IA3", "r": 1}}, "IA3"),
    "modules": (
        {**ADAPTER, "adapter_config.json": {**LORA, "modules_to_save": ["score"]}},
        "whole modules",
    ),
    "rank": ({**ADAPTER, "adapter_config.json": {**LORA, "r": 0}}, "rank"),
    "rank of a part": (
        {**ADAPTER, "adapter_config.json": {**LORA, "rank_pattern": {"a": True}}},
        "rank",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_served_is_refused_by_file_and_rule(what: str) -> None:
    files, said = REFUSED[what]
    with pytest.raises(InvalidInput, match=r"artifact aaaaaaaaaaaa: ") as refused:
        read(files)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 400
