"""Makes preference pairs of right answers against a model's own wrong ones.

`python -m examples.own_mistakes MODEL ROWS PAIRS`: ROWS has prompt and `completion` or `answer`;
each distinct wrong answer among a few samples makes a pair. Only a model's own mistakes teach a
judge of its answers: one that knows other mistakes is fooled by these.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Final

SAMPLES: Final = 6
PAIRS_A_PROMPT: Final = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for name in ("model", "rows", "pairs"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    pairs = pairs_of(given.model, given.rows)
    text = "".join(json.dumps(pair) + "\n" for pair in pairs)
    given.pairs.write_text(text, encoding="utf-8")
    print(f"{len(pairs)} pairs in {given.pairs}")


def pairs_of(model: Path, rows: Path) -> list[dict[str, str]]:
    """The pairs of one model and file, always the same on the same machine."""
    from inner_trials import models, prompts, sampling

    settings = sampling.SamplingSettings(
        samples=SAMPLES, temperature=0.8, max_new_tokens=8, sample_batch_size=256
    )
    _, asked = prompts.read_prompts(rows)
    answers = sampling.sample(
        models.load_model(model),
        models.load_tokenizer(model),
        [prompt.prompt for prompt in asked],
        settings,
        chat=True,
        seed=0,
    )
    pairs = []
    for index, prompt in enumerate(asked):
        right = str(prompt.fields.get("completion", prompt.fields.get("answer")))
        wrong = dict.fromkeys(a.text for a in answers[index] if a.is_ended and a.text != right)
        for text in [text for text in wrong if text][:PAIRS_A_PROMPT]:
            pairs.append({"prompt": prompt.prompt, "chosen": right, "rejected": text})
    return pairs


if __name__ == "__main__":
    main()
