"""Win-rate of a model's answers over another's, by a fixed reward model.

Run as `python -I {bundle}/evaluate.py`. Inputs: `artifact` (a model's directory), `split` (JSON
Lines of `prompt` and, unless the bundle has `incumbent/`, the answer to beat: `reference` or
`answer`) and `bundle`, with `reward/`, the reward model that judges, `tokenizer/`, and optionally
`incumbent/`, the model to beat. Both answer greedily. Scores: `win_rate`, where equal rewards
count a half, and `reward`, the artifact's mean reward. Items: 1, 0.5 or 0 each.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evaluator.programs import exact_match, pair_accuracy, scoring
from evaluator.programs.exact_match import Item, RefusedError, SetupError
from evaluator.programs.scoring import Estimate, Inputs, Result


@dataclass(frozen=True, slots=True)
class Options:
    max_new_tokens: int = 32
    batch_size: int = 128
    max_length: int = 1024
    """Tokens the reward model reads of prompt and answer."""
    dtype: str = "float32"


def evaluate(options: Options, inputs: Inputs) -> Result:
    rows = scoring.read_rows(inputs.split)
    for where, row in rows:
        if "prompt" not in row:
            raise SetupError(f"{where}: expected an object with prompt")
    prompts = [row["prompt"] for _, row in rows]
    ours = answers_of(inputs, prompts, options)
    if (inputs.bundle / "incumbent").is_dir():
        with of_bundle("incumbent"):
            theirs = answers_of(
                replace(inputs, artifact=inputs.bundle / "incumbent", converted={}),
                prompts,
                options,
            )
    else:
        theirs = [reference(where, row) for where, row in rows]
    with of_bundle("reward"):
        rewards = judge(inputs, prompts, [*ours, *theirs], options)
    count = len(rows)
    margins = [a - b for a, b in zip(rewards[:count], rewards[count:], strict=True)]
    wins = [pair_accuracy.outcome(margin) for margin in margins]
    return Result(
        metrics={"win_rate": Estimate(wins), "reward": Estimate(rewards[:count])}, items=wins
    )


@contextmanager
def of_bundle(name: str) -> Iterator[None]:
    """Around work with a model of the bundle's: what is wrong with it is not the artifact's."""
    try:
        yield
    except SetupError:
        raise
    except RefusedError as error:
        raise SetupError(f"the bundle's {name}/: {error}") from None


def answers_of(inputs: Inputs, prompts: Sequence[Any], options: Options) -> list[str]:
    """Greedy answers; one that the model did not end itself counts as it stands."""
    items = [Item(prompt, ()) for prompt in prompts]
    generation = exact_match.Options(
        max_new_tokens=options.max_new_tokens, batch_size=options.batch_size
    )
    with scoring.loaded(inputs, options.dtype) as (model, tokenizer):
        return [text for text, _ in exact_match.generate(model, tokenizer, items, generation)]


def reference(where: str, row: dict[str, Any]) -> str:
    answer = row.get("reference", row.get("answer"))
    if isinstance(answer, list) and answer:
        answer = answer[0]
    if not isinstance(answer, str):
        raise SetupError(f"{where}: expected reference or answer, a text, to compare with")
    return answer


def judge(
    inputs: Inputs, prompts: Sequence[Any], answers: Sequence[str], options: Options
) -> list[float]:
    """The frozen reward model's reward of each answer; prompts repeat in order."""
    if not (inputs.bundle / "reward").is_dir():
        raise SetupError("the bundle has no reward/, the reward model that judges")
    judging = replace(inputs, artifact=inputs.bundle / "reward", converted={})
    with tempfile.TemporaryDirectory(dir=inputs.workspace) as scratch:
        # The judge reads with the tokenizer and template that it was trained with.
        (Path(scratch) / "tokenizer").symlink_to(judging.artifact.resolve())
        judging = replace(judging, bundle=Path(scratch))
        with scoring.loaded(judging, options.dtype, suffix=pair_accuracy.SUFFIX) as (
            model,
            tokenizer,
        ):
            encoded = [
                scoring.answered(prompts[i % len(prompts)], answer, tokenizer)[0]
                for i, answer in enumerate(answers)
            ]
            # What a candidate answers must not be more than the judge can read.
            positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
            cut = [ids[: min(options.max_length, positions or len(ids))] for ids in encoded]
            return pair_accuracy.rate(model, cut, tokenizer.pad_token_id, options.batch_size)


if __name__ == "__main__":
    scoring.run("win_rate", Options, evaluate)
