"""vLLM's command lines follow from what is served; what a user adds may not contradict them."""

from pathlib import Path

import pytest
import yaml

from controller.serving.commands import Adapter, adapter_command, describe, whole_command
from controller.serving.forms import Form
from ledger.errors import InvalidInput

PLACE = Path("/store/trees/with space")


def adapter(rank: int) -> list[str]:
    made = adapter_command(
        PLACE,
        "b" * 64,
        [Adapter(names=("m",), path=PLACE, rank=rank)],
        host="127.0.0.1",
        port=8000,
        extra=(),
    )
    return made.argv()


@pytest.mark.parametrize(
    ("rank", "buffer"), [(1, "1"), (2, "8"), (16, "16"), (17, "32"), (512, "512"), (600, "600")]
)
def test_the_buffers_are_of_a_rank_that_vllm_has(rank: int, buffer: str) -> None:
    argv = adapter(rank)
    assert argv[argv.index("--max-lora-rank") + 1] == buffer


def test_a_path_with_spaces_survives_shell_and_file() -> None:
    made = whole_command(PLACE, ["m", "m@1"], host="::1", port=8000, extra=("--dtype", "half"))
    assert f"'{PLACE}'" in made.shell()
    assert yaml.safe_load(made.configuration())["model"] == str(PLACE)
    assert made.url == "http://[::1]:8000"
    assert made.argv("/py")[:5] == [
        "/py",
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        str(PLACE),
    ]


@pytest.mark.parametrize(
    "word", ["--model", "--port=1", "--served_model_name", "--host", "--lora-modules=x"]
)
def test_what_follows_from_the_model_is_not_said_again(word: str) -> None:
    with pytest.raises(InvalidInput, match="ARL writes"):
        whole_command(PLACE, ["m"], host="127.0.0.1", port=8000, extra=("--dtype", "half", word))


def test_a_quantised_model_is_told_with_its_method() -> None:
    assert describe(Form.QUANTISED, "torchao") == "quantised (torchao)"
    assert describe(Form.FULL, None) == "full"
