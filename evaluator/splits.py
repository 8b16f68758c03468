"""Divides an evaluator's items: search apart from holdout, and the holdout into two halves."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ledger.digests import json_digest, sha256_hex
from ledger.errors import InvalidInput

SPLIT_BYTES_CAP: Final = 512 * 1024**2
"""A larger JSON Lines split is refused: declare a directory instead."""


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a split, as it was written."""

    line: int
    """Counted from 1."""
    text: bytes
    key: str
    """Digest of the item's canonical JSON: equal for equal items however they are written."""


def read_items(path: Path, name: str) -> list[Item]:
    """The items of a JSON Lines file; blank lines are skipped.

    Raises InvalidInput naming the split, the line and the rule.
    """
    try:
        size = path.stat().st_size
        if size > SPLIT_BYTES_CAP:
            raise InvalidInput(
                f"evaluator.splits.{name} has {size} bytes, but a JSON Lines split may have"
                f" {SPLIT_BYTES_CAP}; declare a directory instead"
            )
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"evaluator.splits.{name}: cannot read {path}: {error.strerror}"
        ) from error
    items = [
        _item(text, number, name)
        for number, text in enumerate(data.split(b"\n"), start=1)
        if text.strip()
    ]
    if not items:
        raise InvalidInput(f"evaluator.splits.{name}: {path} has no items; write one a line")
    return items


def _item(text: bytes, line: int, name: str) -> Item:
    try:
        key = json_digest(json.loads(text.decode("utf-8")))
    except RecursionError:
        raise InvalidInput(f"evaluator.splits.{name} line {line} is nested too deeply") from None
    except ValueError as error:
        # Also what is not UTF-8, and NaN or infinities, which JSON does not know.
        raise InvalidInput(
            f"evaluator.splits.{name} line {line} is not JSON ({error}); write one JSON value a"
            " line, or declare a directory instead of a file"
        ) from None
    return Item(line, text.rstrip(b"\r"), key)


def halves(items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """Divide a holdout into A and B, the same way for the same items in any order.

    Items are ordered by sha256(digest of the whole holdout, item key), a shuffle that only the
    content decides, and dealt in turn to A and B. Equal items stay in one half, or the half that
    tests a candidate would repeat what chose it; the smaller half gets the next item. Within a
    half the order of the file is kept.

    Raises InvalidInput when there are not two different items.
    """
    by_key: dict[str, list[Item]] = {}
    for item in items:
        by_key.setdefault(item.key, []).append(item)
    if len(by_key) < 2:
        raise InvalidInput(
            "evaluator.splits.holdout has one distinct item, but needs at least two: it is used"
            " in two halves"
        )
    content = json_digest(sorted(item.key for item in items))
    a: list[Item] = []
    b: list[Item] = []
    for key in sorted(by_key, key=lambda k: sha256_hex(f"{content}{k}".encode())):
        (a if len(a) <= len(b) else b).extend(by_key[key])
    return sorted(a, key=lambda i: i.line), sorted(b, key=lambda i: i.line)


def check_disjoint(search: Sequence[Item], holdout: Sequence[Item]) -> None:
    """Raise InvalidInput when the two splits share items, saying how many and where first."""
    seen = {item.key for item in search}
    shared = [item.line for item in holdout if item.key in seen]
    if shared:
        raise InvalidInput(
            f"evaluator.splits: {len(shared)} of {len(holdout)} holdout items are also in search,"
            f" the first on line {shared[0]} of holdout; a candidate must not be confirmed on"
            " items it was chosen by"
        )


def joined(items: Sequence[Item]) -> bytes:
    return b"".join(item.text + b"\n" for item in items)
