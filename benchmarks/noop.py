"""What a trial that does nothing costs: serially, in parallel, and as a study grows.

    python -m benchmarks.noop --trials 200 --json FILE [--peers]

ARL runs through `arl run STUDY`; times come from its ledger. The other systems (`--peers`) are
installed in `.bench/` and measured in turn with ARL in the same run, since machines are noisy.
"""

import argparse
import contextlib
import functools
import itertools
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from benchmarks.noop_arl import Run, run_study
from benchmarks.noop_peers import PEERS, RUNS_NOTHING, Peer, run_peer
from benchmarks.reports import machine, write_report

ROOT = Path(__file__).resolve().parent.parent
EARLY = 100
"""Growth compares trials around this number with the last ones."""
WINDOW = 100
PARALLEL = (8, 16)
Figures: TypeAlias = dict[str, float | int | None]


def bare_pair_ms(count: int) -> list[float]:
    """Two processes started and waited for, nothing else: the floor under every system."""
    times = []
    for _ in range(count):
        started = time.perf_counter()
        for script in (":", "echo score=0.5 >/dev/null"):
            pid = os.posix_spawn("/bin/sh", ["/bin/sh", "-c", script], os.environ)
            os.waitpid(pid, 0)
        times.append((time.perf_counter() - started) * 1e3)
    return times


def durable_commit_ms(folder: Path, count: int) -> float:
    """Median of one durable SQLite commit on the disk that the ledger lies on."""
    path = folder / "commit.db"
    times = []
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("CREATE TABLE t (x)")
        for i in range(count):
            started = time.perf_counter()
            database.execute("INSERT INTO t VALUES (?)", (i,))
            times.append((time.perf_counter() - started) * 1e3)
    path.unlink()
    return statistics.median(times)


def intervals_ms(ended_s: Sequence[float]) -> list[float]:
    return [(b - a) * 1e3 for a, b in itertools.pairwise(ended_s)]


def rate_per_s(ended_s: Sequence[float], parallel: int) -> float:
    """Completions a second after the first `parallel` of them (start-up is not the subject)."""
    counted = ended_s[parallel - 1 :]
    return (len(counted) - 1) / (counted[-1] - counted[0])


