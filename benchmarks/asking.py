"""Asked and told trials a second: by calls in one process, over HTTP, and by Optuna beside.

    python -m benchmarks.asking --json FILE [--trials 1000] [--rounds 3] [--work DIR]

Nothing is run: who asks gets a trial's parameters and tells a value at once. `arl worker` proposes
and records in a process beside, every trial durably. Optuna asks and tells with one client, on
SQLite, on a private PostgreSQL server and through its gRPC proxy, in the same run.
"""

import argparse
import os
import shutil
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.noop import durable_commit_ms
from benchmarks.noop_peers import Peer, run_peer
from benchmarks.reports import BENCH, machine, working, write_report
from benchmarks.service_asking import WARM_UP, ask_and_tell, complete_trials, submit
from benchmarks.service_server import serving
from benchmarks.worker_processes import Workers
from controller.api.models.outside import Told
from controller.api.outside import Outside
from controller.api.uploads import Uploads
from controller.settings import read_settings
from controller.wiring import Service, build_service
from ledger import reads
from tests.postgres_server import find_binaries, private_server

CLIENTS = (1, 8, 32)
PEER_TRIALS = 200
PAUSE_S = 0.001
"""Between two asks when no trial was ready."""
PATIENCE_S = 120.0
OPTUNA = "optuna==5.0.0 grpcio protobuf psycopg2-binary"


def over_http(work: Path, trials: int) -> list[dict[str, Any]]:
    """One run with each number of clients."""
    home = work / "http"
    home.mkdir()
    found = []
    with serving(home) as server:
        for clients in CLIENTS:
            found.append(ask_and_tell(server, clients=clients, trials=trials))
            print(f"HTTP, {clients} clients: {line(found[-1])}", flush=True)
    shutil.rmtree(home)
    return found


def line(found: dict[str, Any]) -> str:
    return (
        f"{found['per_s']:.0f}/s, {len(found['errors'])} errors, {found['told']} told, "
        f"{found['counted_by_the_ledger']} in the ledger"
    )


def in_process(work: Path, trials: int) -> dict[str, Any]:
    """The same calls that the routes make, one after the other from one thread."""
    home = work / "in-process"
    home.mkdir()
    environment = {"ARL_HOME": str(home)}
    with serving(home, "--no-worker") as server:
        study = submit(server.port, trials=trials + WARM_UP, clients=8, name="in-process")
        service = build_service(read_settings({**os.environ, **environment}), create=False)
        try:
            with Workers(1, environment, home):
                ended = call(service, study, trials + WARM_UP)
                complete = complete_trials(server.port, study, len(ended))
        finally:
            service.close()
    shutil.rmtree(home)
    counted = ended[WARM_UP:]
    return {
        "per_s": (len(counted) - 1) / (counted[-1] - counted[0]),
        "told": len(ended),
        "counted_by_the_ledger": complete,
        "errors": {},
        "clients": 0,
    }


def call(service: Service, study_id: str, trials: int) -> list[float]:
    """Ask and tell so many; when each was told. Raises RuntimeError."""
    outside = Outside(service)
    uploads = Uploads(Path(service.settings.home) / "uploads", "caller", service.store)
    with service.ledger.read() as session:
        study = reads.get_study(session, study_id)
    ended: list[float] = []
    until = time.monotonic() + PATIENCE_S
    while len(ended) < trials:
        if time.monotonic() > until:
            raise RuntimeError(f"{len(ended)} of {trials} trials after {PATIENCE_S:.0f} s")
        handed = outside.ask(study, "caller")
        if handed is None:
            time.sleep(PAUSE_S)
            continue
        _, offer, token = handed
        document = offer["document"]
        told = Told(outcome="complete", metrics={"score": document["parameters"]["x"]})
        outside.tell(document["trial"], token, told, uploads)
        ended.append(time.monotonic())
    return ended


def together(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The median rate of some rounds, and the sums of what was counted."""
    return {
        "clients": runs[0]["clients"],
        "per_s": statistics.median(run["per_s"] for run in runs),
        "all_per_s": [run["per_s"] for run in runs],
        "told": sum(run["told"] for run in runs),
        "counted_by_the_ledger": sum(run["counted_by_the_ledger"] for run in runs),
        "errors": dict(sum((Counter(run["errors"]) for run in runs), Counter())),
    }


@contextmanager
def a_database() -> Iterator[dict[str, str]]:
    """Peers by label, each with where it keeps its trials."""
    binaries = find_binaries()
    if binaries is None:
        yield {"sqlite": "", "grpc": ""}
        return
    with private_server(binaries) as server:
        url = server.new_ledger_url().replace("postgresql:", "postgresql+psycopg2:", 1)
        yield {"sqlite": "", "grpc": "", "postgres": url}


def peers(work: Path) -> dict[str, float]:
    """Trials a second of each."""
    found = {}
    with a_database() as storages:
        for mode, url in storages.items():
            os.environ["ASKED_DATABASE"] = url
            peer = Peer(
                f"Optuna 5.0.0 {mode}", OPTUNA, "ask_optuna", mode, environment="optuna-asked"
            )
            try:
                times = run_peer(peer, BENCH, work / mode, trials=PEER_TRIALS)
            except RuntimeError as error:
                print(f"{peer.label}: FAILED: {error}", flush=True)
                continue
            found[peer.label] = (len(times) - 1) / (times[-1] - times[0])
            print(f"{peer.label}: {found[peer.label]:.0f}/s", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-peers", action="store_true")
    parser.add_argument("--work", type=Path, help="on which disk; default: that of the project")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    given = parser.parse_args()
    report: dict[str, Any] = {"machine": machine(), "commit_ms": []}
    calls, asked = [], []
    with working("asking", given.work) as work:
        for _ in range(given.rounds):
            report["commit_ms"].append(durable_commit_ms(work, 100))
            calls.append(in_process(work, given.trials))
            print(f"in process: {line(calls[-1])}", flush=True)
            asked.append(over_http(work, given.trials))
        report["in_process"] = together(calls)
        report["http"] = [together(runs) for runs in zip(*asked, strict=True)]
        report["peers"] = {} if given.without_peers else peers(work)
    write_report(given.json, report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
