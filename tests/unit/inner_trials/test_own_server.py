"""A rollout server of the trial's own: whose GPUs are whose, and the command line it is given."""

from pathlib import Path

import pytest

from inner_trials.own_server import Devices, arguments, divide
from inner_trials.server_settings import ServerSettings, check_server
from inner_trials.settings import SettingsError

SETTINGS = {"parameterization": "lora", "precision": "auto", "staleness_bound": 2}


@pytest.mark.parametrize(
    ("visible", "for_server", "expected"),
    [
        ([], 1, Devices("", "", None)),
        (["3"], 1, Devices("3", "3", 0.3)),
        (["0", "1", "2"], 1, Devices("0,1", "2", None)),
        (["0", "1", "2"], 2, Devices("0", "1,2", None)),
    ],
)
def test_the_last_gpus_are_the_server_s_and_a_single_one_is_shared(
    visible: list[str], for_server: int, expected: Devices
) -> None:
    assert divide(visible, for_server=for_server, memory_share=0.3) == expected


def test_a_server_that_leaves_the_trainer_none_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"resources\.gpus: 3 or more"):
        divide(["0", "1"], for_server=2, memory_share=0.3)


def command(devices: Devices, **stated: object) -> tuple[list[str], dict[str, str]]:
    return arguments(
        Path("/base"),
        port=5000,
        devices=devices,
        settings=SETTINGS,
        stated=stated,
        lora_r=9,
        row_tokens=128,
        tensor_parallel=1,
    )


def after(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def test_on_a_cpu_nothing_is_compiled_and_one_thread_is_used() -> None:
    words, environment = command(Devices("", "", None))
    assert words[:4] == ["--model", "/base", "--host", "127.0.0.1"]
    assert (after(words, "--port"), after(words, "--dtype")) == ("5000", "float32")
    assert (after(words, "--max-model-len"), after(words, "--max-lora-rank")) == ("128", "16")
    assert after(words, "--max-loras") == "4", "those in use, the newest, and one on its way"
    assert after(words, "--logprobs-mode") == "processed_logprobs"
    assert "--enforce-eager" in words
    assert "--enable-lora" in words
    assert environment["OMP_NUM_THREADS"] == "1"
    assert environment["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "True"
    assert "CUDA_VISIBLE_DEVICES" not in environment


def test_on_a_gpu_it_is_bf16_or_what_the_plan_says() -> None:
    words, environment = command(Devices("0", "1", None))
    assert after(words, "--dtype") == "bfloat16"
    assert "--enforce-eager" not in words
    assert "--gpu-memory-utilization" not in words
    assert environment["CUDA_VISIBLE_DEVICES"] == "1"
    shared, _ = command(Devices("0", "0", 0.25), rollout_precision="fp16")
    assert (after(shared, "--dtype"), after(shared, "--gpu-memory-utilization")) == (
        "float16",
        "0.25",
    )


@pytest.mark.parametrize(
    ("given", "changes", "words"),
    [
        ({"vllm_python": "/p"}, {"generation": "transformers"}, "only read with generation"),
        ({"vllm_python": "/p"}, {"vllm_server": "http://x"}, "leave one of them out"),
        ({"vllm_python": "/no/python"}, {}, "/no/python: there is no such file"),
        ({"staleness_bound": 1}, {"generation": "vllm_server"}, "write generation: vllm_adapters"),
        ({"staleness_bound": 1}, {"correction": "none"}, "options.correction: none"),
        ({"staleness_bound": 3}, {"cycle": 4}, "write 4 or more"),
        ({"staleness_bound": 1}, {"in_turn": False}, "prompt_sampling: informative"),
    ],
)
def test_what_only_together_makes_no_sense_is_refused(
    given: dict[str, object], changes: dict[str, object], words: str
) -> None:
    usual: dict[str, object] = {
        "generation": "vllm_adapters",
        "vllm_server": "",
        "correction": "tis",
        "cycle": 1,
        "in_turn": True,
    }
    settings = ServerSettings(**given)  # type: ignore[arg-type]  # of the table above
    with pytest.raises(SettingsError, match=words):
        check_server(settings, **{**usual, **changes})  # type: ignore[arg-type]  # likewise
