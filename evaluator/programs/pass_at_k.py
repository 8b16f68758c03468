"""pass@k: the chance that at least one of k sampled answers is right.

Run as `python -I {bundle}/evaluate.py`. Inputs as those of exact_match. For each item `samples`
answers are drawn, of which c are right, and pass@k is estimated without bias by
1 - C(n - c, k) / C(n, k) (Chen et al. 2021, "Evaluating Large Language Models Trained on Code",
equation 1). Scores: `pass_at_1` and `pass_at_k`. Items: pass@k of each.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evaluator.programs import exact_match, scoring
from evaluator.programs.exact_match import Item, SetupError
from evaluator.programs.scoring import Estimate, Inputs, Result


@dataclass(frozen=True, slots=True)
class Options:
    k: int = 4
    samples: int = 8
    """Answers drawn for each item; at least k, and more make the estimate steadier."""
    temperature: float = 1.0
    top_p: float = 1.0
    max_new_tokens: int = 32
    batch_size: int = 32
    """Items at once."""
    seed: int = 0
    answer_pattern: str = ""
    """Regular expression: its last match in an answer (its first group, if it has one) is what is
    compared. Empty: the whole answer."""
    dtype: str = "float32"


def evaluate(options: Options, inputs: Inputs) -> Result:
    if not 1 <= options.k <= options.samples:
        raise SetupError(f"options.k: {options.k} must be from 1 to samples, {options.samples}")
    named = "answer_pattern", options.answer_pattern
    pattern = scoring.compiled(*named) if options.answer_pattern else None
    items = exact_match.read_items(inputs.split)
    with scoring.loaded(inputs, options.dtype) as (model, tokenizer):
        answers = sample(model, tokenizer, items, options)
    right = [
        sum(is_right(text, item, pattern) for text, ended in drawn if ended)
        for item, drawn in zip(items, answers, strict=True)
    ]
    scores = {k: [pass_at(options.samples, c, k) for c in right] for k in (1, options.k)}
    return Result(
        metrics={"pass_at_1": Estimate(scores[1]), "pass_at_k": Estimate(scores[options.k])},
        items=scores[options.k],
    )


def pass_at(n: int, c: int, k: int) -> float:
    """The unbiased estimate of pass@k from n answers of which c are right."""
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def is_right(text: str, item: Item, pattern: "re.Pattern[str] | None") -> bool:
    if pattern is not None:
        found = [match.group(1 if pattern.groups else 0) for match in pattern.finditer(text)]
        text = (found[-1] or "").strip() if found else ""
    return text in item.answers


def sample(
    model: Any, tokenizer: Any, items: Sequence[Item], options: Options
) -> list[list[tuple[str, bool]]]:
    """For each item its sampled answers, and whether the model ended each itself."""
    import torch
    from transformers import GenerationConfig

    end = tokenizer.eos_token_id
    settings = GenerationConfig(
        max_new_tokens=options.max_new_tokens,
        do_sample=True,
        num_return_sequences=options.samples,
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=0,
        eos_token_id=end,
        pad_token_id=tokenizer.pad_token_id,
    )
    model.generation_config = settings
    prompts = [exact_match.render(item.prompt, tokenizer) for item in items]
    answers: list[list[tuple[str, bool]]] = [[] for _ in items]
    torch.manual_seed(options.seed)
    for batch in scoring.batches([len(prompt) for prompt in prompts], options.batch_size):
        encoded = tokenizer(
            [prompts[index] for index in batch],
            return_tensors="pt",
            padding=True,
            add_special_tokens=tokenizer.chat_template is None,
            return_token_type_ids=False,
        ).to(model.device)
        with torch.inference_mode():
            out = model.generate(**encoded, generation_config=settings)
        given = out[:, encoded["input_ids"].shape[1] :].tolist()
        for position, tokens in enumerate(given):
            kept = tokens[: tokens.index(end)] if end in tokens else tokens
            index = batch[position // options.samples]
            answers[index].append((tokenizer.decode(kept).strip(), end in tokens))
    return answers


if __name__ == "__main__":
    scoring.run("pass_at_k", Options, evaluate)
