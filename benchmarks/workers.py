"""Many workers on one PostgreSQL ledger: no-op trials and asked ones a second, and taking over.

    python -m benchmarks.workers [--json FILE] [--workers 1 2 4 8] [--trials 400] [--rounds 3]

Each run has a private PostgreSQL server's schema and a home of its own, so many `arl worker`
processes, and eight studies. Of no-op trials each is two `/bin/sh` processes; of asked ones 32
clients ask and tell over HTTP from `arl serve`, which has no worker of its own. The numbers of
workers take turns, since machines are noisy.
"""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.noop import ROOT
from benchmarks.noop_arl import write_study
from benchmarks.reports import machine, working, write_report
from benchmarks.service_asking import complete_trials, run_clients, submit
from benchmarks.service_server import Server
from benchmarks.worker_processes import Workers, claims_after, ended_at, kill_first
from controller.settings import read_settings
from controller.spec.loading import load_study
from controller.steps.submit import submit_study
from controller.wiring import Service, build_service
from tests.postgres_server import PostgresServer, find_binaries, private_server

STUDIES = 8
CLIENTS = 32
PARALLEL = 4
CPUS = "64"
"""Given to trials: those that do nothing may share."""
WARM_UP = 0.2
"""Of a run's trials, not counted: workers start, studies are prepared."""
LEASES_S = (2.0, 10.0)


class Place:
    """A home and a ledger for one run."""

    def __init__(self, folder: Path, url: str, **more: str) -> None:
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.environment = {
            "ARL_HOME": str(self.home),
            "ARL_LEDGER": url,
            "ARL_CPUS": CPUS,
            **more,
        }

    @contextmanager
    def service(self) -> Iterator[Service]:
        service = build_service(read_settings({**os.environ, **self.environment}), create=True)
        try:
            yield service
        finally:
            service.close()

    def submit_all(self, trials: int, studies: int = STUDIES) -> list[str]:
        """So many no-op trials in so many studies."""
        submitted = []
        with self.service() as service:
            for number in range(studies):
                base = self.home.parent / f"study-{number}"
                sections = {"name": f"noop-{number}", "proposer": {"name": "random"}}
                each = trials // studies
                path = write_study(base, trials=each, parallel=PARALLEL, sections=sections)
                made = submit_study(service, load_study(path), base, actor="benchmark")
                submitted.append(made.study_id)
        return submitted


def rate(times: Sequence[float]) -> float:
    """Ends a second, the first ones left out."""
    counted = sorted(times)[int(WARM_UP * len(times)) :]
    return (len(counted) - 1) / (counted[-1] - counted[0])


def noop_trials(place: Place, workers: int, trials: int) -> dict[str, Any]:
    """Trials a second of so many workers, what they used, and how the studies were spread."""
    studies = place.submit_all(trials)
    with place.service() as service, Workers(workers, place.environment, place.home) as running:
        running.wait_until_done(service, studies)
        cpu_s = running.cpu_s()
        times = ended_at(service, studies)
        owners = claims_after(service, studies, 0.0)
    if len(times) < trials - trials % STUDIES:
        raise RuntimeError(f"{len(times)} of {trials} trials ended well: see {place.home}")
    return {
        "per_s": rate(times),
        "worker_cpu_ms_per_trial": cpu_s * 1e3 / len(times),
        "studies_of_workers": sorted(owners.values()),
    }