def growth(ended_s: Sequence[float]) -> Figures:
    """Mean cost of a trial in the window around trial 100 and in the last one."""
    costs = intervals_ms(ended_s)
    early = statistics.mean(costs[EARLY - WINDOW // 2 : EARLY + WINDOW // 2])
    late = statistics.mean(costs[-WINDOW:])
    return {"trials": len(ended_s), "early_ms": early, "late_ms": late, "ratio": late / early}


def cpu_growth(run: Run) -> Figures:
    """The worker's own processor time per trial, which another process's load hardly changes."""

    def cost_ms(first: int, last: int) -> float:
        within = [s for s in run.samples if run.ended_s[first] <= s.at_s <= run.ended_s[last]]
        trials = bisect_left(run.ended_s, within[-1].at_s) - bisect_left(
            run.ended_s, within[0].at_s
        )
        return (within[-1].cpu_s - within[0].cpu_s) / trials * 1e3

    count = len(run.ended_s)
    early, late = cost_ms(EARLY, EARLY + 3 * WINDOW), cost_ms(count - 1 - 3 * WINDOW, count - 1)
    return {"cpu_early_ms": early, "cpu_late_ms": late, "cpu_ratio": late / early}


def memory_growth(run: Run) -> Figures:
    """Bytes per trial over the study's second half (the first fills SQLite's bounded page
    cache), and the peak."""
    first, last = run.ended_s[len(run.ended_s) // 2], run.ended_s[-1]
    tenth = (last - first) / 10
    early = [s.rss_bytes for s in run.samples if first <= s.at_s <= first + tenth]
    late = [s.rss_bytes for s in run.samples if last - tenth <= s.at_s <= last]
    trials = len(run.ended_s) * 0.5 * 0.9  # between the middles of the two windows
    grown = statistics.median(late) - statistics.median(early)
    return {"bytes_per_trial": grown / trials, "peak_bytes": max(s.rss_bytes for s in run.samples)}


class Bench:
    """One run of everything: `results[system][measurement]`, printed as it comes."""

    def __init__(self, work: Path, environments: Path, rounds: int) -> None:
        self.work = work
        self.environments = environments
        self.rounds = rounds
        self.results: dict[str, dict[str, Figures]] = {}
        self.count = 0

    def folder(self) -> Path:
        self.count += 1
        return self.work / f"{self.count:03}"

    def record(self, system: str, measurement: str, figures: Figures) -> None:
        self.results.setdefault(system, {})[measurement] = figures
        shown = ", ".join(f"{k} {v:.4g}" for k, v in figures.items() if v is not None)
        print(f"  {system:<38} {measurement:<12} {shown}", flush=True)

    def attempt(self, system: str, measurement: str, measure: Callable[[], Figures]) -> None:
        """A system that fails is a row that says so, not the end of the benchmark."""
        try:
            self.record(system, measurement, measure())
        except (RuntimeError, subprocess.CalledProcessError) as error:
            print(f"  {system:<38} {measurement:<12} FAILED: {error}", flush=True)

    def arl(self, trials: int, parallel: int) -> list[float]:
        return run_study(self.folder(), trials=trials, parallel=parallel).ended_s

    def peer(self, peer: Peer, trials: int, parallel: int) -> list[float]:
        folder = self.folder()
        times = run_peer(peer, self.environments, folder, trials=trials, parallel=parallel)
        shutil.rmtree(folder, ignore_errors=True)
        return times

    def serial(self, trials: int, peers: Sequence[Peer]) -> None:
        """Systems take turns, round by round; bare process pairs are timed beside each."""
        bare: list[float] = []
        costs: dict[str, list[float]] = {}
        for _ in range(self.rounds):
            bare += bare_pair_ms(50)
            costs.setdefault("ARL", []).extend(intervals_ms(self.arl(trials // self.rounds, 1)))
            for peer in peers:
                with contextlib.suppress(RuntimeError, subprocess.CalledProcessError):
                    times = self.peer(peer, peer.serial, 1)
                    costs.setdefault(peer.label, []).extend(intervals_ms(times))
        bare += bare_pair_ms(50)
        floor = statistics.median(bare)
        self.record("two bare processes", "serial", {"median_ms": floor})
        for system, each in costs.items():
            middle, mean = statistics.median(each), statistics.mean(each)
            figures: Figures = {"median_ms": middle, "mean_ms": mean}
            if not system.endswith(RUNS_NOTHING):
                figures |= {"own_median_ms": middle - floor, "own_mean_ms": mean - floor}
            self.record(system, "serial", {**figures, "trials": len(each)})

    def parallel(self, trials: int, peers: Sequence[Peer]) -> None:
        for at_once in PARALLEL:
            rates = [rate_per_s(self.arl(trials, at_once), at_once) for _ in range(self.rounds)]
            figures: Figures = {"at_once": at_once, "per_s": statistics.median(rates)}
            self.record("ARL", f"parallel{at_once}", figures)
        for peer in peers:
            if peer.parallel[0]:
                measure = functools.partial(self.peer_rate, peer, *peer.parallel)
                self.attempt(peer.label, f"parallel{peer.parallel[1]}", measure)

    def peer_rate(self, peer: Peer, trials: int, at_once: int) -> Figures:
        return {"at_once": at_once, "per_s": rate_per_s(self.peer(peer, trials, at_once), at_once)}

    def peer_growth(self, peer: Peer, trials: int, at_once: int) -> Figures:
        return growth(self.peer(peer, trials, at_once))

    def growing(self, trials: int, peers: Sequence[Peer]) -> None:
        run = run_study(self.folder(), trials=trials)
        self.record("ARL", "growth", growth(run.ended_s) | cpu_growth(run) | memory_growth(run))
        for peer in peers:
            if peer.growth[0]:
                measure = functools.partial(self.peer_growth, peer, *peer.growth)
                self.attempt(peer.label, "growth", measure)


def table(results: dict[str, dict[str, Figures]]) -> str:
    """Markdown: one row a system; `x` columns are ARL's cost over that system's."""
    lines = [
        "| system | serial, ms (median) | own share, ms (median / mean) | serial, times ARL | "
        "trials/s at 8 | at 16 | growth (first 100 → N) |",
        "|---|---|---|---|---|---|---|",
    ]
    arl_ms = results["ARL"]["serial"]["median_ms"] or 1.0

    def number(system: str, measurement: str, key: str, style: str = ".3g") -> str:
        value = results[system].get(measurement, {}).get(key)
        return "" if value is None else format(value, style)

    for system, figures in results.items():
        serial = figures.get("serial", {}).get("median_ms")
        own = f"{number(system, 'serial', 'own_median_ms')} / " + number(
            system, "serial", "own_mean_ms"
        )
        grown = number(system, "growth", "ratio")
        until = number(system, "growth", "trials", ".0f")
        cells = [
            system,
            number(system, "serial", "median_ms"),
            own if "own_mean_ms" in figures.get("serial", {}) else "",
            "" if serial is None else f"{serial / arl_ms:.3g}",
            number(system, "parallel8", "per_s"),
            number(system, "parallel16", "per_s"),
            f"{grown}x (N = {until})" if grown else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--trials", type=int, default=200, help="serial trials in all")
    parser.add_argument("--parallel-trials", type=int, default=400, help="per parallel run")
    parser.add_argument("--growth-trials", type=int, default=5000, help="0 leaves growth out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="where to write all figures")
    parser.add_argument("--peers", action="store_true", help="the other systems, side by side")
    parser.add_argument("--work", type=Path, default=ROOT / ".bench" / "work")
    arguments = parser.parse_args()
    peers = PEERS if arguments.peers else ()
    report: dict[str, object] = {"machine": machine()}
    work = arguments.work / str(os.getpid())
    work.mkdir(parents=True)
    try:
        commit = durable_commit_ms(work, 200)
        print(f"a durable SQLite commit here: {commit:.2f} ms (median)", flush=True)
        bench = Bench(work, ROOT / ".bench", arguments.rounds)
        bench.serial(arguments.trials, peers)
        bench.parallel(arguments.parallel_trials, peers)
        if arguments.growth_trials:
            bench.growing(arguments.growth_trials, peers)
        report |= {"durable_commit_ms": commit, "results": bench.results}
        report["load_at_end"] = os.getloadavg()[0]
        print("\n" + table(bench.results))
        write_report(arguments.json, report)
    except RuntimeError as error:
        print(f"noop: {error}", file=sys.stderr)
        return 1
    shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
