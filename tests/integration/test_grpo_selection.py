"""Prompts without a signal rest or are replaced: what is learned from, and what is said of it."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from inner_trials import rollouts
from inner_trials.settings import SettingsError
from tests.integration import sft_runs

# The libraries warn about each other while they are imported.
pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore")]

torch = pytest.importorskip("torch")

FEW: list[dict[str, object]] = [{"prompt": f"sort {n}", "answer": str(n)} for n in range(6)]


@pytest.fixture
def few(tmp_path: Path) -> Path:
    path = tmp_path / "few.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in FEW))
    return path


def judged(trainer: Any, rewards_of: Any) -> list[list[int]]:
    """Reward completions by row and place in the group; returns the rows asked for."""
    asked = []

    def reward(*, row: list[int], log_metric: Any, **_: Any) -> list[float]:
        asked.append(row)
        return [rewards_of(r, at % trainer.num_generations) for at, r in enumerate(row)]

    trainer.reward_funcs[0] = reward
    return asked


def logged(trainer: Any, name: str) -> list[float]:
    return [line[name] for line in trainer.state.log_history if name in line]


def test_prompts_that_all_solve_or_none_rest_and_the_learner_sees_the_others(
    run_of: Any, few: Path, tmp_path: Path
) -> None:
    trainer, _, _ = run_of(
        {"train": few}, max_steps=9, prompt_sampling="informative", rest_after=1
    )
    asked = judged(trainer, lambda row, at: float(row == 0 or (row > 1 and at == 0)))
    trainer.train()
    trainer.close_rollouts()
    rows = [batch[::4] for batch in asked]
    assert [len(batch) for batch in rows] == [2] * 9, "an update is always made from two groups"
    first, later = (
        Counter(row for batch in some for row in batch) for some in (rows[:3], rows[3:])
    )
    assert first == dict.fromkeys(range(6), 1)
    assert later == dict.fromkeys((2, 3, 4, 5), 3), "prompts 0 and 1 rest for three passes"
    record = rollouts.read_rollouts(tmp_path / "output" / "rollouts")
    assert len(record) == 9 * 8
    assert logged(trainer, "selection/always_pass")[-1] == pytest.approx(1 / 6)
    assert logged(trainer, "selection/always_fail")[-1] == pytest.approx(1 / 6)
    assert max(logged(trainer, "selection/resting")) > 0.0
    assert logged(trainer, "selection/reward_shown")[-1] == 0.25


def test_groups_without_a_difference_are_replaced_before_the_update_and_counted(
    run_of: Any, few: Path, tmp_path: Path
) -> None:
    trainer, _, _ = run_of(
        {"train": few},
        max_steps=3,
        prompt_sampling="informative",
        resample_rounds=8,
        rest_after=9,
    )
    asked = judged(trainer, lambda row, at: float(row == 0 or (row > 3 and at == 0)))
    trainer.train()
    trainer.close_rollouts()
    record = rollouts.read_rollouts(tmp_path / "output" / "rollouts")
    assert len(record) == 3 * 8
    assert logged(trainer, "frac_reward_zero_std") == [0.0] * 3
    assert {row["reward"] for row in record} == {0.0, 1.0}
    sampled = sum(map(len, asked))
    left_out = [x / (1 - x) * 2 for x in logged(trainer, "selection/left_out")]
    assert sampled == 4 * (6 + round(sum(left_out)))
    shown, everyone = (
        logged(trainer, "selection/reward_shown"),
        logged(trainer, "selection/reward_all"),
    )
    assert shown == [0.25] * 3
    assert logged(trainer, "selection/reward_shift") == pytest.approx(
        [a - b for a, b in zip(shown, everyone, strict=True)]
    )


def test_when_no_group_differs_an_update_is_made_from_as_many_all_the_same(
    run_of: Any, few: Path, tmp_path: Path
) -> None:
    trainer, _, _ = run_of(
        {"train": few}, max_steps=2, prompt_sampling="informative", resample_rounds=2
    )
    asked = judged(trainer, lambda row, at: 0.0)
    trainer.train()
    trainer.close_rollouts()
    assert len(rollouts.read_rollouts(tmp_path / "output" / "rollouts")) == 2 * 8
    assert [len(batch) for batch in asked] == [8] * 6, "two rounds more, and then it is enough"
    assert logged(trainer, "selection/left_out") == pytest.approx([2 / 3] * 2)


def test_the_record_says_of_each_completion_which_prompt_it_answers(
    run_of: Any, few: Path, tmp_path: Path
) -> None:
    trainer, _, _ = run_of(
        {"train": few},
        max_steps=2,
        prompt_sampling="informative",
        resample_rounds=4,
        num_iterations=2,
        save_every=2,
    )
    judged(trainer, lambda row, at: float(row > 3 and at == 0))
    trainer.train()
    trainer.close_rollouts()
    tokenizer = trainer.processing_class
    by_revision = {trainer._revisions[row]: str(FEW[row]["prompt"]) for row in range(6)}
    for line in rollouts.read_rollouts(tmp_path / "output" / "rollouts"):
        said = tokenizer.decode(line["prompt_tokens"], skip_special_tokens=True)
        assert said == by_revision[line["prompt_revision"]]
        assert line["reward"] == float(line["sample"] == 0)
        assert len(line["trainer_logprobs"]) == len(line["completion_tokens"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"resample_rounds": 2}, "options.resample_rounds: 2 is only read with"),
        ({"prompt_sampling": "informative", "reward": "learned"}, "says passed or failed"),
        ({"prompt_sampling": "dynamic"}, "'dynamic' is not one of all, informative"),
        ({"rest_after": 0}, "rest_after: 0 must be 1 or more"),
        ({"rest_passes": 0}, "rest_passes: 0 must be 1 or more"),
    ],
    ids=str,
)
def test_choices_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    from inner_trials import grpo_settings
    from inner_trials.settings import read_settings

    with pytest.raises(SettingsError, match=said):
        grpo_settings.check_settings(read_settings(grpo_settings.Settings, {"options": options}))


@pytest.mark.slow
def test_a_run_that_chooses_its_prompts_resumes_to_bitwise_equal_weights(
    task: Path, tuned: Path, tmp_path: Path
) -> None:
    rows = (task / "data" / "train.jsonl").read_text().splitlines(keepends=True)[:24]
    (tmp_path / "train.jsonl").write_text("".join(rows))
    given: dict[str, Any] = {
        "data": {"train": tmp_path / "train.jsonl"},
        "program": "grpo",
        "base": tuned,
        "parameterization": "lora",
        "learning_rate": 1e-3,
        "max_steps": 16,
        "num_generations": 8,
        "max_completion_length": 8,
        "warmup_steps": 0,
        "prompt_sampling": "informative",
        "rest_after": 1,
        "resample_rounds": 1,
        "save_every": 2,
    }
    whole = sft_runs.train(tmp_path / "whole", task, **given)
    killed, process = sft_runs.start(tmp_path / "killed", task, **given)
    sft_runs.kill_once_saved(killed, process)
    resumed = sft_runs.train(tmp_path / "resumed", task, resume=killed.resume, **given)
    assert resumed.weights_digest() == whole.weights_digest()
    assert max(whole.values("selection/resting").values()) > 0.0
    for name in ("selection/resting", "selection/never_learned", "selection/reward_shift"):
        last = max(whole.values(name))
        assert resumed.values(name)[last] == whole.values(name)[last], name
    ours, theirs = (
        rollouts.read_rollouts(trial.directory / "output" / "rollouts")
        for trial in (whole, resumed)
    )
    assert ours == theirs
