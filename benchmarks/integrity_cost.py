"""What an honest candidate pays for the whole integrity machinery.

    python -m benchmarks.integrity_cost --json FILE [--pair-s 60] [--rounds 3]

A pair is a training and an evaluating program of fixed work, `--pair-s` seconds of it in all on
this machine, a model between them. By hand: one process after the other, no sandbox, no ledger.
Under ARL: a trial of a study, from the end of the one before it to its own, on each target:
inputs checked out, sandbox made, output surveyed, hashed and stored, bundle and split mounted,
score parsed, everything committed. All take turns in one run, since machines are noisy, and the
programs measure themselves, so that the machine's noise can be told from what ARL adds.
DOCKER_HOST names an engine; without it root gets a private one.
"""

import argparse
import hashlib
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.container_bare import docker_problem
from benchmarks.reports import machine, write_report
from controller.settings import read_settings
from controller.spec.loading import parse_study
from controller.steps.submit import submit_study
from controller.wiring import build_service
from controller.worker.loop import Worker
from ledger import reads
from ledger.database import Ledger
from targets.registry import problem_of
from tests.target_runs import end_supervisor

GOALS: Final = {"bubblewrap": 1.05, "docker": 1.08}
"""Wall time over the pair run by hand."""
TARGETS: Final = ("local", "bubblewrap", "docker")
TRIALS: Final = 3
"""Of each study: so many less one are measured, from one end to the next."""
TRAIN_SHARE: Final = 5 / 6
MODEL_BYTES: Final = 64 * 1024 * 1024
BLOCK: Final = 1 << 20

