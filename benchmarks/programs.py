"""Each training program beside a plain TRL script with the same configuration.

Both train the same model on the same rows with the same seed, in turn, `--repeats` times each.
Reported are medians: wall and processor seconds of the whole process, seconds until the first
step (imports included), the largest memory, and the last metrics of both.
Exit status 1: a program takes more than 1.05 times the script's wall time, learns otherwise, or
leaves other weights the second time.
"""

import argparse
import hashlib
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.plain_scripts import SCRIPTS
from examples import demo_inputs

ROOT: Final = Path(__file__).resolve().parent.parent
SLOWER_AT_MOST: Final = 1.05
SAME: Final = 1e-4
"""Relative: the sums of a batch may be taken in another order."""
COMMON: Final[Mapping[str, object]] = {
    "per_device_train_batch_size": 32,
    "max_length": 64,
    "warmup_steps": 5,
    "report_every": 10,
}


@dataclass(frozen=True)
class Program:
    """One row of the table."""

    module: str
    train: str
    """Its input `train`, below the task."""
    options: Mapping[str, object]
    """What it is run with beside COMMON; the script is given the same."""
    metrics: Mapping[str, str]
    """Which of its metrics must equal which of the trainer's."""
    extra: Mapping[str, object] = field(default_factory=dict)
    """What only the script has to be told."""


LORA: Final = {"parameterization": "lora", "max_steps": 60}
GROUPS: Final = {
    "num_generations": 8,
    "max_completion_length": 8,
    "per_device_train_batch_size": 64,
}
SAMPLES: Final = {"samples": 4, "max_new_tokens": 8, "sample_batch_size": 128}
PROGRAMS: Final[Mapping[str, Program]] = {
    "sft": Program(
        "sft",
        "data/train.jsonl",
        {"learning_rate": 2e-3, "max_steps": 60},
        {"train/loss": "loss", "train/mean_token_accuracy": "mean_token_accuracy"},
    ),
    "sft, LoRA": Program(
        "sft",
        "data/train.jsonl",
        {"learning_rate": 2e-3, **LORA},
        {"train/loss": "loss", "train/grad_norm": "grad_norm"},
    ),
    "dpo": Program(
        "dpo",
        "pairs/train.jsonl",
        {"learning_rate": 5e-4, **LORA},
        {"train/loss": "loss", "train/preference_margin": "rewards/margins"},
    ),
    "grpo": Program(
        "grpo",
        "data/train.jsonl",
        {"learning_rate": 5e-4, **LORA, "report_every": 1, **GROUPS},
        {
            "train/loss": "loss",
            "train/reward": "reward",
            "train/grad_norm": "grad_norm",
            "health/entropy": "entropy",
        },
        {"group": 8, "max_new_tokens": 8},
    ),
    "reward_model": Program(
        "reward_model",
        "pairs/train.jsonl",
        {"learning_rate": 1e-3, "max_steps": 60},
        {"train/loss": "loss", "train/preference_accuracy": "accuracy"},
    ),
    "rejection_sampling": Program(
        "rejection_sampling",
        "data/train.jsonl",
        {"learning_rate": 2e-3, **LORA, **SAMPLES},
        {"train/loss": "loss"},
        {"samples": 4, "max_new_tokens": 8, "sample_batch": 128},
    ),
}


@dataclass(frozen=True)
class Run:
    """One process, from its start to its end."""

    wall_s: float
    cpu_s: float
    start_up_s: float
    peak_memory_bytes: int
    metrics: Mapping[str, float]
    weights_sha256: str


def measure(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float, int]:
    """Wall seconds, processor seconds and peak memory. Raises RuntimeError when it fails."""
    with tempfile.TemporaryFile() as log:
        started = time.monotonic()
        process = subprocess.Popen(
            argv,
            cwd=ROOT,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **environment},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            log.seek(0)
            text = log.read().decode(errors="replace")[-3000:]
            raise RuntimeError(f"exit {process.returncode}: {' '.join(argv)[:80]}\n{text}")
    return wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def run_program(program: Program, task: Path, folder: Path) -> Run:
    """As a target starts it."""
    (folder / "output").mkdir(parents=True)
    document = {
        "format": 1,
        "seed": 0,
        "inputs": {"base": str(task / "base"), "train": str(task / program.train)},
        "workspace": str(folder),
        "options": {**COMMON, **program.options},
    }
    (folder / "params.json").write_text(json.dumps(document))
    environment = {
        "ARL_PARAMS": str(folder / "params.json"),
        "ARL_REPORTS": str(folder / "reports.jsonl"),
        "ARL_OUTPUT": str(folder / "output"),
    }
    argv = [sys.executable, "-P", "-m", f"inner_trials.{program.module}"]
    wall_s, cpu_s, memory = measure(argv, {**environment, "PYTHONPATH": str(ROOT)})
    lines = (folder / "reports.jsonl").read_text().splitlines()
    latest = {line["metric"]: line["value"] for line in map(json.loads, lines)}
    metrics = {name: latest[name] for name in program.metrics}
    weights = _digest(folder / "output" / "model")
    return Run(wall_s, cpu_s, latest["run/start_up_s"], memory, metrics, weights)


