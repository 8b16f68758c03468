"""Conversions as processes on real models: converted, reloaded, measured, scored, and refused."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from evaluator.measurements import parse_measurement
from evaluator.program_files import measuring_files
from evaluator.scores import ScoreRefused
from inner_trials import demo_task
from inner_trials.contract import EXIT_BAD_INPUT, EXIT_REFUSED
from tests.integration import sft_runs
from tests.integration.test_exact_match import write_automaton

TORCHAO = Path(os.environ.get("ARL_TORCHAO") or sft_runs.ROOT / ".torchao") / "bin" / "python"
COMPRESSOR = (
    Path(os.environ.get("ARL_LLMCOMPRESSOR") or sft_runs.ROOT / ".llmcompressor") / "bin/python"
)
needs_torchao = pytest.mark.skipif(
    not TORCHAO.exists(), reason="no torchao: scripts/beside.sh torchao"
)
needs_compressor = pytest.mark.skipif(
    not COMPRESSOR.exists(), reason="no llm-compressor: scripts/beside.sh llmcompressor"
)
LORA = {"parameterization": "lora", "lora_r": 4, "keep_adapter": True, "max_steps": 20}

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def says_12(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that answers 12 to everything, and the rows that say so."""
    directory = tmp_path_factory.mktemp("says_12")
    model = directory / "model"
    model.mkdir()
    write_automaton(model, {demo_task.ASSISTANT: "1", "1": "2", "2": demo_task.END})
    demo_task.write_tokenizer(model)
    rows = [{"prompt": f"sort {n}", "answer": "12"} for n in range(20, 36)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (directory / "split.jsonl").write_text(lines)
    return directory


def convert(
    directory: Path, artifact: Path, *, status: int = 0, python: Path = TORCHAO, **settings: object
) -> tuple[Path, str]:
    """Run the converting program: what it made, and its log."""
    inputs = {"artifact": artifact}
    for name in ("base", "train"):
        if name in settings:
            inputs[name] = Path(str(settings.pop(name)))
    trial, process = sft_runs.start(
        directory,
        artifact,
        program="convert",
        base=inputs.pop("base", None),
        data=inputs,
        python=python,
        only=settings,
    )
    log, _ = process.communicate(timeout=280)
    assert process.returncode == status, log
    return trial.model, log


def measure(
    directory: Path, converted: Path, unconverted: Path, how: Mapping[str, object], python: Path
) -> Mapping[str, object]:
    status, written, log = sft_runs.run_bundle(
        directory,
        measuring_files(),
        {"artifact": converted, "unconverted": unconverted},
        {"converted": how},
        brings={},
        python=python,
    )
    assert status == 0, log
    found = parse_measurement(json.dumps(written).encode())
    assert not isinstance(found, ScoreRefused)
    return found


@needs_torchao
def test_a_model_in_8_bits_is_half_as_large_answers_the_same_and_is_read_only_when_announced(
    says_12: Path, tmp_path: Path
) -> None:
    how = {"method": "int8"}
    made, log = convert(tmp_path / "convert", says_12 / "model", method="int8")
    assert "convert: int8:" in log
    split, tokenizer = says_12 / "split.jsonl", {"tokenizer": says_12 / "model"}
    status, document, log = sft_runs.score(
        tmp_path / "scored",
        "exact_match",
        made,
        split,
        tokenizer,
        converted=how,
        python=TORCHAO,
        max_new_tokens=4,
    )
    assert (status, document["items"]) == (0, [1.0] * 16), log
    # What a trial trained may not say that it is quantised: nobody announced it.
    status, document, log = sft_runs.score(
        tmp_path / "unannounced", "exact_match", made, split, tokenizer, python=TORCHAO
    )
    assert (status, document) == (EXIT_REFUSED, {})
    assert "quantization_config is not allowed" in log
    found = measure(tmp_path / "measured", made, says_12 / "model", how, TORCHAO)
    before, after = found["unconverted"], found["converted"]
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert after["size_bytes"] < 0.6 * before["size_bytes"]
    assert min(before["tokens_per_s"], after["tokens_per_s"], before["token_s"]) > 0
    assert min(before["own_memory_bytes"], after["own_memory_bytes"]) > 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"method": "int8"}, "int8 and int4 need torchao"),
        ({"method": "gptq"}, "need llm-compressor"),
        ({"method": "merge"}, "no adapter/ beside the model"),
        ({"method": "nf4"}, "is not one of merge, keep, int8, int4, gptq, awq"),
    ],
)
def test_what_cannot_be_converted_says_what_is_missing(
    says_12: Path, tmp_path: Path, settings: dict[str, object], said: str
) -> None:
    _, log = convert(
        tmp_path / "run",
        says_12 / "model",
        status=EXIT_BAD_INPUT,
        python=Path(sys.executable),
        base=says_12 / "model",
        train=says_12 / "split.jsonl",
        **settings,
    )
    assert said in log
    assert len(log.splitlines()) == 1