def asked_trials(place: Place, workers: int, trials: int) -> dict[str, Any]:
    """Trials a second that 32 clients ask for and tell of, and every error they saw."""
    server = Server(place.home, "--no-worker", **place.environment)
    counted = []
    server.start()
    try:
        with Workers(workers, place.environment, place.home):
            each = trials // STUDIES
            studies = [
                submit(server.port, trials=each, clients=CLIENTS // STUDIES, name=f"asked-{n}")
                for n in range(STUDIES)
            ]
            counted = run_in_turn(server.port, studies, each)
            told = sum(one.told for one in counted)
            complete = sum(
                complete_trials(server.port, study, one.told)
                for study, one in zip(studies, counted, strict=True)
            )
    finally:
        server.stop()
    errors = [text for one in counted for text in one.errors]
    for text in errors:
        print(f"  error: {text}", flush=True)
    return {
        "per_s": rate([at for one in counted for at in one.ended_s]),
        "errors": errors,
        "told": told,
        "counted_by_the_ledger": complete,
    }


def run_in_turn(port: int, studies: Sequence[str], each: int) -> list[Any]:
    """Clients of all studies at once; what those of each study counted."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(studies)) as pool:
        running = [
            pool.submit(run_clients, port, study, clients=CLIENTS // STUDIES, trials=each)
            for study in studies
        ]
        return [one.result() for one in running]


def takeover(place: Place, signal_name: str, lease_s: float) -> float:
    """Seconds from the end, or the stop, of a worker until another drives its study."""
    place.environment["ARL_LEASE_S"] = f"{lease_s:g}"
    studies = place.submit_all(100_000, studies=1)
    with place.service() as service, Workers(2, place.environment, place.home) as running:
        return kill_first(service, running, studies[0], signal_name)


def measure(given: argparse.Namespace, server: PostgresServer, work: Path) -> dict[str, Any]:
    report: dict[str, Any] = {"machine": machine(), "noop": {}, "asked": {}, "takeover_s": {}}
    for round_number in range(given.rounds):
        for workers in given.workers:
            for name, run in (("noop", noop_trials), ("asked", asked_trials)):
                folder = work / f"{name}-{workers}-{round_number}"
                place = Place(folder, server.new_ledger_url())
                found = run(place, workers, given.trials)
                report[name].setdefault(str(workers), []).append(found)
                print(f"{workers} workers, {name}: {found['per_s']:.1f}/s", flush=True)
                shutil.rmtree(folder, ignore_errors=True)
    for lease_s in LEASES_S:
        for signal_name in ("SIGKILL", "SIGSTOP"):
            folder = work / f"takeover-{signal_name}-{lease_s}"
            took_s = takeover(Place(folder, server.new_ledger_url()), signal_name, lease_s)
            report["takeover_s"][f"{signal_name}, lease {lease_s:g} s"] = took_s
            print(
                f"taken over after {signal_name}, lease {lease_s:g} s: {took_s:.2f} s", flush=True
            )
            shutil.rmtree(folder, ignore_errors=True)
    return report


def table(report: dict[str, Any]) -> str:
    """Markdown: one row for each number of workers, medians over the rounds."""
    lines = [
        "| workers | no-op trials/s | times one worker | asked and told/s | times one worker "
        "| worker CPU ms/trial | errors |",
        "|---|---|---|---|---|---|---|",
    ]
    first: dict[str, float] = {}
    for workers, runs in report["noop"].items():
        asked = report["asked"][workers]
        noop_s = median(run["per_s"] for run in runs)
        asked_s = median(run["per_s"] for run in asked)
        first.setdefault("noop", noop_s)
        first.setdefault("asked", asked_s)
        cpu_ms = median(run["worker_cpu_ms_per_trial"] for run in runs)
        errors = sum(len(run["errors"]) for run in asked)
        lines.append(
            f"| {workers} | {noop_s:.1f} | {noop_s / first['noop']:.2f} | {asked_s:.1f} "
            f"| {asked_s / first['asked']:.2f} | {cpu_ms:.1f} | {errors} |"
        )
    lines += ["", "| a worker is gone by | its study is taken over after, s |", "|---|---|"]
    lines += [f"| {how} | {took_s:.2f} |" for how, took_s in report["takeover_s"].items()]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--trials", type=int, default=400, help="of each run, in eight studies")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks/results/workers.json")
    given = parser.parse_args()
    binaries = find_binaries()
    if binaries is None:
        print("workers: PostgreSQL is not installed here (Debian: postgresql)", file=sys.stderr)
        return 1
    began = time.monotonic()
    with working("workers") as work, private_server(binaries) as server:
        report = measure(given, server, work)
    report |= {"load_at_end": os.getloadavg()[0], "took_s": time.monotonic() - began}
    print("\n" + table(report))
    write_report(given.json, report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
