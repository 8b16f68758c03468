"""Preference pairs and prompts: what is read, and how what cannot be trained on is named."""

import json
import math
from pathlib import Path

import pytest

from inner_trials import contamination, pairs, prompts
from inner_trials.data import DataError

USER = {"role": "user", "content": "2+2?"}
RIGHT = {"role": "assistant", "content": "4"}
WRONG = {"role": "assistant", "content": "5"}


def written(tmp_path: Path, *rows: object) -> Path:
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_texts_and_messages_are_both_pairs(tmp_path: Path) -> None:
    text = {"prompt": "a", "chosen": "b", "rejected": "c", "note": "left out"}
    shape, found = pairs.read_pairs(written(tmp_path, text))
    assert (shape, found) == ("text", [{"prompt": "a", "chosen": "b", "rejected": "c"}])
    chat = {"prompt": [USER], "chosen": [RIGHT], "rejected": [WRONG]}
    assert pairs.read_pairs(written(tmp_path, chat)) == ("chat", [chat])


def test_what_two_conversations_begin_with_is_their_prompt(tmp_path: Path) -> None:
    row = {"chosen": [USER, RIGHT], "rejected": [USER, WRONG]}
    _, found = pairs.read_pairs(written(tmp_path, row))
    assert found == [{"prompt": [USER], "chosen": [RIGHT], "rejected": [WRONG]}]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"prompt": "a", "completion": "b"}, "line 1: chosen is missing.*found: completion, prom"),
        ({"prompt": "a", "chosen": "b"}, "rejected is missing"),
        ({"prompt": "a", "chosen": "b", "rejected": "b"}, "chosen and rejected are equal"),
        ({"chosen": [USER, RIGHT], "rejected": [USER, RIGHT]}, "chosen and rejected are equal"),
        ({"prompt": [USER], "chosen": [RIGHT], "rejected": [RIGHT]}, "are equal"),
        ({"prompt": "a", "chosen": "", "rejected": "b"}, "chosen is empty"),
        ({"prompt": 3, "chosen": "b", "rejected": "c"}, "prompt is 3; expected a text"),
        ({"chosen": "b", "rejected": "c"}, "prompt is missing; it must be a text"),
        ({"prompt": "a", "chosen": "b", "rejected": None}, "rejected is null; expected a text"),
        ({"prompt": "a", "chosen": "b", "rejected": "c", "margin": math.nan}, "a finite number"),
        ({"chosen": [RIGHT], "rejected": [WRONG]}, "must begin with the same messages"),
        ({"chosen": [USER, RIGHT], "rejected": [USER]}, "must begin with the same messages"),
        (
            {"prompt": [USER], "chosen": "b", "rejected": [WRONG]},
            "chosen is a text, but prompt a list",
        ),
        ({"prompt": "a", "chosen": "b", "rejected": "c", "margin": "1"}, "margin must be a fin"),
        ({"prompt": "a", "chosen": "b", "rejected": "c", "margin": True}, "margin must be a fin"),
    ],
)
def test_a_row_that_is_no_pair_is_named_with_the_reason(
    tmp_path: Path, row: object, reason: str
) -> None:
    with pytest.raises(DataError, match=reason):
        pairs.read_pairs(written(tmp_path, row))


def test_rows_of_two_shapes_are_refused(tmp_path: Path) -> None:
    text = {"prompt": "a", "chosen": "b", "rejected": "c"}
    chat = {"prompt": [USER], "chosen": [RIGHT], "rejected": [WRONG]}
    with pytest.raises(DataError, match="line 2: this row is messages, those before it texts"):
        pairs.read_pairs(written(tmp_path, text, chat))
    with pytest.raises(DataError, match="line 2: this row is texts with a margin"):
        pairs.read_pairs(written(tmp_path, text, {**text, "margin": 1}))
    with pytest.raises(DataError, match="heldout: its pairs are text, but those of train are ch"):
        pairs.read_heldout(written(tmp_path, text), "chat")


def test_an_empty_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.jsonl: no rows in it"):
        pairs.read_pairs(written(tmp_path))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"question": "a"}, "line 1: prompt is missing.*found: question"),
        ({"prompt": " "}, "prompt is empty"),
        ({"prompt": [USER, RIGHT]}, "prompt ends with the assistant's own words"),
        ({"prompt": []}, "prompt: expected"),
    ],
)
def test_a_row_that_is_no_prompt_is_named_with_the_reason(
    tmp_path: Path, row: object, reason: str
) -> None:
    with pytest.raises(DataError, match=reason):
        prompts.read_prompts(written(tmp_path, row))


def test_a_prompt_keeps_what_its_verifier_reads(tmp_path: Path) -> None:
    shape, (prompt,) = prompts.read_prompts(written(tmp_path, {"prompt": "2+2?", "answer": "4"}))
    assert (shape, prompt.prompt, prompt.fields) == ("text", "2+2?", {"answer": "4"})


def test_a_pair_without_a_prompt_of_its_own_still_shows_what_it_asks() -> None:
    pair = {"chosen": [USER, RIGHT], "rejected": [USER, WRONG]}
    assert contamination.prompt_of(pair) == contamination.prompt_of({"prompt": "2+2?"})