@needs_torchao
def test_what_is_no_model_and_what_is_quantised_already_are_refused(
    says_12: Path, tmp_path: Path
) -> None:
    (tmp_path / "none").mkdir()
    _, log = convert(tmp_path / "a", tmp_path / "none", status=EXIT_BAD_INPUT, method="int8")
    assert "this is not a model's directory" in log
    again = tmp_path / "again"
    again.mkdir()
    for path in (says_12 / "model").iterdir():
        (again / path.name).write_bytes(path.read_bytes())
    config = json.loads((again / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "torchao"}
    (again / "config.json").write_text(json.dumps(config))
    _, log = convert(tmp_path / "b", again, status=EXIT_BAD_INPUT, method="int8")
    assert "quantised already" in log
    _, log = convert(
        tmp_path / "c",
        says_12 / "model",
        status=EXIT_BAD_INPUT,
        method="int4",
        group_size=48,
    )
    assert "48 does not divide" in log


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "python"),
    [
        pytest.param({"method": "int4", "group_size": 32}, TORCHAO, marks=needs_torchao),
        pytest.param({"method": "gptq", "group_size": 32}, COMPRESSOR, marks=needs_compressor),
        pytest.param({"method": "awq", "group_size": 32}, COMPRESSOR, marks=needs_compressor),
    ],
)
def test_a_model_in_4_bits_is_reloaded_and_answers(
    says_12: Path, tmp_path: Path, how: dict[str, object], python: Path
) -> None:
    train = tmp_path / "train.jsonl"
    rows = [{"prompt": f"sort {n}", "completion": "12"} for n in range(40, 72)]
    train.write_text("".join(json.dumps(row) + "\n" for row in rows))
    made, _ = convert(tmp_path / "convert", says_12 / "model", python=python, train=train, **how)
    status, document, log = sft_runs.score(
        tmp_path / "scored",
        "exact_match",
        made,
        says_12 / "split.jsonl",
        {"tokenizer": says_12 / "model"},
        converted=how,
        python=python,
        max_new_tokens=4,
    )
    assert status == 0, log
    assert document["items"] == [1.0] * 16
    found = measure(tmp_path / "measured", made, says_12 / "model", how, python)
    assert isinstance(found["converted"], dict)


@pytest.mark.slow
def test_an_adapter_merged_or_kept_gives_the_scores_of_the_model_it_was_trained_in(
    tmp_path: Path,
) -> None:
    demo_task.write_task(tmp_path / "task")
    task = tmp_path / "task"
    trained = sft_runs.train(tmp_path / "trained", task, **LORA)
    split = task / "evaluator" / "search.jsonl"
    tokenizer = {"tokenizer": task / "evaluator" / "tokenizer"}
    items = {}
    for method in ("merge", "keep"):
        made, _ = convert(tmp_path / method, trained.model, base=task / "base", method=method)
        assert (made / "adapter").is_dir() == (method == "keep")
        status, document, log = sft_runs.score(
            tmp_path / f"scored-{method}",
            "perplexity",
            made,
            split,
            tokenizer,
            converted={"method": method},
            max_length=64,
        )
        assert status == 0, log
        items[method] = document["items"]
    status, document, log = sft_runs.score(
        tmp_path / "scored", "perplexity", trained.model, split, tokenizer, max_length=64
    )
    assert status == 0, log
    assert items["merge"] == pytest.approx(document["items"], abs=1e-4)
    assert items["keep"] == pytest.approx(document["items"], abs=1e-4)
    # Alone, the base of a kept adapter is another model.
    status, document, log = sft_runs.score(
        tmp_path / "alone",
        "perplexity",
        tmp_path / "keep" / "output" / "model",
        split,
        tokenizer,
        max_length=64,
    )
    assert status == 0, log
    assert document["items"] != pytest.approx(items["keep"], abs=1e-2)
