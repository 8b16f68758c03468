"""What is refused before a model is loaded."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from inner_trials import demo_task, models


@pytest.fixture
def base(tmp_path: Path) -> Path:
    demo_task.write_base(tmp_path / "base")
    demo_task.write_tokenizer(tmp_path / "base")
    return tmp_path / "base"


def edit(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def only_pickled_weights(base: Path) -> None:
    (base / "model.safetensors").rename(base / "pytorch_model.bin")


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (lambda base: (base / "config.json").unlink(), "no such file"),
    "broken config": (lambda base: (base / "config.json").write_text("{"), "not JSON"),
    "list config": (lambda base: (base / "config.json").write_text("[]"), "a JSON object"),
    "code in config": (lambda base: edit(base / "config.json", auto_map={"A": "b"}), "auto_map"),
    "code in tokenizer": (
        lambda base: edit(base / "tokenizer_config.json", auto_map={"A": "b"}),
        "auto_map",
    ),
    "two architectures": (
        lambda base: edit(base / "config.json", architectures=["A", "B"]),
        "exactly one",
    ),
    "pickled weights": (only_pickled_weights, r"no \.safetensors"),
    "empty weights": (lambda base: (base / "model.safetensors").write_bytes(b""), "not a safe"),
    "huge header": (
        lambda base: (base / "model.safetensors").write_bytes(struct.pack("<Q", 2**60)),
        "not a safetensors",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_model_that_may_not_be_loaded_is_refused_with_the_reason(base: Path, name: str) -> None:
    damage, message = DAMAGES[name]
    models.check_model(base)
    damage(base)
    with pytest.raises(models.ModelError, match=message):
        models.check_model(base)


@pytest.mark.parametrize("name", ["max_position_embeddings", "n_positions"])
def test_a_row_is_no_longer_than_the_base_has_positions_by_whatever_name(
    base: Path, name: str
) -> None:
    config = json.loads((base / "config.json").read_text())
    del config["max_position_embeddings"]
    (base / "config.json").write_text(json.dumps({**config, name: 24}))
    assert models.row_tokens(1024, base) == 24
    assert models.row_tokens(16, base) == 16
