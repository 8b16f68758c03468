"""Reads preference pairs from JSON Lines; every error names file and line. Standard library only.

A row has `prompt`, `chosen` and `rejected`: all texts, or all lists of messages. Without `prompt`,
`chosen` and `rejected` are whole conversations, and what they begin with in common is the prompt.
`margin`, a number, may say by how much one is better (reward models use it).
"""

from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from inner_trials import data
from inner_trials.data import DataError, Row

Shape: TypeAlias = Literal["text", "chat"]
SIDES: Final = ("chosen", "rejected")
LARGEST_MARGIN: Final = 1e30
"""What float32 holds, and neither infinity nor NaN is."""


def read_pairs(path: Path) -> tuple[Shape, list[dict[str, Any]]]:
    """All pairs of an input, checked, with only the fields training reads.

    Raises:
        DataError: a row is malformed, or has another shape than the first.
    """
    first: tuple[Shape, bool] | None = None
    found = []
    for row in data.read_rows(path):
        shape, pair = training_pair(row)
        kind = (shape, "margin" in pair)
        if first is None:
            first = kind
        if kind != first:
            raise DataError(
                f"{row.where}: this row is {_spelled(kind)}, those before it {_spelled(first)};"
                " use one shape for all rows"
            )
        found.append(pair)
    if first is None:
        raise DataError(f"{path.name}: no rows in it")
    return first[0], found


def read_heldout(path: Path | None, shape: Shape) -> list[dict[str, Any]]:
    """The pairs of the optional input `heldout`; none without it.

    Raises:
        DataError: as `read_pairs`, or they have another shape than those of `train`.
    """
    if path is None:
        return []
    other, found = read_pairs(path)
    if other != shape:
        raise DataError(f"heldout: its pairs are {other}, but those of train are {shape}")
    return found


def training_pair(row: Row) -> tuple[Shape, dict[str, Any]]:
    """The row's shape and its checked fields.

    Raises:
        DataError: it is no pair, or its two sides are equal.
    """
    fields = row.fields
    for name in SIDES:
        if name not in fields:
            raise DataError(
                f"{row.where}: {name} is missing; write prompt, chosen and rejected"
                f" (found: {', '.join(sorted(fields)) or 'nothing'})"
            )
    named = [name for name in ("prompt", *SIDES) if fields.get(name) is not None or name in SIDES]
    data.check_alike(row, named)
    prompt, chosen, rejected = fields.get("prompt"), fields["chosen"], fields["rejected"]
    shape: Shape = "chat"
    if isinstance(chosen, str) and isinstance(rejected, str):
        shape = "text"
        pair = _text_pair(row, prompt, chosen, rejected)
    else:
        pair = _chat_pair(row, prompt, chosen, rejected)
    if pair["chosen"] == pair["rejected"]:
        raise DataError(
            f"{row.where}: chosen and rejected are equal; a pair has to prefer one of them"
        )
    if "margin" in fields:
        pair["margin"] = _margin(row)
    return shape, pair


def as_chat(pair: dict[str, Any]) -> dict[str, Any]:
    """A pair of texts as one user message and two answers of the assistant."""
    answers = {name: [{"role": "assistant", "content": pair[name]}] for name in SIDES}
    return {**pair, "prompt": [{"role": "user", "content": pair["prompt"]}], **answers}


def in_template(
    shape: Shape, pairs: list[dict[str, Any]], *, chat: bool, has_template: bool
) -> list[dict[str, Any]]:
    """The pairs as TRL takes them.

    Raises:
        DataError: they hold messages, and there is no template to write them with.
    """
    if shape == "chat" and not has_template:
        raise DataError("train: its pairs are messages, but the base has no chat template")
    return (
        [as_chat(pair) for pair in pairs] if shape == "text" and chat and has_template else pairs
    )


def _text_pair(row: Row, prompt: object, chosen: str, rejected: str) -> dict[str, Any]:
    if not isinstance(prompt, str):
        raise DataError(
            f"{row.where}: prompt is missing; it must be a text, as chosen and rejected"
        )
    for name, side in zip(SIDES, (chosen, rejected), strict=True):
        if not side:
            raise DataError(f"{row.where}: {name} is empty")
    return {"prompt": prompt, "chosen": chosen, "rejected": rejected}


def _chat_pair(row: Row, prompt: object, chosen: object, rejected: object) -> dict[str, Any]:
    sides = [
        data.read_messages(side, f"{row.where}: {name}")
        for name, side in zip(SIDES, (chosen, rejected), strict=True)
    ]
    if prompt is not None:
        asked = data.read_messages(prompt, f"{row.where}: prompt")
        return {"prompt": asked, "chosen": sides[0], "rejected": sides[1]}
    if sides[0] == sides[1]:
        raise DataError(
            f"{row.where}: chosen and rejected are equal; a pair has to prefer one of them"
        )
    shared = 0
    while shared < min(map(len, sides)) and sides[0][shared] == sides[1][shared]:
        shared += 1
    if shared == 0 or shared in map(len, sides):
        raise DataError(
            f"{row.where}: without prompt, chosen and rejected must begin with the same messages"
            " and then differ"
        )
    return {
        "prompt": sides[0][:shared],
        "chosen": sides[0][shared:],
        "rejected": sides[1][shared:],
    }


def _margin(row: Row) -> float:
    margin = row.fields["margin"]
    is_number = isinstance(margin, int | float) and not isinstance(margin, bool)
    if not is_number or not -LARGEST_MARGIN <= margin <= LARGEST_MARGIN:
        raise DataError(f"{row.where}: margin must be a finite number, not {margin!r}")
    return float(margin)


def _spelled(kind: tuple[Shape, bool]) -> str:
    shape, has_margin = kind
    what = "texts" if shape == "text" else "messages"
    return f"{what} with a margin" if has_margin else what
