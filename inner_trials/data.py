"""Reads training rows and evaluation items from JSON Lines; every error names file and line."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

ROLES: Final = frozenset({"system", "user", "assistant", "tool"})
MAX_LINE_BYTES: Final = 16 * 1024 * 1024

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
    found = sorted(path.rglob("*.jsonl"))
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
                    yield Row(_json_object(line, where), where)
                    count += 1
    if count == 0:
        raise DataError(f"{path.name}: no rows in it")


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
        return "messages", {"messages": messages}
    for name in ("prompt", "completion"):
        if name not in fields:
            raise DataError(
                f"{row.where}: {name} is missing; write prompt and completion, or messages"
                f" (found: {', '.join(sorted(fields)) or 'nothing'})"
            )
    prompt, completion = fields["prompt"], fields["completion"]
    if isinstance(prompt, str) and isinstance(completion, str):
        if not completion:
            raise DataError(f"{row.where}: completion is empty")
        return "text", {"prompt": prompt, "completion": completion}
    return "chat", {
        "prompt": read_messages(prompt, f"{row.where}: prompt"),
        "completion": read_messages(completion, f"{row.where}: completion"),
    }


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


def _json_object(line: bytes, where: str) -> Mapping[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise DataError(f"{where}: {len(line)} bytes; a row may have {MAX_LINE_BYTES}")
    try:
        value = json.loads(line)
    except UnicodeDecodeError:
        raise DataError(f"{where}: not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{where}: expected a JSON object, not {type(value).__name__}")
    return value


def read_messages(value: object, where: str) -> list[Message]:
    """A checked list of messages. Raises DataError, naming `where`."""
    if not isinstance(value, list) or not value:
        raise DataError(f"{where}: expected a text or a list of messages, all of the same kind")
    messages = []
    for index, message in enumerate(value):
        if not isinstance(message, dict):
            raise DataError(f"{where}[{index}]: expected an object with role and content")
        role, content = message.get("role"), message.get("content")
        if role not in ROLES:
            raise DataError(
                f"{where}[{index}].role: {role!r} is not one of {', '.join(sorted(ROLES))}"
            )
        if not isinstance(content, str):
            raise DataError(f"{where}[{index}].content: expected a text")
        messages.append({"role": role, "content": content})
    return messages
