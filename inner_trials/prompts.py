"""Reads prompts to answer, with what a verifier compares answers with. Standard library only.

A row has `prompt`, a text or a list of messages, and whatever else its verifier reads, like
`answer`. A row without prompt but with `completion` or `messages` is not one: that is for sft.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from inner_trials import data
from inner_trials.data import DataError, Row

Shape: TypeAlias = Literal["text", "chat"]


@dataclass(frozen=True, slots=True)
class Prompt:
    prompt: Any
    """A text, or messages of which the last is not the assistant's."""
    fields: dict[str, Any]
    """The rest of its row."""
    where: str


def read_prompts(path: Path) -> tuple[Shape, list[Prompt]]:
    """All prompts of an input, checked.

    Raises:
        DataError: a row is malformed, or has another shape than the first.
    """
    first: Shape | None = None
    found = []
    for row in data.read_rows(path):
        shape, prompt = _checked_prompt(row)
        if first is None:
            first = shape
        if shape != first:
            raise DataError(f"{row.where}: this prompt is {shape}, those before it {first}")
        fields = {k: v for k, v in row.fields.items() if k != "prompt"}
        found.append(Prompt(prompt, fields, row.where))
    if first is None:
        raise DataError(f"{path.name}: no rows in it")
    return first, found


def _checked_prompt(row: Row) -> tuple[Shape, Any]:
    if "prompt" not in row.fields:
        raise DataError(
            f"{row.where}: prompt is missing; write prompt, and what a verifier compares"
            f" answers with (found: {', '.join(sorted(row.fields)) or 'nothing'})"
        )
    prompt = row.fields["prompt"]
    if isinstance(prompt, str):
        if not prompt.strip():
            raise DataError(f"{row.where}: prompt is empty")
        return "text", prompt
    messages = data.read_messages(prompt, f"{row.where}: prompt")
    if messages[-1]["role"] == "assistant":
        raise DataError(f"{row.where}: prompt ends with the assistant's own words")
    return "chat", messages
