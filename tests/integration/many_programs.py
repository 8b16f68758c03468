"""Runs many attempts of training programs in one process that imports the libraries once.

`python many_programs.py FILE`: a JSON list of {"program", "directory"}, each directory with a
params.json; every attempt is a fork of its own, whose exit status and output lie in the directory.
"""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OPTIONS: Mapping[str, object] = {
    "max_steps": 2,
    "per_device_train_batch_size": 8,
    "report_every": 1,
    "max_length": 64,
    "learning_rate": 1e-3,
}
SAMPLED: Mapping[str, Mapping[str, object]] = {
    "grpo": {"max_completion_length": 8, "num_generations": 4, "verifier": "exact"},
    "ppo": {"max_completion_length": 8},
    "rejection_sampling": {"max_new_tokens": 16, "samples": 16, "min_reward": -1.0},
}


@dataclass(frozen=True, slots=True)
class Attempt:
    program: str
    base: Path
    inputs: Mapping[str, Path]
    options: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Outcome:
    status: int
    log: str
    output: Path


def attempt(program: str, base: Path, train: Path, **options: object) -> Attempt:
    return Attempt(program, base, {"train": train}, options)


def run_all(directory: Path, attempts: Mapping[str, Attempt]) -> dict[str, Outcome]:
    """Every attempt by its name, run one after the other."""
    jobs = []
    for name, given in attempts.items():
        place = directory / name
        place.mkdir(parents=True)
        paths = {key: str(path) for key, path in {"base": given.base, **given.inputs}.items()}
        options = {**OPTIONS, **SAMPLED.get(given.program, {}), **given.options}
        document = {"seed": 0, "options": options, "inputs": paths, "workspace": str(place)}
        (place / "params.json").write_text(json.dumps(document))
        jobs.append({"program": given.program, "directory": str(place)})
    (directory / "jobs.json").write_text(json.dumps(jobs))
    argv = [sys.executable, __file__, str(directory / "jobs.json")]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "OMP_NUM_THREADS": "1",
    }
    subprocess.run(argv, env=environment, check=True, timeout=280)
    return {
        name: Outcome(
            int((directory / name / "status").read_text()),
            (directory / name / "log").read_text(errors="replace"),
            directory / name / "output",
        )
        for name in attempts
    }


def main(jobs: Sequence[Mapping[str, str]]) -> None:
    from trl import DPOTrainer, GRPOTrainer, RewardTrainer, SFTTrainer  # noqa: F401  # once

    for job in jobs:
        place = Path(job["directory"])
        child = os.fork()
        if child == 0:
            run(job["program"], place)
        _, ended = os.waitpid(child, 0)
        (place / "status").write_text(str(os.waitstatus_to_exitcode(ended)))


def run(program: str, place: Path) -> None:
    """Be one attempt; never returns."""
    log = os.open(place / "log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for name in ("params.json", "output", "reports", "stop"):
        os.environ[f"ARL_{name.partition('.')[0].upper()}"] = str(place / name)
    module = importlib.import_module(f"inner_trials.{program}")
    from inner_trials import training

    try:
        training.run(program, module.prepare, module.train)
    finally:  # a traceback is told by the status alone
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
