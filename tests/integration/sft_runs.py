"""Runs the real training and evaluating programs the way a target does, for the tests."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluator.program_files import program_files

ROOT = Path(__file__).resolve().parents[2]
EVALUATOR = ROOT / "evaluator" / "programs" / "exact_match.py"
OPTIONS: Mapping[str, object] = {
    "learning_rate": 2e-3,
    "max_steps": 60,
    "per_device_train_batch_size": 32,
    "warmup_steps": 10,
    "max_length": 64,
}


@dataclass(frozen=True, slots=True)
class Trial:
    """One training attempt's directory, before or after it ran."""

    directory: Path

    @property
    def model(self) -> Path:
        return self.directory / "output" / "model"

    @property
    def resume(self) -> Path:
        return self.directory / "output" / "resume"

    def weights_digest(self) -> str:
        return hashlib.sha256((self.model / "model.safetensors").read_bytes()).hexdigest()

    def values(self, metric: str) -> dict[int, float]:
        lines = (self.directory / "reports").read_text().splitlines()
        read = [json.loads(line) for line in lines]
        return {line["step"]: line["value"] for line in read if line["metric"] == metric}


def start(
    directory: Path,
    task: Path,
    *,
    program: str = "sft",
    seed: int = 0,
    base: Path | None = None,
    data: Mapping[str, Path] | None = None,
    resume: Path | None = None,
    packages: Path | None = None,
    python: Path | None = None,
    variables: Mapping[str, str] | None = None,
    only: Mapping[str, object] | None = None,
    **options: object,
) -> tuple[Trial, "subprocess.Popen[str]"]:
    """Start one attempt of a training program in a directory of its own; `data` are its inputs
    beside the base (the demo's training rows by default), `packages` a directory of libraries
    that the interpreter lacks, which is this one unless `python` names another; `variables` are
    set besides. `only` are options in place of the training ones."""
    workspace = directory / "workspace"
    workspace.mkdir(parents=True)
    (directory / "output").mkdir()
    document = {
        "format": 1,
        "trial": "trial-0",
        "kind": program,
        "seed": seed,
        "options": {**OPTIONS, **options} if only is None else dict(only),
        "parameters": {},
        "inputs": {"base": str(base or task / "base"), **_paths(data or {"train": task / "data"})},
        "output": str(directory / "output"),
        "workspace": str(workspace),
        "resume": None if resume is None else str(resume),
    }
    (directory / "params.json").write_text(json.dumps(document))
    return Trial(directory), subprocess.Popen(
        [str(python or sys.executable), "-P", "-m", f"inner_trials.{program}"],
        cwd=workspace,
        env={**_environment(directory, packages), **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _environment(directory: Path, packages: Path | None) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(directory / "workspace"),
        "PYTHONPATH": os.pathsep.join(map(str, filter(None, (code(directory), packages)))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "ARL_PARAMS": str(directory / "params.json"),
        "ARL_OUTPUT": str(directory / "output"),
        "ARL_REPORTS": str(directory / "reports"),
        "ARL_STOP": str(directory / "stop"),
    }


def _paths(inputs: Mapping[str, Path]) -> dict[str, str]:
    return {name: str(path) for name, path in inputs.items()}


def code(directory: Path) -> Path:
    """A copy of the programs alone: they must not need the rest of ARL."""
    destination = directory / "code" / "inner_trials"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "inner_trials", destination, ignore=ignored)
    return destination.parent


def train(directory: Path, task: Path, *, status: int = 0, **settings: object) -> Trial:
    """Run one attempt to its end and check its exit status."""
    trial, process = start(directory, task, **settings)  # type: ignore[arg-type]
    log, _ = process.communicate(timeout=280)
    assert process.returncode == status, log
    return trial


def with_heldout(task: Path, **more: Path) -> dict[str, Path]:
    """The demo's rows as the inputs of an online program."""
    return {"train": task / "data", "heldout": task / "evaluator" / "holdout.jsonl", **more}


def ask_to_stop(directory: Path) -> Path:
    """Make the directory of an attempt that is told to stop before it begins."""
    directory.mkdir()
    (directory / "stop").touch()
    return directory


def kill_once_saved(trial: Trial, process: "subprocess.Popen[str]") -> None:
    """Kill it after its first checkpoint and, which is checked, before its end."""
    deadline = time.monotonic() + 90
    while not list(trial.resume.glob("checkpoint-*")) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    process.communicate()
    assert list(trial.resume.glob("checkpoint-*")), "it never saved"
    assert not (trial.model / "model.safetensors").exists(), "it was killed too late"


def evaluate(
    directory: Path, artifact: Path, split: Path, tokenizer: Path | None = None, **options: object
) -> tuple[int, dict[str, object], str]:
    """Run a frozen copy of exact_match: exit status, score document, combined output."""
    bundle = {} if tokenizer is None else {"tokenizer": tokenizer}
    return score(
        directory, "exact_match", artifact, split, bundle, **{"max_new_tokens": 8, **options}
    )


def score(
    directory: Path,
    program: str,
    artifact: Path,
    split: Path,
    brings: Mapping[str, Path],
    *,
    converted: Mapping[str, object] | None = None,
    python: Path | None = None,
    **options: object,
) -> tuple[int, dict[str, object], str]:
    """The same of any built-in evaluator program; the bundle also has what it `brings`. What the
    controller says of how the artifact was `converted` is passed on."""
    return run_bundle(
        directory,
        program_files(program),
        {"artifact": artifact, "split": split},
        {"options": options} | ({} if converted is None else {"converted": converted}),
        brings=brings,
        python=python,
    )


def run_bundle(
    directory: Path,
    files: Mapping[str, bytes],
    inputs: Mapping[str, Path],
    more: Mapping[str, object],
    *,
    brings: Mapping[str, Path],
    python: Path | None = None,
) -> tuple[int, dict[str, object], str]:
    """Run a bundle of these files: exit status, what it wrote, combined output."""
    bundle = directory / "bundle"
    (directory / "scratch").mkdir(parents=True)
    for name, content in files.items():
        (bundle / name).parent.mkdir(parents=True, exist_ok=True)
        (bundle / name).write_bytes(content)
    for name, path in brings.items():
        shutil.copytree(path, bundle / name)
    document = {
        "inputs": {**_paths(inputs), "bundle": str(bundle)},
        **more,
        "workspace": str(directory / "scratch"),
    }
    (directory / "params.json").write_text(json.dumps(document))
    reading, writing = os.pipe()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "ARL_PARAMS": str(directory / "params.json"),
        "ARL_SCORE_FD": str(writing),
    }
    done = subprocess.run(
        [str(python or sys.executable), "-I", str(bundle / "evaluate.py")],
        env=environment,
        pass_fds=[writing],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=280,
    )
    os.close(writing)
    with os.fdopen(reading, "rb") as channel:
        written = channel.read()
    return done.returncode, json.loads(written) if written else {}, done.stdout


def exact_match(directory: Path, artifact: Path, task: Path) -> float:
    split = task / "evaluator" / "search.jsonl"
    status, document, log = evaluate(directory, artifact, split, task / "evaluator" / "tokenizer")
    assert status == 0, log
    metrics = document["metrics"]
    assert isinstance(metrics, dict)
    return float(metrics["exact_match"])
