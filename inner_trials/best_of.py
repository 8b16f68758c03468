"""Chooses the best of N sampled answers and writes them down, with their lineage.

The data set is a directory: `rows.jsonl`, what is trained on; `samples.ndjson`, every answer with
its reward; `lineage.json`, where they come from. Standard library only.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from inner_trials.data import DataError
from inner_trials.prompts import Prompt

ROWS: Final = "rows.jsonl"
SAMPLES: Final = "samples.ndjson"
"""JSON Lines under another ending, so that the directory as it is can be an input `train`."""
LINEAGE: Final = "lineage.json"

Kind = Literal["sft", "dpo"]


@dataclass(frozen=True, slots=True)
class Judged:
    """One answer and what it is worth."""

    text: str
    is_ended: bool
    reward: float


def choose(
    kind: Kind, prompts: Sequence[Prompt], judged: Sequence[Sequence[Judged]], min_reward: float
) -> list[dict[str, Any]]:
    """The rows to train on: per prompt the best answer that is worth `min_reward`, and for `dpo`
    beside it the worst one that is worth less than the best.

    Among equals the first counts. Answers that were cut off are nobody's best.
    """
    rows = []
    for prompt, answers in zip(prompts, judged, strict=True):
        whole = [a for a in answers if a.is_ended and a.text and math.isfinite(a.reward)]
        best = max(whole, key=lambda a: a.reward, default=None)
        if best is None or best.reward < min_reward:
            continue
        if kind == "sft":
            rows.append(_row(prompt, completion=best.text))
            continue
        worst = min(whole, key=lambda a: a.reward)
        if worst.reward < best.reward and worst.text != best.text:
            rows.append(_row(prompt, chosen=best.text, rejected=worst.text))
    return rows


def _row(prompt: Prompt, **answers: str) -> dict[str, Any]:
    if isinstance(prompt.prompt, str):
        return {"prompt": prompt.prompt, **answers}
    turns = {n: [{"role": "assistant", "content": text}] for n, text in answers.items()}
    return {"prompt": prompt.prompt, **turns}


def statistics(judged: Sequence[Sequence[Judged]], kept: int) -> dict[str, float]:
    """What sampling found, over prompts with the same number of answers each."""
    rewards = [[answer.reward for answer in answers] for answers in judged]
    count = sum(map(len, rewards))
    return {
        "sampling/reward_mean": sum(map(sum, rewards)) / count,
        "sampling/reward_best": sum(map(max, rewards)) / len(rewards),
        "sampling/ended_share": sum(a.is_ended for answers in judged for a in answers) / count,
        "sampling/kept_share": kept / len(rewards),
        "sampling/zero_spread_share": sum(max(r) == min(r) for r in rewards) / len(rewards),
    }


def check_any(rows: Sequence[object], prompts: int, samples: int, min_reward: float) -> None:
    """Raises DataError: nothing was good enough to learn from."""
    if not rows:
        raise DataError(
            f"train: of {prompts} prompts with {samples} answers each none gave a row with a"
            f" reward of {min_reward:g} or more that the model ended itself; sample more, raise"
            " max_new_tokens, set another temperature, lower min_reward, or begin from a better"
            " base"
        )


def write(
    directory: Path,
    rows: Sequence[Mapping[str, Any]],
    prompts: Sequence[Prompt],
    judged: Sequence[Sequence[Judged]],
    lineage: Mapping[str, Any],
) -> None:
    """Write the data set; the same rows and lineage give the same bytes."""
    directory.mkdir(parents=True, exist_ok=True)
    digest = _write_lines(directory / ROWS, rows)
    samples = [
        {
            "prompt": prompt.prompt,
            "answers": [a.text for a in answers],
            "ended": [a.is_ended for a in answers],
            "rewards": [a.reward for a in answers],
        }
        for prompt, answers in zip(prompts, judged, strict=True)
    ]
    document = {
        **lineage,
        "rows": len(rows),
        "rows_sha256": digest,
        "samples_sha256": _write_lines(directory / SAMPLES, samples),
    }
    (directory / LINEAGE).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    return hashlib.sha256(text.encode()).hexdigest()