def run_plain(name: str, program: Program, task: Path, folder: Path) -> Run:
    """The script a person would write with TRL alone."""
    folder.mkdir(parents=True)
    options = {**COMMON, **program.options}
    settings = {
        "base": str(task / "base"),
        "train": str(task / program.train),
        "output": str(folder / "output"),
        "result": str(folder / "result.json"),
        "batch": options["per_device_train_batch_size"],
        "steps": options["max_steps"],
        "every": options["report_every"],
        "warmup": options["warmup_steps"],
        "max_length": options["max_length"],
        "learning_rate": options["learning_rate"],
        "lora": options.get("parameterization") == "lora",
        "launched": time.monotonic(),
        **program.extra,
    }
    argv = [sys.executable, "-c", SCRIPTS[name], json.dumps(settings)]
    wall_s, cpu_s, memory = measure(argv, {"HF_HOME": str(folder / "cache")})
    found = json.loads((folder / "result.json").read_text())
    metrics = {ours: found["metrics"][theirs] for ours, theirs in program.metrics.items()}
    weights = _digest(folder / "output")
    return Run(wall_s, cpu_s, found["start_up_s"], memory, metrics, weights)


def _digest(model: Path) -> str:
    return hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()


def compare(
    name: str, program: Program, task: Path, work: Path, repeats: int
) -> dict[str, object]:
    """One row: both sides' medians, their ratios, and whether both learned the same."""
    ours, plain = [], []
    for i in range(repeats):
        ours.append(run_program(program, task, work / f"{name}-{i}"))
        plain.append(run_plain(name, program, task, work / f"plain-{name}-{i}"))
    sides = {"program": ours, "plain": plain}
    row: dict[str, object] = {"program": name, "repeats": repeats}
    for quantity in ("wall_s", "cpu_s", "start_up_s", "peak_memory_bytes"):
        median = {
            side: statistics.median(getattr(run, quantity) for run in runs)
            for side, runs in sides.items()
        }
        row[quantity] = {**median, "ratio": median["program"] / median["plain"]}
    # Neighbours in time share the machine's mood: the ratio of pairs is the steadier one.
    ratio = statistics.median(a.wall_s / b.wall_s for a, b in zip(ours, plain, strict=True))
    row["wall_ratio_of_pairs"] = ratio
    row["metrics"] = {
        metric: {"program": ours[-1].metrics[metric], "plain": plain[-1].metrics[metric]}
        for metric in program.metrics
    }
    row["repeats_are_equal"] = len({run.weights_sha256 for run in ours}) == 1
    row["weights_are_the_scripts"] = ours[-1].weights_sha256 == plain[-1].weights_sha256
    row["is_fast_enough"] = ratio <= SLOWER_AT_MOST
    row["learns_the_same"] = all(
        math.isclose(ours[-1].metrics[m], plain[-1].metrics[m], rel_tol=SAME, abs_tol=1e-6)
        for m in program.metrics
    )
    return row


def make_task(directory: Path) -> None:
    demo_inputs.write_task(directory, Path(__file__).parent)
    demo_inputs.write_pairs(directory)
    demo_inputs.teach(directory)


def show(row: Mapping[str, object]) -> None:
    parts = [f"{row['program']!s:20}"]
    for quantity, unit in (("wall_s", 1.0), ("cpu_s", 1.0), ("start_up_s", 1.0)):
        found = row[quantity]
        assert isinstance(found, dict)
        parts.append(f"{quantity} {found['program'] / unit:6.2f} / {found['plain'] / unit:6.2f}")
    memory = row["peak_memory_bytes"]
    assert isinstance(memory, dict)
    parts.append(f"MB {memory['program'] / 1e6:.0f} / {memory['plain'] / 1e6:.0f}")
    same = "same metrics" if row["learns_the_same"] else f"metrics differ: {row['metrics']}"
    same += ", same weights" if row["weights_are_the_scripts"] else ""
    same += "" if row["repeats_are_equal"] else ", REPEATS DIFFER"
    print("  ".join([*parts, f"x {row['wall_ratio_of_pairs']:.3f}", same]), flush=True)


def write(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    machine = {"python": platform.python_version(), "cpus": os.cpu_count()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", type=Path, help="also write the rows here")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=list(PROGRAMS), action="append")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="arl-programs-") as name:
        work = Path(name)
        make_task(work / "task")
        for label in given.only or PROGRAMS:
            rows.append(compare(label, PROGRAMS[label], work / "task", work, given.repeats))
            show(rows[-1])
            if given.json is not None:
                write(given.json, rows)
    wanted = ("is_fast_enough", "learns_the_same", "repeats_are_equal")
    return 0 if all(row[name] for row in rows for name in wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
