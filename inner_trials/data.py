"""Reads training rows and evaluation items from JSON Lines; every error names file and line."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

ROLES: Final = frozenset({"system", "user", "assistant", "tool"})
MAX_LINE_BYTES: Final = 16 * 1024 * 1024
SHOWN_CHARS: Final = 40
ONE_A_LINE: Final = "one JSON object on each line"

Message: TypeAlias = dict[str, str]
Shape: TypeAlias = Literal["text", "chat", "messages"]
"""`text`: prompt and completion are texts; `chat`: both are lists of messages; `messages`: one
conversation."""


class DataError(ValueError):
    """A row is not what the program can train on; the text names file, line, field and rule."""


@dataclass(frozen=True, slots=True)
class Row:
    fields: Mapping[str, Any]
    where: str
    """`train.jsonl, line 3`."""


def data_files(path: Path) -> list[Path]:
    """The JSON Lines files of an input: the file itself, or those below the directory, sorted.

    Raises:
        DataError: there is none.
    """
    if path.is_file():
        return [path]
    if not path.exists():
        raise DataError(f"{path.name}: there is no such file or directory")
    found = sorted(file for file in path.rglob("*.jsonl") if file.is_file())
    if not found:
        raise DataError(f"{path.name}: no .jsonl file in it")
    return found


def read_rows(path: Path) -> Iterator[Row]:
    """Every row of an input, in order. Blank lines are skipped.

    Raises:
        DataError: a line is not a JSON object in UTF-8, or there is no row at all.
    """
    count = 0
    for file in data_files(path):
        with file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    where = f"{file.name}, line {number}"
                    yield Row(json_object(line, where), where)
                    count += 1
    if count == 0:
        raise DataError(f"{path.name}: no rows in it")


def place_of(path: Path, index: int) -> str:
    """Where the row of that number stands, counted from 0: `train.jsonl, line 3`.

    Raises:
        DataError: as `read_rows`.
    """
    for number, row in enumerate(read_rows(path)):
        if number == index:
            return row.where
    return path.name


def rows_digest(path: Path) -> str:
    """sha256 over the bytes of an input's files, in order.

    Raises:
        DataError: there is none.
    """
    digest = hashlib.sha256()
    for file in data_files(path):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def read_examples(path: Path) -> tuple[Shape, list[dict[str, Any]]]:
    """All training rows of an input, checked, with only the fields training reads.

    Raises:
        DataError: a row is malformed, or has another shape than the first.
    """
    first: Shape | None = None
    examples = []
    for row in read_rows(path):
        shape, example = training_example(row)
        if first is None:
            first = shape
        if shape != first:
            raise DataError(
                f"{row.where}: this row has the shape {shape}, those before it {first};"
                " use one shape for all rows"
            )
        examples.append(example)
    if first is None:
        raise DataError(f"{path.name}: no rows in it")
    return first, examples


def training_example(row: Row) -> tuple[Shape, dict[str, Any]]:
    """The row's shape and its checked fields.

    Raises:
        DataError: it is neither `prompt` with `completion` nor `messages`.
    """
    fields = row.fields
    if "messages" in fields:
        messages = read_messages(fields["messages"], f"{row.where}: messages")
        if not any(message["role"] == "assistant" for message in messages):
            raise DataError(f"{row.where}: messages has none with role assistant to learn from")
        check_answered(messages, f"{row.where}: messages")
        return "messages", {"messages": messages}
    for name in ("prompt", "completion"):
        if name not in fields:
            raise DataError(
                f"{row.where}: {name} is missing; write prompt and completion, or messages"
                f" (found: {', '.join(sorted(fields)) or 'nothing'})"
            )
    check_alike(row, ("prompt", "completion"))
    prompt, completion = fields["prompt"], fields["completion"]
    if isinstance(prompt, str) and isinstance(completion, str):
        if not completion:
            raise DataError(f"{row.where}: completion is empty")
        return "text", {"prompt": prompt, "completion": completion}
    asked = read_messages(prompt, f"{row.where}: prompt")
    answer = read_messages(completion, f"{row.where}: completion")
    check_answered(answer, f"{row.where}: completion")
    return "chat", {"prompt": asked, "completion": answer}


def check_alike(row: Row, names: Sequence[str]) -> None:
    """Raises DataError: of the fields, which are there, one is neither a text nor a list, or some
    are texts and others are not."""
    for name in names:
        if not isinstance(row.fields[name], str | list):
            found = json.dumps(row.fields[name])[:SHOWN_CHARS]
            raise DataError(
                f"{row.where}: {name} is {found}; expected a text or a list of messages"
            )
    texts = [name for name in names if isinstance(row.fields[name], str)]
    if texts and len(texts) < len(names):
        other = next(name for name in names if name not in texts)
        raise DataError(
            f"{row.where}: {texts[0]} is a text, but {other} a list of messages; write them alike"
        )


def check_answered(messages: Sequence[Message], where: str) -> None:
    """Raises DataError: the assistant's last message says nothing."""
    last = max((i for i, m in enumerate(messages) if m["role"] == "assistant"), default=None)
    if last is not None and not messages[last]["content"]:
        raise DataError(f"{where}[{last}].content is empty; there is nothing to learn from it")


