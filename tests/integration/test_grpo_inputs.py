"""The GRPO program on bad input: one line and exit status 2, long before torch is imported."""

import json
from pathlib import Path

import pytest

from inner_trials import contract, demo_task
from tests.integration import sft_runs


@pytest.fixture
def task(tmp_path: Path) -> Path:
    demo_task.write_task(tmp_path / "task")
    return tmp_path / "task"


def refusal(tmp_path: Path, task: Path, **settings: object) -> str:
    given = {"program": "grpo", "per_device_train_batch_size": 8, **settings}
    _, process = sft_runs.start(tmp_path / "trial", task, **given)  # type: ignore[arg-type]
    log, _ = process.communicate(timeout=60)
    assert process.returncode == contract.EXIT_BAD_INPUT, log
    assert log.count("\n") == 1, "one line, no traceback"
    return log.strip()


def rows(tmp_path: Path, *given: object) -> dict[str, Path]:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in given))
    return {"train": path}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"verifier": "regex"}, "grpo: options.verifier: 'regex' is not one of code, exact"),
        ({"verifier": "numeric", "verifier_options": {"x": 1}}, "options.verifier_options.x"),
        ({"alarms": {"entropy": 1}}, "grpo: options.alarms.entropy: there is no such alarm"),
        ({"num_generations": 5}, "grpo: options.num_generations: 8 completions"),
        ({"loss_type": "ppo"}, "grpo: options.loss_type: 'ppo' is not one of grpo, dr_grpo"),
        ({"reward": "learned"}, "grpo: no input named 'reward'"),
    ],
    ids=str,
)
def test_a_wrong_option_is_named(
    tmp_path: Path, task: Path, options: dict[str, object], said: str
) -> None:
    assert said in refusal(tmp_path, task, **options)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"answer": "1"}, "rows.jsonl, line 2: prompt is missing"),
        ({"prompt": "sort 1"}, "rows.jsonl, line 2: answer is missing (found: nothing)"),
        ({"prompt": "sort 1", "answer": None}, "rows.jsonl, line 2: answer: None is not a text"),
        ({"prompt": " ", "answer": "1"}, "rows.jsonl, line 2: prompt is empty"),
    ],
    ids=str,
)
def test_a_bad_row_is_named_by_file_and_line(
    tmp_path: Path, task: Path, row: object, said: str
) -> None:
    data = rows(tmp_path, {"prompt": "sort 21", "answer": "12"}, row)
    assert said in refusal(tmp_path, task, data=data)


@pytest.mark.parametrize("program", ["grpo", "ppo"])
def test_a_weight_of_a_part_that_the_reward_has_not_is_refused(
    tmp_path: Path, task: Path, program: str
) -> None:
    mounted = {"train": task / "data", "reward": task / "base"}
    said = refusal(tmp_path, task, program=program, format_weight=0.5, data=mounted)
    assert f"{program}: options.format_weight: a learned reward has no such part" in said


def test_an_environments_reward_has_no_part_for_the_form(tmp_path: Path, task: Path) -> None:
    said = refusal(tmp_path, task, environment="retry", format_weight=0.5)
    assert "options.format_weight: an environment's reward has no such part" in said


def test_a_directory_that_is_no_reward_model_is_refused(tmp_path: Path, task: Path) -> None:
    data = {"train": task / "data", "reward": task / "base"}
    assert "base: is no reward model" in refusal(tmp_path, task, reward="learned", data=data)
