"""Reading training rows: shapes, and errors that name file and line."""

import json
from pathlib import Path

import pytest

from inner_trials import data

CHAT = {
    "prompt": [{"role": "user", "content": "2+2?"}],
    "completion": [{"role": "assistant", "content": "4"}],
}
TALK = {
    "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": "4"},
    ]
}


def write(path: Path, *rows: object) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_pairs_of_texts_chats_and_conversations_are_told_apart(tmp_path: Path) -> None:
    text = {"prompt": "2+2?", "completion": "4", "source": "ignored"}
    for row, shape in ((text, "text"), (CHAT, "chat"), (TALK, "messages")):
        assert data.read_examples(write(tmp_path / "a.jsonl", row))[0] == shape
    _, examples = data.read_examples(write(tmp_path / "a.jsonl", text))
    assert examples == [{"prompt": "2+2?", "completion": "4"}]


def test_blank_lines_are_skipped_but_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "train.jsonl", {"prompt": "a", "completion": "b"}, "", "{oops")
    with pytest.raises(data.DataError, match=r"train.jsonl, line 3: not JSON"):
        data.read_examples(path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("[1]", "expected a JSON object, not list"),
        ({"prompt": "a"}, "completion is missing"),
        ({"text": "a"}, r"prompt is missing.*\(found: text\)"),
        ({"prompt": "a", "completion": ""}, "completion is empty"),
        ({"prompt": "a", "completion": 4}, "completion is 4; expected a text or a list of mess"),
        ({"prompt": "a", "completion": None}, "completion is null; expected a text"),
        (
            {"prompt": "a", "completion": [{"role": "assistant", "content": "b"}]},
            "prompt is a text, but completion a list of messages; write them alike",
        ),
        ({"prompt": [], "completion": []}, "prompt: expected a text or a list of messages"),
        ({"messages": [{"role": "user", "content": "a"}]}, "none with role assistant"),
        ({"messages": [{"role": "bot", "content": "a"}]}, r"messages\[0\].role: 'bot'"),
        ({"messages": [{"role": "user"}]}, r"messages\[0\].content: expected a text"),
        ({"messages": ["hello"]}, r"messages\[0\]: expected an object"),
        (
            {"messages": [{"from": "gpt", "value": "a"}]},
            r"messages\[0\]: role is missing; write role and content \(found: from, value\)",
        ),
        (
            {"messages": [*CHAT["prompt"], {"role": "assistant", "content": ""}]},
            r"messages\[1\].content is empty; there is nothing to learn from it",
        ),
        (
            {"messages": [{"role": "assistant", "content": "a", "tool_calls": [{"id": 1}]}]},
            r"messages\[0\].tool_calls: only content is learned from",
        ),
        ('{"prompt": "\\ud800", "completion": "b"}', r"\\ud800 is half of a character"),
        (CHAT, "shape chat, those before it text"),
    ],
)
def test_a_malformed_row_is_named_by_file_line_and_rule(
    tmp_path: Path, row: object, message: str
) -> None:
    path = write(tmp_path / "train.jsonl", {"prompt": "a", "completion": "b"}, row)
    with pytest.raises(data.DataError, match=f"^train.jsonl, line 2: .*{message}"):
        data.read_examples(path)


def test_bytes_that_are_not_utf8_are_named_by_line(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_bytes(b'{"prompt": "\xff", "completion": "b"}\n')
    with pytest.raises(data.DataError, match=r"train.jsonl, line 1: not UTF-8"):
        data.read_examples(tmp_path / "train.jsonl")


def test_a_directory_is_read_file_by_file_in_order(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write(tmp_path / f"{name}.jsonl", {"prompt": name, "completion": "x"})
    (tmp_path / "notes.txt").write_text("not data")
    (tmp_path / "more.jsonl").mkdir()
    _, examples = data.read_examples(tmp_path)
    assert [example["prompt"] for example in examples] == ["a", "b"]


def test_an_input_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(data.DataError, match=r"no .jsonl file"):
        data.read_examples(tmp_path)
    with pytest.raises(data.DataError, match="no rows"):
        data.read_examples(write(tmp_path / "empty.jsonl", ""))


def test_only_a_conversation_with_one_final_answer_becomes_a_pair() -> None:
    pair = data.split_last_turn(TALK)
    assert pair is not None
    assert [message["role"] for message in pair["prompt"]] == ["system", "user"]
    assert pair["completion"] == TALK["messages"][2:]
    longer = {"messages": TALK["messages"] + TALK["messages"][1:]}
    assert data.split_last_turn(longer) is None
