"""Environments: turns are played token by token, and what goes wrong in one ends it alone."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inner_trials import demo_task, rollouts
from inner_trials.environments.registry import make_environment
from inner_trials.environments.turns import Played, play
from inner_trials.prompts import Prompt
from inner_trials.settings import SettingsError
from inner_trials.verifiers.registry import make_verifier
from tests.integration import sft_runs

# The libraries warn about each other while they are imported.
pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore")]

EXACT = make_verifier("exact", {})
END = 1
COUNTING = """
import json, sys, time
first = json.loads(sys.stdin.readline())
left = first["row"]["turns"]
for line in sys.stdin:
    text = json.loads(line)["answer"]
    if text == "0": time.sleep(60)
    if text == "1": print("nonsense", flush=True); continue
    if text == "2": sys.exit(0)
    if text == "3": print('{"observation": "x", "reward": NaN}', flush=True); continue
    if text == "4": print('{"reward": 1%s}' % ("0" * 400), flush=True); continue
    left -= 1
    reward = first["row"]["turns"] - left
    print(json.dumps({"observation": "0" if left else None, "reward": reward}), flush=True)
"""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from inner_trials import models

    directory = tmp_path_factory.mktemp("base")
    demo_task.write_base(directory)
    demo_task.write_tokenizer(directory)
    return models.load_tokenizer(directory)


def scripted(tokenizer: Any, *turns: list[str]) -> Callable[[list[list[int]], int], Any]:
    """A policy that says these texts, and ends each itself unless it ends with a dot."""
    left = list(turns)
    seen: list[list[list[int]]] = []

    def generate(contexts: list[list[int]], room: int) -> list[list[int]]:
        seen.append(contexts)
        said = []
        for text in left.pop(0):
            ids = tokenizer(text.removesuffix("."), add_special_tokens=False)["input_ids"]
            said.append(list(ids)[:room] + ([] if text.endswith(".") else [END]))
        return said

    generate.seen = seen  # type: ignore[attr-defined]  # for the tests to look at
    return generate


def played(
    tokenizer: Any, environment: Any, rows: list[dict[str, Any]], generate: Any, room: int = 40
) -> list[Played]:
    prompts = [Prompt("sort 21", row, "line 1") for row in rows]
    asked = [{"role": "user", "content": "sort 21"}]
    ids = tokenizer.apply_chat_template(
        asked, tokenize=True, add_generation_prompt=True, return_dict=False
    )
    return play(
        environment,
        prompts,
        [list(ids)] * len(rows),
        tokenizer,
        generate,
        max_tokens=room,
        ends=[END],
    )


def retry(**options: object) -> Any:
    return make_environment("retry", {"feedback": "0", **options}, EXACT, None)


def test_a_wrong_answer_is_tried_again_for_less_and_feedback_is_not_learned(
    tokenizer: Any,
) -> None:
    rows = [{"answer": "12"}, {"answer": "12"}, {"answer": "12"}]
    generate = scripted(tokenizer, ["12", "21", "21"], ["12", "21"])
    first, second, third = played(tokenizer, retry(), rows, generate)
    assert [state.reward for state in (first, second, third)] == [1.0, 0.5, 0.0]
    assert [state.turns for state in (first, second, third)] == [1, 2, 2]
    assert tokenizer.decode(second.tokens) == "21<|end|><|user|>0<|end|><|assistant|>12<|end|>"
    learned = [t for t, m in zip(second.tokens, second.mask, strict=True) if m]
    assert tokenizer.decode(learned) == "21<|end|>12<|end|>"
    assert first.mask == [1, 1, 1]
    (context, _) = generate.seen[1]  # type: ignore[attr-defined]
    whole = "<|user|>sort 21<|end|><|assistant|>21<|end|><|user|>0<|end|><|assistant|>"
    assert tokenizer.decode(context) == whole


def test_an_answer_that_is_cut_off_ends_its_episode_and_no_other(tokenizer: Any) -> None:
    rows = [{"answer": "12"}, {"answer": "12"}]
    generate = scripted(tokenizer, ["21.", "21"], ["12"])
    cut, whole = played(tokenizer, retry(), rows, generate)
    assert (cut.reward, cut.turns, cut.note) == (0.0, 1, "cut off")
    assert whole.reward == 0.5


def test_without_room_for_another_turn_the_episode_keeps_what_it_had(tokenizer: Any) -> None:
    generate = scripted(tokenizer, ["21"])
    (state,) = played(tokenizer, retry(), [{"answer": "12"}], generate, room=7)
    assert (state.note, state.turns, len(state.tokens)) == ("no room", 1, 3)


@pytest.fixture
def counting(tmp_path: Path) -> Any:
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment" / "count.py").write_text(COUNTING)
    options = {
        "command": f"{sys.executable} -S {{environment}}/count.py",
        "turn_time_s": 3.0,
    }
    return make_environment("program", options, EXACT, tmp_path / "environment")


def test_a_program_of_the_studys_answers_each_turn(tokenizer: Any, counting: Any) -> None:
    rows = [{"turns": 1}, {"turns": 2}]
    first, second = played(tokenizer, counting, rows, scripted(tokenizer, ["9", "9"], ["9"]))
    assert (first.reward, second.reward) == (1.0, 2.0)
    assert (first.turns, second.turns) == (1, 2)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("0", "time-out"),
        ("1", "no JSON"),
        ("2", "ended"),
        ("3", "not as agreed"),
        ("4", "not as agreed"),
    ],
)
def test_a_program_that_fails_ends_its_episode_with_the_reward_it_had(
    tokenizer: Any, counting: Any, text: str, note: str
) -> None:
    started = time.monotonic()
    rows = [{"turns": 3}, {"turns": 1}]
    generate = scripted(tokenizer, ["9", "9"], [text])
    broken, fine = played(tokenizer, counting, rows, generate)
    assert (broken.reward, broken.note) == (1.0, note)
    assert (fine.reward, fine.note) == (1.0, "")
    assert time.monotonic() - started < 20.0


def test_a_programs_version_is_its_command_and_its_files(counting: Any, tmp_path: Path) -> None:
    command = f"{sys.executable} -S {{environment}}/count.py"
    place = tmp_path / "environment"
    options = {"command": command}
    assert make_environment("program", options, EXACT, place).version == counting.version
    (place / "count.py").write_text(COUNTING + "\n")
    assert make_environment("program", options, EXACT, place).version != counting.version


def test_a_wrong_environment_is_named() -> None:
    for name, options, said in (
        ("gym", {}, "options.environment: 'gym' is not one of program, retry, tools"),
        ("retry", {"turn": 1}, "options.environment_options.turn: unknown option"),
        ("program", {}, "command: write what to execute"),
        ("program", {"command": "{environment}/x"}, "mounts no input environment"),
        ("program", {"command": "no-such-program x"}, "'no-such-program' is no program that can"),
        ("program", {"command": "/etc/passwd x"}, "'/etc/passwd' is no program that can"),
    ):
        with pytest.raises(SettingsError, match=said):
            make_environment(name, options, EXACT, None)


@pytest.mark.slow
def test_grpo_learns_from_episodes_of_several_turns(tmp_path: Path) -> None:
    task = tmp_path / "task"
    demo_task.write_task(task)
    tuned = sft_runs.train(tmp_path / "sft", task).model
    trial = sft_runs.train(
        tmp_path / "a",
        task,
        program="grpo",
        base=tuned,
        environment="retry",
        environment_options={"feedback": "0", "turns": 2},
        parameterization="lora",
        learning_rate=1e-3,
        max_steps=4,
        per_device_train_batch_size=32,
        max_completion_length=24,
        warmup_steps=0,
        save_every=2,
    )
    turns = trial.values("health/turns")
    assert all(1.0 < turns[step] <= 2.0 for step in (1, 2, 3, 4))
    rows = rollouts.read_rollouts(trial.directory / "output" / "rollouts")
    assert {row["environment"] for row in rows} == {"retry/1"}
    twice = [row for row in rows if 0 in row["loss_mask"]]
    assert twice
    assert all(row["loss_mask"][-1] == 1 for row in twice)
    assert {row["reward"] for row in rows} >= {0.0, 1.0}
    again = sft_runs.train(
        tmp_path / "b",
        task,
        program="grpo",
        base=tuned,
        resume=trial.resume,
        environment="retry",
        environment_options={"feedback": "0", "turns": 2},
        parameterization="lora",
        learning_rate=1e-3,
        max_steps=4,
        per_device_train_batch_size=32,
        max_completion_length=24,
        warmup_steps=0,
        save_every=2,
    )
    assert again.weights_digest() == trial.weights_digest()
