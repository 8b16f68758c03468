"""ARL's side of the no-op benchmark: a study file, `arl run`, the times in its ledger."""

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ARL = Path(sys.executable).parent / "arl"
SEARCH_ENDS = "SELECT ended_at FROM trials WHERE kind = 'search' AND state = 'complete' ORDER BY 1"


@dataclass
class Run:
    """One study: when each search trial ended, and what the worker weighed meanwhile."""

    ended_s: list[float]
    """Wall clock, ascending."""
    samples: list["Sample"] = field(default_factory=list)
    """Of the `arl run` process, ten a second."""


@dataclass(frozen=True)
class Sample:
    at_s: float
    rss_bytes: int
    cpu_s: float


def write_study(
    folder: Path, *, trials: int, parallel: int, sections: Mapping[str, object] | None = None
) -> Path:
    """Two /bin/sh processes a trial: one does nothing, the other writes a score. `sections` of
    the study file are added."""
    bundle = folder / "bundle"
    bundle.mkdir(parents=True)
    score = """printf '{"metrics":{"score":0.5}}' >/dev/fd/$ARL_SCORE_FD\n"""
    (bundle / "score.sh").write_text(score)
    for split in ("search", "holdout"):
        lines = "".join(f'{{"item": "{split} {i}"}}\n' for i in range(4))
        (bundle / f"{split}.jsonl").write_text(lines)
    study = {
        "name": "noop",
        "objective": {"metric": "score", "direction": "maximize"},
        "program": {"kind": "command", "argv": ["/bin/sh", "-c", ":"]},
        "target": {"name": "local"},
        "space": {"x": {"type": "float", "low": 0.0, "high": 1.0}},
        "evaluator": {
            "bundle": "bundle",
            "argv": ["/bin/sh", "{bundle}/score.sh"],
            "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
            "metrics": {"score": {"low": 0.0, "high": 1.0}},
            "requires_model": False,
        },
        "parallel": parallel,
        "budget": {"trials": trials},
        **(sections or {}),
    }
    path = folder / "study.yaml"
    path.write_text(json.dumps(study, indent=1))  # JSON is YAML
    return path


def watch(pid: int, into: list[Sample], stop: threading.Event) -> None:
    page, tick = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
    while not stop.wait(0.1):
        with contextlib.suppress(OSError, IndexError):
            resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            cpu_s = (int(fields[11]) + int(fields[12])) / tick
            into.append(Sample(time.time(), resident * page, cpu_s))


def run_study(
    folder: Path,
    *,
    trials: int,
    parallel: int = 1,
    sections: Mapping[str, object] | None = None,
    keep: bool = False,
) -> Run:
    """Run a no-op study through the command line; `keep` what it left in `folder`. Raises
    RuntimeError when it fails."""
    study = write_study(folder, trials=trials, parallel=parallel, sections=sections)
    home = folder / "home"
    environment = {
        **os.environ,
        "ARL_HOME": str(home),
        "ARL_LEDGER": f"sqlite:///{home / 'ledger.db'}",
        "ARL_CPUS": str(parallel),
    }
    log = folder / "arl.log"
    run = Run([])
    stop = threading.Event()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(ARL), "run", str(study), "--json"], env=environment, stdout=output, stderr=output
        )
        watcher = threading.Thread(target=watch, args=(process.pid, run.samples, stop))
        watcher.start()
        code = process.wait()
        stop.set()
        watcher.join()
    if (home / "ledger.db").exists():
        with contextlib.closing(sqlite3.connect(home / "ledger.db")) as ledger:
            run.ended_s = [row[0] for row in ledger.execute(SEARCH_ENDS)]
    if code != 0 or len(run.ended_s) < trials:
        tail = log.read_text(errors="replace")[-2000:]
        raise RuntimeError(f"arl run: exit {code}, {len(run.ended_s)} of {trials} trials\n{tail}")
    # The supervisor outlives `arl run` by design and leaves by itself when idle for a while.
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
    return run
