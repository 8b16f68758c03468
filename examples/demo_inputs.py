"""What the example studies on the sorting task are made of: data, pairs, evaluators, models."""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from evaluator.program_files import program_files
from inner_trials import demo_task

HELDOUT_ROWS: Final = 256
SFT: Final[Mapping[str, object]] = {
    "learning_rate": 2e-3,
    "max_steps": 60,
    "per_device_train_batch_size": 32,
    "warmup_steps": 10,
    "max_length": 64,
}
"""Of the base: it half knows the task afterwards."""
REWARD: Final[Mapping[str, object]] = {
    **SFT,
    "max_steps": 250,
    "lr_scheduler_type": "cosine",
    "report_every": 50,
}
OWN_MISTAKES: Final = (
    ("data/train.jsonl", "pairs/train.jsonl"),
    ("data/heldout.jsonl", "pairs/heldout.jsonl"),
)
LEFT_OUT_SHARE: Final = 0.3


def make(write_study: Callable[[Path], None], teach: Callable[[Path], None]) -> None:
    """The command line of an example: a directory to make."""
    parser = argparse.ArgumentParser(description=(write_study.__doc__ or "").split("\n")[0])
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory
    write_study(directory)
    teach(directory)
    print(f"made {directory}: now cd {directory} && arl plan study.yaml && arl run study.yaml")


def write_task(directory: Path, example: Path, *, program: str = "exact_match") -> None:
    """The sorting task with an untrained base, the example's studies and its evaluator."""
    demo_task.write_task(directory)
    split_rows(directory / "data" / "train.jsonl", directory / "data" / "heldout.jsonl")
    write_evaluator(directory / "evaluator", program)
    for study in example.glob("*.yaml"):
        shutil.copyfile(study, directory / study.name)


def write_evaluator(directory: Path, program: str) -> None:
    """A built-in evaluator program as the files of a bundle."""
    for name, content in program_files(program).items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def write_own_mistakes(directory: Path, *files: tuple[str, str]) -> None:
    """Pairs of right answers against the taught base's own wrong ones, in place of the corrupted
    ones; each of `files` is rows and pairs, below the directory."""
    for rows, pairs in files:
        paths = [str((directory / name).resolve()) for name in ("base", rows, pairs)]
        subprocess.run([sys.executable, "-m", "examples.own_mistakes", *paths], check=True)


def copy_evaluator(of: Path, to: Path, program: str) -> None:
    """Another evaluator program on the same splits, with the same frozen tokenizer."""
    write_evaluator(to, program)
    shutil.copytree(of / "tokenizer", to / "tokenizer")
    for name in ("search", "holdout"):
        shutil.copyfile(of / f"{name}.jsonl", to / f"{name}.jsonl")


def write_pairs(directory: Path) -> None:
    """Right answers against wrong ones: pairs/train.jsonl and pairs/heldout.jsonl."""
    (directory / "pairs").mkdir(exist_ok=True)
    for name in ("train", "heldout"):
        rows = _read(directory / "data" / f"{name}.jsonl")
        pairs_of(rows, "completion", directory / "pairs" / f"{name}.jsonl")


def pairs_of(rows: list[dict[str, str]], answer: str, path: Path) -> None:
    """Each row's answer against a corrupted one, as JSON Lines of preference pairs."""
    chance = random.Random(path.name)
    pairs = [
        {
            "prompt": row["prompt"],
            "chosen": row[answer],
            "rejected": corrupted(row[answer], chance),
        }
        for row in rows
    ]
    path.write_text("".join(json.dumps(pair) + "\n" for pair in pairs), encoding="utf-8")


def pair_splits(evaluator: Path) -> None:
    """Turn an evaluator's items into pairs for a reward model."""
    for name in ("search", "holdout"):
        path = evaluator / f"{name}.jsonl"
        pairs_of(_read(path), "answer", path)


def corrupted(answer: str, chance: random.Random) -> str:
    """Another answer: one digit replaced, and sometimes one left out."""
    while True:
        digits = list(answer)
        digits[chance.randrange(len(digits))] = str(chance.randrange(10))
        if chance.random() < LEFT_OUT_SHARE:
            del digits[chance.randrange(len(digits))]
        if "".join(digits) != answer:
            return "".join(digits)


def split_rows(train: Path, heldout: Path) -> None:
    """Move the first rows of `train` to `heldout`."""
    rows = train.read_text(encoding="utf-8").splitlines(keepends=True)
    heldout.write_text("".join(rows[:HELDOUT_ROWS]), encoding="utf-8")
    train.write_text("".join(rows[HELDOUT_ROWS:]), encoding="utf-8")


def teach(
    directory: Path,
    *,
    program: str = "sft",
    options: Mapping[str, object] = SFT,
    train: str = "data/train.jsonl",
    to: str = "base",
) -> None:
    """Train the base with one of ARL's programs, seed 0, and put the model in `to`."""
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        work = Path(scratch).resolve()
        inputs = {
            "base": str((directory / "base").resolve()),
            "train": str((directory / train).resolve()),
        }
        document = {"seed": 0, "options": options, "inputs": inputs, "workspace": str(work)}
        (work / "params.json").write_text(json.dumps(document), encoding="utf-8")
        environment = {
            **os.environ,
            "ARL_PARAMS": str(work / "params.json"),
            "ARL_OUTPUT": str(work / "output"),
        }
        argv = [sys.executable, "-m", f"inner_trials.{program}"]
        subprocess.run(argv, env=environment, check=True)
        shutil.rmtree(directory / to, ignore_errors=True)
        (work / "output" / "model").rename(directory / to)


def _read(path: Path) -> list[dict[str, str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
