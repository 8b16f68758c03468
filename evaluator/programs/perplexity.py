"""Perplexity: how surprised a language model is by the answers of a split, a token at a time.

Run as `python -I {bundle}/evaluate.py`. Inputs: `artifact` (a model's directory), `split` (JSON
Lines of `prompt` and `answer` or `completion`, texts or messages, or of `text`) and `bundle`,
whose `tokenizer/` reads them. Scores: `loss`, the mean negative log-likelihood of a token in nats,
and `perplexity`, its exponential; prompts add nothing. Items: each one's own mean loss.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evaluator.programs import scoring
from evaluator.programs.exact_match import SetupError
from evaluator.programs.scoring import Estimate, Inputs, Result


@dataclass(frozen=True, slots=True)
class Options:
    max_length: int = 1024
    """Tokens; longer rows are cut at the end."""
    batch_size: int = 64
    dtype: str = "float32"


def evaluate(options: Options, inputs: Inputs) -> Result:
    rows = scoring.read_rows(inputs.split)
    with scoring.loaded(inputs, options.dtype) as (model, tokenizer):
        encoded = [encode(where, row, tokenizer, options) for where, row in rows]
        losses = sum_losses(model, encoded, tokenizer.pad_token_id, options.batch_size)
    tokens = [float(len(ids) - start) for ids, start in encoded]
    return Result(
        metrics={
            "loss": Estimate(losses, tokens),
            "perplexity": Estimate(losses, tokens, math.exp),
        },
        items=[loss / count for loss, count in zip(losses, tokens, strict=True)],
    )


def encode(
    where: str, row: dict[str, Any], tokenizer: Any, options: Options
) -> tuple[list[int], int]:
    """A row's tokens, and the first of those it is scored on."""
    answer = row.get("answer", row.get("completion"))
    if isinstance(row.get("text"), str):
        ids, start = list(tokenizer(row["text"])["input_ids"]), 1  # nothing predicts the first
    elif "prompt" in row and answer:
        first = answer[0] if isinstance(answer, list) and isinstance(answer[0], str) else answer
        ids, start = scoring.answered(row["prompt"], first, tokenizer)
    else:
        raise SetupError(f"{where}: expected prompt and answer, or text")
    ids = ids[: options.max_length]
    if max(1, start) >= len(ids):
        raise SetupError(f"{where}: with max_length {options.max_length} no answer is left")
    return ids, max(1, start)


def sum_losses(
    model: Any, encoded: Sequence[tuple[list[int], int]], pad: int, batch_size: int
) -> list[float]:
    """Each row's negative log-likelihood, summed over the tokens from its start on."""
    import torch

    losses = [0.0] * len(encoded)
    for batch in scoring.batches([len(ids) for ids, _ in encoded], batch_size):
        ids, mask = scoring.padded([encoded[i][0] for i in batch], pad, model.device)
        with torch.inference_mode():
            logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits.float()
            chosen = logits[:, :-1].log_softmax(-1).gather(2, ids[:, 1:, None])[..., 0]
        for row, index in enumerate(batch):
            tokens, start = encoded[index]
            losses[index] = -float(chosen[row, start - 1 : len(tokens) - 1].double().sum())
    return losses


if __name__ == "__main__":
    scoring.run("perplexity", Options, evaluate)