WORK: Final = f"""\
import hashlib, json, os, time
started, used = time.perf_counter(), time.process_time()
def work(blocks, report=lambda share: None):
    block, digest = bytes({BLOCK}), hashlib.sha256()
    for number in range(blocks):
        digest.update(block)
        if number % max(1, blocks // 100) == 0:
            report(number)
    return digest.hexdigest()
def spent():
    return {{"wall_s": time.perf_counter() - started, "cpu_s": time.process_time() - used}}
"""
TRAIN: Final = """
reports = open(os.environ["ARL_REPORTS"], "a", buffering=1)
def report(step):
    reports.write(json.dumps({"step": step, "metric": "loss", "value": 1.0}) + "\\n")
digest = work(BLOCKS, report)
os.makedirs(os.environ["ARL_OUTPUT"] + "/model")
with open(os.environ["ARL_OUTPUT"] + "/model/weights", "wb") as file:
    file.write(digest.encode() * (MODEL_BYTES // 64))
with open(os.environ["ARL_OUTPUT"] + "/model/spent", "w") as file:
    json.dump(spent(), file)
"""
EVALUATE: Final = """
artifact = os.environ["ARL_INPUTS"] + "/artifact"
with open(artifact + "/weights", "rb") as file:
    hashlib.file_digest(file, "sha256")
with open(artifact + "/spent") as file:
    trained = json.load(file)
work(BLOCKS)
own = spent()
metrics = {"score": 0.5, "wall_s": trained["wall_s"] + own["wall_s"],
           "cpu_s": trained["cpu_s"] + own["cpu_s"]}
os.write(int(os.environ["ARL_SCORE_FD"]), json.dumps({"metrics": metrics}).encode())
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """One training and one evaluation."""

    total_s: float
    """All of it, as whoever waits sees it."""
    inside_s: float
    """Of that, in the programs themselves, as they measured it."""
    cpu_s: float
    """Processor time of the programs."""


def blocks_per_s() -> float:
    """How fast the work is done here now."""
    digest, block, count = hashlib.sha256(), bytes(BLOCK), 0
    started = time.perf_counter()
    while time.perf_counter() - started < 1.0:
        digest.update(block)
        count += 1
    return count / (time.perf_counter() - started)


def programs(pair_s: float) -> tuple[str, str]:
    """The code that trains and the code that evaluates."""
    blocks = blocks_per_s() * pair_s
    sizes = (int(blocks * TRAIN_SHARE), int(blocks * (1 - TRAIN_SHARE)))
    train, evaluate = (f"BLOCKS, MODEL_BYTES = {n}, {MODEL_BYTES}\n" for n in sizes)
    return WORK + train + TRAIN, WORK + evaluate + EVALUATE


def run_by_hand(work: Path, code: tuple[str, str]) -> Pair:
    """As a person would: two processes, the second reads what the first wrote."""
    place = Path(tempfile.mkdtemp(dir=work))
    (place / "inputs").mkdir()
    (place / "inputs" / "artifact").symlink_to(place / "output" / "model")
    reading, writing = os.pipe()
    environment = {
        **os.environ,
        "ARL_OUTPUT": str(place / "output"),
        "ARL_INPUTS": str(place / "inputs"),
        "ARL_REPORTS": str(place / "reports"),
        "ARL_SCORE_FD": str(writing),
    }
    started = time.perf_counter()
    for program in code:
        argv = [sys.executable, "-I", "-S", "-c", program]
        subprocess.run(argv, env=environment, pass_fds=[writing], check=True)
    total_s = time.perf_counter() - started
    os.close(writing)
    with os.fdopen(reading, "rb") as channel:
        metrics = json.loads(channel.read())["metrics"]
    shutil.rmtree(place)
    return Pair(total_s, metrics["wall_s"], metrics["cpu_s"])


def run_study(
    work: Path, code: tuple[str, str], target: str, environment: Mapping[str, str]
) -> list[Pair]:
    """The trials of a study of its own on that target, after the first.

    Raises RuntimeError when a trial is not scored.
    """

    base = Path(tempfile.mkdtemp(dir=work))
    (base / "evaluator").mkdir()
    (base / "source").mkdir()
    (base / "source" / "train.py").write_text(code[0])
    (base / "evaluator" / "evaluate.py").write_text(code[1])
    (base / "evaluator" / "search.jsonl").write_text('{"item": 1}\n')
    settings = read_settings({"ARL_HOME": str(base / ".arl"), **environment})
    service = build_service(settings, create=True)
    try:
        spec = parse_study(_document(target), base)
        study = submit_study(service, spec, base, actor="benchmark")
        Worker(service).run(only=[study.study_id])
        return _pairs(service.ledger, study.study_id)
    finally:
        service.close()
        _end_daemon(base / ".arl", target)
        shutil.rmtree(base, ignore_errors=True)


def _document(target: str) -> dict[str, object]:
    free = {"low": 0}
    return {
        "name": "integrity-cost",
        "objective": {"metric": "score", "direction": "maximize"},
        "target": {"name": target},
        "program": {
            "kind": "command",
            "argv": ["{python}", "-I", "-S", "train.py"],
            "source": "./source",
        },
        "space": {"x": {"type": "int", "low": 0, "high": 9}},
        "evaluator": {
            "bundle": "./evaluator",
            "argv": ["{python}", "-I", "-S", "{bundle}/evaluate.py"],
            "splits": {"search": "search.jsonl"},
            "metrics": {"score": {"low": 0, "high": 1}, "wall_s": free, "cpu_s": free},
        },
        "noise": {"baseline_trials": 2},
        "budget": {"trials": TRIALS - 2},
    }


def _pairs(ledger: Ledger, study_id: str) -> list[Pair]:

    ended: list[tuple[float, Mapping[str, float]]] = []
    with ledger.read() as session:
        for number in range(TRIALS):
            trial = reads.find_trial(session, study_id, number)
            if trial is None or trial.ended_at is None or trial.value is None:
                raise RuntimeError(f"trial {number} was not scored: {trial}")
            detail = reads.get_trial(session, trial.id)
            ended.append((trial.ended_at, detail.evaluations[0].scores))
    ended.sort(key=lambda one: one[0])
    return [
        Pair(after[0] - before[0], after[1]["wall_s"], after[1]["cpu_s"])
        for before, after in itertools.pairwise(ended)
    ]


def _end_daemon(home: Path, target: str) -> None:

    for root in home.glob(f"{target}*"):
        end_supervisor(root)


def summarise(pairs: Mapping[str, Sequence[Pair]]) -> dict[str, dict[str, float]]:
    """Medians, and ratios to the pair run by hand."""
    figures = {
        name: {
            "pairs": float(len(found)),
            "total_s": statistics.median(p.total_s for p in found),
            "inside_s": statistics.median(p.inside_s for p in found),
            "outside_s": statistics.median(p.total_s - p.inside_s for p in found),
            "cpu_s": statistics.median(p.cpu_s for p in found),
        }
        for name, found in pairs.items()
    }
    hand = figures["by hand"]
    for row in figures.values():
        row["ratio"] = row["total_s"] / hand["total_s"]
        row["cpu_ratio"] = row["cpu_s"] / hand["cpu_s"]
        row["added"] = (row["outside_s"] - hand["outside_s"]) / hand["total_s"]
    return figures


def available(wanted: Sequence[str]) -> dict[str, dict[str, str]]:
    """The targets that work here, with ARL's settings for each."""

    engine = os.environ.get("DOCKER_HOST")
    settings = {"docker": {"ARL_DOCKER_HOST": engine} if engine else {}}
    found = {}
    for name in wanted:
        options = {"engine": engine} if name == "docker" and engine else {}
        problem = problem_of(name, options)
        if problem is None:
            found[name] = settings.get(name, {})
        else:
            print(f"not measured: {name}: {problem}", file=sys.stderr)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pair-s", type=float, default=60.0, help="work of one pair")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--target", action="append", choices=TARGETS, default=[])
    parser.add_argument("--json", type=Path, help="where to write all figures")
    arguments = parser.parse_args()
    wanted = arguments.target or TARGETS
    if "docker" in wanted:
        docker_problem("benchmarks.integrity_cost")
    found, targets = machine(), available(wanted)
    pairs: dict[str, list[Pair]] = {"by hand": [], **{name: [] for name in targets}}
    with tempfile.TemporaryDirectory(prefix="arl-bench-") as place:
        work = Path(place)
        code = programs(arguments.pair_s)
        run_by_hand(work, programs(0.5))
        for _ in range(arguments.rounds):
            for name, environment in targets.items():
                pairs["by hand"].append(run_by_hand(work, code))
                pairs[name] += run_study(work, code, name, environment)
    figures = summarise(pairs)
    for name, row in figures.items():
        print(
            f"{name:<11} {row['total_s']:7.2f} s, {row['ratio']:.3f} of the pair by hand; around "
            f"the programs {row['outside_s']:.2f} s, their processor time {row['cpu_ratio']:.3f}"
        )
    missed = [n for n, goal in GOALS.items() if n in figures and figures[n]["ratio"] > goal]
    print(f"goals: {GOALS}; missed: {missed or 'none'}")
    report = {"machine": found, "pair_s": arguments.pair_s, "goals": GOALS, **figures}
    write_report(arguments.json, report)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
