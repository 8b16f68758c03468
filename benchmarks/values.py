"""A thousand reported values of one trial (20 metrics at 50 steps) recorded, beside MLflow.

    python -m benchmarks.values --json FILE [--rounds 20] [--without-peers]

ARL's go through the ledger's own transition in one durable commit, as the worker records a batch;
MLflow's through `log_batch` of its client on SQLite, a thousand metrics a call, which is the most
that one takes.
"""

import argparse
import itertools
import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.noop import durable_commit_ms
from benchmarks.noop_peers import Peer, run_peer
from benchmarks.reports import BENCH, machine, working, write_report
from benchmarks.scale_study import Aged
from benchmarks.scale_work import record_values
from ledger.database import open_ledger

MLFLOW = Peer("MLflow 3.17.0", "mlflow==3.17.0", "log_mlflow")


def ours(work: Path) -> dict[str, float]:
    url = f"sqlite:///{work / 'ledger.db'}"
    open_ledger(url, create=True).close()
    return record_values(Aged(home=work, url=url, study_id="", trials=0))


def theirs(work: Path, rounds: int) -> float:
    """Median milliseconds of a call."""
    ended_s = run_peer(MLFLOW, BENCH, work / "mlflow", trials=rounds)
    return statistics.median(b - a for a, b in itertools.pairwise([0.0, *ended_s])) * 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="trials of MLflow's")
    parser.add_argument("--without-peers", action="store_true")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    given = parser.parse_args()
    report: dict[str, Any] = {"machine": machine()}
    with working("values") as work:
        report["commit_ms"] = durable_commit_ms(work, 100)
        report["arl"] = ours(work)
        print(f"ARL: {report['arl']['wall_ms']:.1f} ms ({report['arl']['cpu_ms']:.1f} computing)")
        if not given.without_peers:
            report["mlflow_ms"] = theirs(work, given.rounds)
            print(f"{MLFLOW.label}: {report['mlflow_ms']:.0f} ms")
    write_report(given.json, report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
