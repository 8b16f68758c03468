"""How often a reward model ranks a pair the right way round.

Run as `python -I {bundle}/evaluate.py`. Inputs: `artifact` (a reward model's directory), `split`
(JSON Lines of `prompt`, `chosen` and `rejected`) and `bundle`, whose `tokenizer/` reads them.
Scores: `pair_accuracy`, where equal rewards count a half, and `margin`, the mean difference of
the two rewards. Items: 1, 0.5 or 0 each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from evaluator.programs import scoring
from evaluator.programs.exact_match import RefusedError, SetupError
from evaluator.programs.scoring import Estimate, Inputs, Result

SUFFIX: Final = "ForSequenceClassification"


@dataclass(frozen=True, slots=True)
class Options:
    max_length: int = 1024
    """Tokens; longer rows are cut at the end."""
    batch_size: int = 64
    dtype: str = "float32"


def evaluate(options: Options, inputs: Inputs) -> Result:
    rows = scoring.read_rows(inputs.split)
    for where, row in rows:
        if not {"prompt", "chosen", "rejected"} <= row.keys():
            raise SetupError(f"{where}: expected prompt, chosen and rejected")
    with scoring.loaded(inputs, options.dtype, suffix=SUFFIX) as (model, tokenizer):
        if model.config.num_labels != 1:
            raise RefusedError(f"config.json: {model.config.num_labels} labels; a reward is one")
        encoded = [
            scoring.answered(row["prompt"], row[side], tokenizer)[0][: options.max_length]
            for side in ("chosen", "rejected")
            for _, row in rows
        ]
        rewards = rate(model, encoded, tokenizer.pad_token_id, options.batch_size)
    count = len(rows)
    margins = [a - b for a, b in zip(rewards[:count], rewards[count:], strict=True)]
    wins = [outcome(margin) for margin in margins]
    return Result(
        metrics={"pair_accuracy": Estimate(wins), "margin": Estimate(margins)}, items=wins
    )


def outcome(margin: float) -> float:
    """1 for a win, 0 for a loss, a half for neither; a margin that is no number is a loss."""
    return 1.0 if margin > 0 else 0.5 if margin == 0 else 0.0


def rate(model: Any, encoded: Sequence[Sequence[int]], pad: int, batch_size: int) -> list[float]:
    """The reward of each row of tokens, in order."""
    import torch

    model.config.get_text_config().pad_token_id = pad  # where its answer ends is read from it
    rewards = [0.0] * len(encoded)
    for batch in scoring.batches([len(ids) for ids in encoded], batch_size):
        ids, mask = scoring.padded([encoded[i] for i in batch], pad, model.device)
        with torch.inference_mode():
            logits = model(input_ids=ids, attention_mask=mask).logits[:, 0].float().tolist()
        for index, value in zip(batch, logits, strict=True):
            rewards[index] = value
    return rewards


if __name__ == "__main__":
    scoring.run("pair_accuracy", Options, evaluate)
