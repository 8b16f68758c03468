"""The SFT program on bad input: exit status 2 and one line, long before torch is imported."""

import json
from pathlib import Path

import pytest

from inner_trials import demo_task
from tests.integration import sft_runs


@pytest.fixture
def task(tmp_path: Path) -> Path:
    demo_task.write_task(tmp_path / "task")
    return tmp_path / "task"


def refusal(tmp_path: Path, task: Path, **settings: object) -> str:
    _, process = sft_runs.start(tmp_path / "trial", task, **settings)  # type: ignore[arg-type]
    log, _ = process.communicate(timeout=60)
    assert process.returncode == 2, log
    assert log.count("\n") == 1, "one line, no traceback"
    return log.strip()


def test_an_unknown_option_is_named_with_the_known_ones(tmp_path: Path, task: Path) -> None:
    log = refusal(tmp_path, task, learning_rat=0.1)
    assert log.startswith("sft: options.learning_rat: unknown option (did you mean learning_rate")
    assert "warmup_steps" in log


def test_a_value_out_of_range_is_refused(tmp_path: Path, task: Path) -> None:
    assert refusal(tmp_path, task, learning_rate=0.0).endswith("0.0 must be more than 0.0")


def test_a_bad_row_is_named_by_file_and_line(tmp_path: Path, task: Path) -> None:
    with (task / "data" / "train.jsonl").open("a") as file:
        file.write(json.dumps({"prompt": "sort 1"}) + "\n")
    assert "sft: train.jsonl, line 2001: completion is missing" in refusal(tmp_path, task)


def test_a_base_that_brings_code_is_refused(tmp_path: Path, task: Path) -> None:
    config = task / "base" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"auto_map": {"A": "b.C"}}))
    assert "auto_map" in refusal(tmp_path, task)


def test_a_missing_base_is_refused(tmp_path: Path, task: Path) -> None:
    (task / "base").rename(task / "elsewhere")
    assert "base/config.json: no such file" in refusal(tmp_path, task)
