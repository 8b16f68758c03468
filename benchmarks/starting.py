"""From a killed study of 20,000 trials to its next action, beside Optuna reading as many.

    python -m benchmarks.starting --json FILE [--trials 20000] [--rounds 3] [--without-peers]

ARL: `arl run` began the study and was killed, its past was written in bulk; the clock runs from
`arl resume` until the ledger has the first new trial. Optuna has the same trials in SQLite: a new
process loads the study and asks for its trials, which every sampler does first.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.reports import BENCH, machine, working, write_report
from benchmarks.scale_study import Aged, age
from benchmarks.scale_work import resume
from benchmarks.service_peers import ADAPTERS, OPTUNA, python_of


def ours(aged: Aged, rounds: int) -> dict[str, float]:
    found = [resume(aged) for _ in range(rounds)]
    return {key: statistics.median(one[key] for one in found) for key in found[0]}


def theirs(aged: Aged, work: Path, rounds: int) -> dict[str, float]:
    """Seconds until all trials are read, and the process's peak memory."""
    python, database = python_of(OPTUNA, BENCH), work / "optuna.db"
    ledger = aged.home / "ledger.db"
    argv = [str(python), str(ADAPTERS / "fill_optuna.py")]
    argv += ["--ledger", str(ledger), "--study", aged.study_id, "--database", str(database)]
    subprocess.run(argv, check=True)
    load = [str(python), str(ADAPTERS / "load_optuna.py"), "--database", str(database)]
    answers = [
        json.loads(subprocess.run(load, check=True, stdout=subprocess.PIPE).stdout)
        for _ in range(rounds)
    ]
    return {key: statistics.median(one[key] for one in answers) for key in answers[0]}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-peers", action="store_true")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    given = parser.parse_args()
    report: dict[str, Any] = {"machine": machine(), "trials": given.trials}
    with working("starting") as work:
        aged = age(work / "arl", trials=given.trials)
        found = report["arl"] = ours(aged, given.rounds)
        print(
            f"ARL: first action after {found['first_action_s']:.2f} s "
            f"({found['first_action_cpu_s']:.2f} s computing), {found['first_action_mb']:.0f} MB",
            flush=True,
        )
        if not given.without_peers:
            read = report["optuna"] = theirs(aged, work, given.rounds)
            print(f"Optuna 5: all read in {read['seconds']:.2f} s, {read['peak_mb']:.0f} MB")
    write_report(given.json, report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
