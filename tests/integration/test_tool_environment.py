"""Tools: what the model calls is run apart, what comes back is read and not learned from."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from inner_trials import data, rollouts
from inner_trials.environments.registry import make_environment
from inner_trials.environments.turns import Played, play
from inner_trials.prompts import Prompt
from inner_trials.settings import SettingsError
from inner_trials.verifiers.registry import make_verifier
from tests.integration import sft_runs, tool_task
from tests.integration.tool_task import call

# The libraries warn about each other while they are imported.
pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore")]

EXACT = make_verifier("exact", {})
END = 1


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tool_task.write_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def tokenizer(base: Path) -> Any:
    from inner_trials import models

    return models.load_tokenizer(base)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("environment")
    (directory / "tools.py").write_text(tool_task.TOOLS)
    return directory


@pytest.fixture(scope="module")
def tools(place: Path) -> Any:
    options = {"functions": "arrange, smallest, wait", "call_time_s": 3.0, "turns": 3}
    return make_environment("tools", options, EXACT, place)


def played(tokenizer: Any, environment: Any, *turns: list[str], room: int = 400) -> list[Played]:
    """Episodes of a policy that says these texts; it ends each unless it ends with a dot."""
    left = list(turns)

    def generate(contexts: list[list[int]], length: int) -> list[list[int]]:
        said = []
        for text in left.pop(0):
            ids = tokenizer(text.removesuffix("."), add_special_tokens=False)["input_ids"]
            said.append([*ids[:length], *([] if text.endswith(".") else [END])])
        return said

    prompts = [Prompt("sort 312", {"answer": "123"}, "line 1") for _ in turns[0]]
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": "sort 312"}],
        tools=list(environment.tools),
        add_generation_prompt=True,
        return_dict=False,
    )
    encoded = [list(ids) for _ in prompts]
    return play(environment, prompts, encoded, tokenizer, generate, max_tokens=room, ends=[END])


def test_schemas_are_made_from_the_functions_and_written_into_the_prompt(
    tools: Any, tokenizer: Any
) -> None:
    first = tools.tools[0]["function"]
    assert first["name"] == "arrange"
    assert first["parameters"]["properties"]["digits"]["type"] == "string"
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "0"}], tools=list(tools.tools), tokenize=False
    )
    assert text.startswith("<|user|>arrange smallest wait <|end|>")


def test_a_result_is_read_by_the_model_and_not_learned_from(tools: Any, tokenizer: Any) -> None:
    asked = call("arrange", digits="312")
    (state,) = played(tokenizer, tools, [asked], ["123"])
    whole = f"{asked}<|end|>\n<|tool|>123<|end|>\n<|assistant|>123<|end|>"
    assert tokenizer.decode(state.tokens) == whole
    learned = [t for t, m in zip(state.tokens, state.mask, strict=True) if m]
    assert tokenizer.decode(learned) == f"{asked}<|end|>123<|end|>"
    assert (state.reward, state.turns, state.calls, state.failed_calls) == (1.0, 2, 1, 0)


@pytest.mark.slow
def test_several_calls_of_one_answer_are_made_in_turn(tools: Any, tokenizer: Any) -> None:
    both = call("smallest", digits="312") + call("arrange", digits="312")
    (state,) = played(tokenizer, tools, [both], ["9"])
    assert "<|tool|>1<|end|>\n<|tool|>123<|end|>" in tokenizer.decode(state.tokens)
    assert (state.reward, state.calls) == (0.0, 2)


@pytest.mark.parametrize(
    ("asked", "read"),
    [
        (call("smallest", digits=""), "error: ValueError"),
        (call("smallest"), "error: TypeError"),
        (call("remove", digits="1"), "error: KeyError"),
        (call("smallest", digits=312), "error: TypeError"),
    ],
)
def test_a_call_that_fails_is_an_error_that_the_model_reads(
    tools: Any, tokenizer: Any, asked: str, read: str
) -> None:
    (state,) = played(tokenizer, tools, [asked], ["123"])
    said = "".join(token for token in tokenizer.decode(state.tokens))
    # The tiny vocabulary has no upper case but this.
    assert f"<|tool|>{read[:7]}" in said
    assert (state.reward, state.failed_calls, state.note) == (1.0, 1, "")


def test_a_call_that_takes_too_long_is_ended_and_the_episode_goes_on(
    tools: Any, tokenizer: Any
) -> None:
    started = time.monotonic()
    late, fine = call("wait", seconds=60), call("arrange", digits="312")
    one, two = played(tokenizer, tools, [late, fine], [fine, "123"], ["123"])
    assert "<|tool|>error: time-out<|end|>" in tokenizer.decode(one.tokens)
    assert "<|tool|>123<|end|>" in tokenizer.decode(one.tokens), "by another process"
    assert (one.reward, one.calls, one.failed_calls) == (1.0, 2, 1)
    assert (two.reward, two.failed_calls) == (1.0, 0)
    assert time.monotonic() - started < 30.0


def test_episodes_that_end_before_an_answer_are_worth_nothing_and_say_why(
    tools: Any, tokenizer: Any
) -> None:
    again = call("arrange", digits="312")
    (endless,) = played(tokenizer, tools, [again], [again], [again])
    assert (endless.reward, endless.note, endless.turns) == (0.0, "no answer", 3)
    (cut,) = played(tokenizer, tools, [again[:-9] + "."])
    assert (cut.reward, cut.note) == (0.0, "cut off")
    length = len(tokenizer(again)["input_ids"])
    (full,) = played(tokenizer, tools, [again], room=length + 5)
    assert (full.reward, full.note) == (0.0, "no room")


@pytest.mark.slow
@pytest.mark.parametrize("said", ["arrange 312", "[" * 3000, '{"name": 5, "arguments": []}'])
def test_what_is_no_call_is_an_answer(tools: Any, tokenizer: Any, said: str) -> None:
    (state,) = played(tokenizer, tools, [f"<|call|>{said}<|done|>"], room=4000)
    assert (state.reward, state.turns, state.calls) == (0.0, 1, 0)


@pytest.mark.slow
def test_another_file_is_another_version(tools: Any, place: Path, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(tool_task.TOOLS + "\n")
    options = {"functions": "arrange, smallest, wait"}
    assert make_environment("tools", options, EXACT, place).version == tools.version
    assert make_environment("tools", options, EXACT, tmp_path).version != tools.version


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "options.environment_options.functions: name what may be called"),
        ({"functions": "remove"}, "remove: has no 'remove'"),
        ({"functions": "undescribed"}, "undescribed: DocstringParsingException"),
        ({"functions": "arrange", "file": "../tools.py"}, "is no file of the input environment"),
        ({"functions": "arrange", "turns": 0}, "options.environment_options.turns: 0 must be 1"),
        ({"functions": "arrange", "call_time_s": 0}, "must be more than 0"),
    ],
    ids=str,
)
def test_tools_that_cannot_be_called_are_refused(
    place: Path, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        make_environment("tools", options, EXACT, place)


def test_tools_need_the_input_and_a_template_that_writes_calls(tools: Any, task: Path) -> None:
    from inner_trials import models

    with pytest.raises(SettingsError, match="which the study does not mount"):
        make_environment("tools", {"functions": "arrange"}, EXACT, None)
    with pytest.raises(data.DataError, match="its chat template writes no tool calls"):
        played(models.load_tokenizer(task / "base"), tools, ["1"])


def write_data(task: Path, directory: Path) -> None:
    """Conversations that begin with a call, as `shown`, and the same prompts, as `asked`."""
    rows = [json.loads(line) for line in (task / "data" / "train.jsonl").read_text().splitlines()]
    for row in rows[:600]:
        row["digits"] = row["prompt"].split()[1][:3]
    shown = [
        {
            "messages": [
                {"role": "user", "content": f"arrange smallest <|end|><|user|>{row['digits']}"},
                {"role": "assistant", "content": call("arrange", digits=row["digits"])},
            ]
        }
        for row in rows[:600]
    ]
    (directory / "shown.jsonl").write_text("".join(json.dumps(row) + "\n" for row in shown))
    asked = [
        {"prompt": row["digits"], "answer": "".join(sorted(row["digits"]))} for row in rows[:600]
    ]
    (directory / "asked.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))


@pytest.mark.slow
@pytest.mark.parametrize("partial", ["learn", "mask"])
def test_grpo_learns_from_answers_that_call_tools(
    base: Path, place: Path, task: Path, tmp_path: Path, partial: str
) -> None:
    write_data(task, tmp_path)
    first = sft_runs.train(
        tmp_path / "sft",
        task,
        base=base,
        data={"train": tmp_path / "shown.jsonl"},
        max_length=128,
        learning_rate=4e-3,
        max_steps=200,
    )
    trial = sft_runs.train(
        tmp_path / "a",
        task,
        program="grpo",
        base=first.model,
        data={"train": tmp_path / "asked.jsonl", "environment": place},
        environment="tools",
        environment_options={"functions": "arrange, smallest", "turns": 2},
        partial_episodes=partial,
        max_length=200,
        learning_rate=1e-3,
        max_steps=3,
        per_device_train_batch_size=16,
        max_completion_length=100,
        warmup_steps=0,
    )
    assert max(trial.values("health/tool_calls").values()) > 0.2
    assert len(trial.values("health/partial_episodes")) == 3
    rows = rollouts.read_rollouts(trial.directory / "output" / "rollouts")
    assert len(rows) == 3 * 16
    assert {row["environment"][:6] for row in rows} == {"tools/"}
    twice = [row for row in rows if 0 in row["loss_mask"] and 1 in row["loss_mask"]]
    wholly = [row for row in rows if 1 not in row["loss_mask"]]
    assert twice, "results of tools are masked"
    assert bool(wholly) == (
        partial == "mask" and bool(max(trial.values("health/partial_episodes").values()))
    )