def as_chat(example: Mapping[str, Any]) -> dict[str, Any]:
    """A pair of texts as one user message and the assistant's answer."""
    return {
        "prompt": [{"role": "user", "content": example["prompt"]}],
        "completion": [{"role": "assistant", "content": example["completion"]}],
    }


def split_last_turn(example: Mapping[str, Any]) -> dict[str, Any] | None:
    """A conversation whose only assistant message is its last, as prompt and completion; None
    for one with more turns."""
    messages: Sequence[Message] = example["messages"]
    turns = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    if turns != [len(messages) - 1] or len(messages) < 2:
        return None
    return {"prompt": list(messages[:-1]), "completion": [messages[-1]]}


def json_object(line: bytes, where: str) -> Mapping[str, Any]:
    """What one line holds. Raises DataError, naming `where`."""
    if len(line) > MAX_LINE_BYTES:
        raise DataError(f"{where}: {len(line)} bytes; a row may have {MAX_LINE_BYTES}")
    try:
        value = json.loads(line)
    except UnicodeDecodeError:
        raise DataError(f"{where}: not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON: {error}; write {ONE_A_LINE}") from None
    if not isinstance(value, dict):
        raise DataError(
            f"{where}: expected a JSON object, not {type(value).__name__}; write {ONE_A_LINE}"
        )
    if rb"\ud" in line.lower():
        _check_characters(value, where)
    return value


def _check_characters(value: object, where: str) -> None:
    """JSON can spell half of a character, which is in no text that a tokenizer reads."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start : error.start + 1].encode("unicode_escape").decode()
        raise DataError(f"{where}: {half} is half of a character; write the whole one") from None


def read_messages(value: object, where: str) -> list[Message]:
    """A checked list of messages. Raises DataError, naming `where`."""
    if not isinstance(value, list) or not value:
        raise DataError(f"{where}: expected a text or a list of messages, at least one")
    messages = []
    for index, message in enumerate(value):
        if not isinstance(message, dict):
            raise DataError(f"{where}[{index}]: expected an object with role and content")
        role, content = message.get("role"), message.get("content")
        if "role" not in message:
            raise DataError(
                f"{where}[{index}]: role is missing; write role and content"
                f" (found: {', '.join(sorted(message)) or 'nothing'})"
            )
        if role not in ROLES:
            raise DataError(
                f"{where}[{index}].role: {role!r} is not one of {', '.join(sorted(ROLES))}"
            )
        if not isinstance(content, str):
            raise DataError(f"{where}[{index}].content: expected a text")
        if message.get("tool_calls"):
            raise DataError(
                f"{where}[{index}].tool_calls: only content is learned from; write calls as text"
            )
        messages.append({"role": role, "content": content})
    return messages
