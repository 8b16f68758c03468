"""What a program must not lose while it learns: measured on rows that it never trains on.

Two optional inputs: `heldout`, rows like `train`, for what is really learned, and `fixed`,
demonstrations whose likelihood should not fall (forgetting). Both end in `guard/` metrics, lower
is better, beside the program's own.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from inner_trials import data, reporting

FIXED_ROWS: Final = 256
"""The first so many are used: it is a guard, not an evaluation."""
BATCH: Final = 32
IGNORED: Final = -100


class FixedSlice:
    """Rows of prompt and completion, tokenised once, and their loss under any model."""

    def __init__(self, path: Path, tokenizer: Any, *, chat: bool, max_length: int) -> None:
        """Raises data.DataError as `read_examples` does, or when no completion fits."""
        shape, examples = data.read_examples(path)
        has_template = tokenizer.chat_template is not None
        rows = [
            _encoded(_turns(shape, example, chat=chat and has_template), tokenizer, max_length)
            for example in examples[:FIXED_ROWS]
        ]
        self._rows = [(ids, start) for ids, start in rows if start < len(ids)]
        self._pad = tokenizer.pad_token_id
        if not self._rows:
            raise data.DataError(f"fixed: with max_length {max_length} nothing of it is left")

    def loss(self, model: Any) -> float:
        """Mean negative log-likelihood of a completion's token, in nats."""
        import torch

        was_training = model.training
        model.eval()
        total, tokens = 0.0, 0
        with torch.no_grad():
            for start in range(0, len(self._rows), BATCH):
                ids, mask, labels = self._batch(self._rows[start : start + BATCH], model.device)
                logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
                losses = torch.nn.functional.cross_entropy(
                    logits[:, :-1].float().flatten(0, 1),
                    labels[:, 1:].flatten(),
                    ignore_index=IGNORED,
                    reduction="sum",
                )
                total += float(losses)
                tokens += int((labels[:, 1:] != IGNORED).sum())
        model.train(was_training)
        return total / tokens

    def _batch(self, rows: Sequence[tuple[list[int], int]], device: Any) -> tuple[Any, Any, Any]:
        import torch

        width = max(len(ids) for ids, _ in rows)
        padded = [ids + [self._pad] * (width - len(ids)) for ids, _ in rows]
        mask = [[1] * len(ids) + [0] * (width - len(ids)) for ids, _ in rows]
        labels = [
            [IGNORED] * start + ids[start:] + [IGNORED] * (width - len(ids)) for ids, start in rows
        ]
        as_tensor = functools.partial(torch.tensor, device=device)
        return as_tensor(padded), as_tensor(mask), as_tensor(labels)


class Forgetting(TrainerCallback):  # type: ignore[misc]  # transformers is not typed
    """Reports how much less likely the fixed slice became than it was under the base."""

    def __init__(
        self,
        fixed: FixedSlice,
        model: Any,
        *,
        every: int,
        on_values: Callable[[int, Mapping[str, float]], None],
    ) -> None:
        """`model` still has the base's weights: it is built before a checkpoint is loaded."""
        self._fixed, self._every, self._on_values = fixed, every, on_values
        self._base_loss = fixed.loss(model)

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: Any = None,
        **_: Any,
    ) -> None:
        is_last = state.global_step >= state.max_steps
        if is_last or (self._every and state.global_step % self._every == 0):
            loss = self._fixed.loss(model)
            values = {"guard/fixed_loss": loss, "guard/forgetting": loss - self._base_loss}
            reporting.report(state.global_step, values)
            self._on_values(state.global_step, values)


def overfit(metrics: Mapping[str, float]) -> dict[str, float]:
    """How much better the program does on its own rows than on held-out ones: a proxy that goes
    on rising while the held-out value does not is over-optimised."""
    gaps = {}
    for name in ("preference_accuracy", "loss"):
        train, heldout = metrics.get(f"train/{name}"), metrics.get(f"heldout/{name}")
        if train is not None and heldout is not None and math.isfinite(train - heldout):
            gap = heldout - train if name == "loss" else train - heldout
            gaps[f"guard/overfit_{name}"] = gap
    return gaps


def _turns(shape: data.Shape, example: dict[str, Any], *, chat: bool) -> dict[str, Any]:
    if shape == "messages":
        split = data.split_last_turn(example)
        messages = example["messages"]
        return split or {"prompt": messages[:-1], "completion": messages[-1:]}
    return data.as_chat(example) if shape == "text" and chat else example


def _encoded(row: dict[str, Any], tokenizer: Any, max_length: int) -> tuple[list[int], int]:
    """The row's tokens, and where its completion begins."""
    prompt, completion = row["prompt"], row["completion"]
    if isinstance(prompt, str):
        before = tokenizer(prompt)["input_ids"]
        ids = tokenizer(prompt + completion + tokenizer.eos_token)["input_ids"]
    else:
        before = tokenizer.apply_chat_template(
            prompt, tokenize=True, add_generation_prompt=True, return_dict=False
        )
        ids = tokenizer.apply_chat_template(prompt + completion, tokenize=True, return_dict=False)
    return list(ids)[:max_length], len(before)
