"""The dtype that a quantised model is served in: what vLLM loads, and nothing that it cannot."""

from pathlib import Path

import pytest

from controller.serving.commands import Command, whole_command
from controller.serving.forms import Form, WholeModel
from ledger.errors import InvalidInput


def model(quantisation: str | None, dtype: str | None = "float32") -> WholeModel:
    form = Form.FULL if quantisation is None else Form.QUANTISED
    return WholeModel(
        form=form, architecture="LlamaForCausalLM", quantisation=quantisation, dtype=dtype
    )


def served(whole: WholeModel, *extra: str) -> Command:
    return whole_command(Path("/m"), ["m"], host="127.0.0.1", port=8000, extra=extra, whole=whole)


def test_torchaos_weights_are_served_as_what_they_stand_for() -> None:
    assert served(model("torchao")).options["dtype"] == "float32"
    assert served(model("torchao", "bfloat16")).argv()[-2:] == ["--dtype", "bfloat16"]
    assert "dtype" not in served(model("torchao", None)).options
    said = served(model("torchao"), "--dtype=float32")
    assert said.argv().count("--dtype=float32") == 1
    assert "dtype" not in said.options


@pytest.mark.parametrize("extra", [("--dtype", "bfloat16"), ("--dtype=half",)])
def test_torchaos_weights_as_anything_else_are_refused(extra: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match=r"--dtype (bfloat16|half): .* stand for float32"):
        served(model("torchao"), *extra)


@pytest.mark.parametrize("quantisation", ["compressed-tensors", "awq", "gptq"])
def test_packed_weights_are_never_computed_with_in_float32(quantisation: str) -> None:
    with pytest.raises(InvalidInput, match="--dtype float32: vLLM computes with packed"):
        served(model(quantisation), "--dtype", "bfloat16", "--dtype", "float32")
    assert "dtype" not in served(model(quantisation)).options
    assert served(model(quantisation), "--dtype", "bfloat16").argv()[-1] == "bfloat16"


def test_a_whole_model_is_served_as_one_likes() -> None:
    assert "dtype" not in served(model(None)).options
    assert served(model(None), "--dtype", "float32").argv()[-1] == "float32"
