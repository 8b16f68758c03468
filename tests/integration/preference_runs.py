"""Preference pairs of the demo's task, for the tests of programs that learn from them."""

import json
import random
from collections.abc import Mapping
from pathlib import Path

from examples.demo_inputs import corrupted

HELDOUT = 256
OPTIONS: Mapping[str, object] = {"learning_rate": 5e-4, "parameterization": "lora"}


def write_pairs(task: Path, directory: Path) -> dict[str, Path]:
    """The demo's answers against corrupted ones, as inputs `train` and `heldout`."""
    rng = random.Random(0)
    lines = (task / "data" / "train.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    pairs = [
        {
            "prompt": row["prompt"],
            "chosen": row["completion"],
            "rejected": corrupted(row["completion"], rng),
        }
        for row in rows
    ]
    inputs = {}
    for name, part in (("train", pairs[HELDOUT:]), ("heldout", pairs[:HELDOUT])):
        inputs[name] = directory / name / "pairs.jsonl"
        inputs[name].parent.mkdir(parents=True)
        inputs[name].write_text("".join(json.dumps(pair) + "\n" for pair in part))
    return inputs
