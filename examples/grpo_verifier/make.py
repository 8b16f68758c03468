"""Makes what the study needs: the sorting task, and a base that fine-tuning taught half of it."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import evaluator.programs
from inner_trials import demo_task

HERE: Final = Path(__file__).parent
HELDOUT_ROWS: Final = 256
SFT: Final = {
    "learning_rate": 2e-3,
    "max_steps": 60,
    "per_device_train_batch_size": 32,
    "warmup_steps": 10,
    "max_length": 64,
}


def write_study(directory: Path) -> None:
    """Everything but the taught base: study, data, evaluator, and the untrained base."""
    demo_task.write_task(directory)
    rows = (
        (directory / "data" / "train.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    )
    for name, part in (("heldout", rows[:HELDOUT_ROWS]), ("train", rows[HELDOUT_ROWS:])):
        (directory / "data" / f"{name}.jsonl").write_text("".join(part), encoding="utf-8")
    program = Path(evaluator.programs.__file__).parent / "exact_match.py"
    shutil.copyfile(program, directory / "evaluator" / "evaluate.py")
    shutil.copyfile(HERE / "study.yaml", directory / "study.yaml")


def teach_base(directory: Path) -> None:
    """Fine-tune the base in place, with the program that a study of kind sft runs."""
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        work = Path(scratch)
        inputs = {
            "base": str((directory / "base").resolve()),
            "train": str((directory / "data" / "train.jsonl").resolve()),
        }
        document = {"seed": 0, "options": SFT, "inputs": inputs}
        (work / "params.json").write_text(json.dumps(document), encoding="utf-8")
        environment = {
            **os.environ,
            "ARL_PARAMS": str(work / "params.json"),
            "ARL_OUTPUT": str(work / "output"),
        }
        subprocess.run([sys.executable, "-m", "inner_trials.sft"], env=environment, check=True)
        shutil.rmtree(directory / "base")
        (work / "output" / "model").rename(directory / "base")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory
    write_study(directory)
    teach_base(directory)
    print(f"made {directory}: now cd {directory} && arl plan study.yaml && arl run study.yaml")


if __name__ == "__main__":
    main()
