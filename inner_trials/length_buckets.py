"""Puts the completions of one update into micro-batches of like length: less padding, same sum."""

from collections.abc import Sequence
from typing import Any, Final

import torch

PROMPT: Final = ("prompt_ids", "prompt_mask")
"""Padded on the left; whatever else has a column for each token of a completion, on the right."""

Batch = dict[str, Any]


def by_length(batches: Sequence[Batch], per_update: int) -> list[Batch]:
    """The same rows, sorted by length within each update's micro-batches and cut to the longest.

    An update is made from `per_update` batches in turn, or from all where there are fewer; no row
    goes from one update to another.
    """
    found: list[Batch] = []
    for start in range(0, len(batches), per_update):
        window = batches[start : start + per_update]
        rows = {name: _rows(name, window) for name in window[0]}
        order = torch.argsort(_lengths(rows), stable=True)
        size = len(order) // len(window)
        for number in range(len(window)):
            lines = order[number * size : (number + 1) * size]
            found.append(_cut({name: _take(value, lines) for name, value in rows.items()}))
    return found


def _lengths(batch: Batch) -> torch.Tensor:
    """One that is wholly masked, since it was cut off, is as long as they get."""
    mask = batch["completion_mask"]
    lengths = mask.sum(dim=1)
    return torch.where(lengths > 0, lengths, mask.shape[1])


def _rows(name: str, window: Sequence[Batch]) -> Any:
    first = window[0][name]
    if isinstance(first, torch.Tensor) and first.ndim > 0:
        return torch.cat([batch[name] for batch in window])
    return first


def _take(value: Any, lines: torch.Tensor) -> Any:
    is_rows = isinstance(value, torch.Tensor) and value.ndim > 0
    return value[lines] if is_rows else value


def _cut(batch: Batch) -> Batch:
    """Without columns that are padding for all."""
    width = batch["completion_mask"].shape[1]
    longest = int(_lengths(batch).max())
    before = int(batch["prompt_mask"].sum(dim=1).max())
    for name, value in batch.items():
        if name in PROMPT:
            batch[name] = value[:, value.shape[1] - before :]
        elif isinstance(value, torch.Tensor) and value.ndim > 1 and value.shape[1] == width:
            batch[name] = value[:, :longest]
    return batch
