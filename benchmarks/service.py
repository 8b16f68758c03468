"""The service at scale: lists, plots, polling, ask and tell, event streams, memory.

    python -m benchmarks.service --json FILE [--large] [--postgres] [--without-peers]

ARL answers from `arl serve` in a process of its own over a ledger of 20,000 trials with ten values
each (`--large`: of a million, too, which takes some eight minutes to write); optuna-dashboard and
MLflow are installed in `.bench/` and asked for the same trials in the same run.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import service_peers, service_reads
from benchmarks.bulk_ledger import fill
from benchmarks.bulk_rows import Shape
from benchmarks.noop import ROOT
from benchmarks.reports import machine, working, write_report
from benchmarks.service_asking import ask_and_tell
from benchmarks.service_reads import TRIALS, Taken
from benchmarks.service_server import Server, serving
from benchmarks.service_streams import hold_streams
from ledger.database import open_ledger

LARGE = 1_000_000
CLIENTS = (1, 8, 32)
GOAL_PER_S = 150.0
GOAL_KB = 300.0


def fill_home(home: Path, trials: int, url: str | None = None) -> float:
    """A ledger with one study of so many trials; seconds that it took."""
    began = time.monotonic()
    ledger = open_ledger(url or home / "ledger.db", create=True)
    try:
        fill(ledger, Shape(trials=trials, running=False))
    finally:
        ledger.close()
    return time.monotonic() - began


def read_all(home: Path, trials: int, repeat: int, **environment: str) -> dict[str, Any]:
    """Every list and plot over one ledger, cold start and memory."""
    server = Server(home, "--no-worker", **environment)
    try:
        cold_s = server.start(f"{TRIALS}?limit=50")
        taken = service_reads.measure(
            server, lambda client: service_reads.reads_of(client, trials), repeat=repeat
        )
        memory_mb = server.memory_mb()
    finally:
        server.stop()
    print(f"\n{trials} trials: cold start to the first page {cold_s:.2f} s, {memory_mb:.0f} MB")
    for one in taken:
        print(f"  {line(one)}", flush=True)
    return {
        "trials": trials,
        "cold_start_s": cold_s,
        "memory_mb": memory_mb,
        "reads": service_reads.documents(taken),
        "load": os.getloadavg()[0],
    }


def line(one: Taken) -> str:
    missed = "" if one.is_met else f"  over {one.goal_ms:.0f} ms"
    if one.name.startswith("plot") and one.bytes > GOAL_KB * 1000:
        missed += f"  over {GOAL_KB:.0f} kB"
    return (
        f"{one.name:<36} first {one.first_ms:8.1f}, then {one.server_ms:8.1f} ms "
        f"({one.wall_ms:.1f} with the way), {one.bytes / 1000:.1f} kB{missed}"
    )


def work_with(home: Path, trials: int) -> dict[str, Any]:
    """Ask and tell, and open streams, on one server with its worker."""
    found: dict[str, Any] = {"asking": []}
    with serving(home) as server:
        for clients in CLIENTS:
            told = ask_and_tell(server, clients=clients, trials=trials)
            found["asking"].append(told)
            for text in told["errors"]:
                print(f"  error: {text}", flush=True)
            print(
                f"ask and tell, {clients} clients: {told['per_s']:.0f}/s "
                f"(goal {GOAL_PER_S:.0f}), {len(told['errors'])} errors, {told['told']} told, "
                f"{told['counted_by_the_ledger']} in the ledger",
                flush=True,
            )
        found["streams"] = hold_streams(server)
        print(f"streams: {json.dumps(found['streams'])}", flush=True)
        found["memory_mb"] = server.memory_mb()
    return found


def on_postgres(work: Path, trials: int, repeat: int) -> dict[str, Any]:
    """The same reads from a private PostgreSQL server."""
    from tests.postgres_server import find_binaries, private_server

    binaries = find_binaries()
    if binaries is None:
        raise RuntimeError("PostgreSQL is not installed here (Debian: postgresql)")
    with private_server(binaries) as server:
        url = server.new_ledger_url()
        fill_home(work, trials, url)
        home = work / "on-postgres"
        home.mkdir()
        return read_all(home, trials, repeat, ARL_LEDGER=url)


def against(ours: Sequence[dict[str, Any]], peers: dict[str, Any]) -> str:
    """Markdown: one row for each read of a peer, with ours beside it."""
    mine = {read["name"]: read for read in ours}
    rows = ["| asked | ARL, ms (first / then) | kB | the other, ms (first / then) | kB | MB |"]
    rows.append("|---|---|---|---|---|---|")
    for label, found in peers.items():
        for read in found["reads"]:
            own = mine[read["like"]]
            cells = [
                f"{label}: {read['name']}",
                f"{own['first_ms']:.0f} / {own['wall_ms']:.0f}",
                f"{own['bytes'] / 1000:.0f}",
            ]
            if "failed" in read:
                cells += [f"failed after {read['after_s']:.0f} s", ""]
            else:
                ratio = read["wall_ms"] / own["wall_ms"]
                cells.append(
                    f"{read['first_ms']:.0f} / {read['wall_ms']:.0f} ({ratio:.1f} times ours)"
                )
                cells.append(f"{read['bytes'] / 1000:.0f}")
            rows.append("| " + " | ".join([*cells, f"{read['memory_mb']:.0f}"]) + " |")
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--asked", type=int, default=1000, help="trials of each ask-and-tell run")
    parser.add_argument("--repeat", type=int, default=10, help="of each read")
    parser.add_argument("--large", action="store_true", help="a million trials, too")
    parser.add_argument("--large-home", type=Path, help="where those lie already, or shall stay")
    parser.add_argument("--postgres", action="store_true", help="the lists on PostgreSQL, too")
    parser.add_argument("--without-peers", action="store_true")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    given = parser.parse_args()
    report: dict[str, Any] = {"machine": machine()}
    try:
        with working("service") as work:
            measure(given, work, report)
    finally:
        write_report(given.json, report)
    return 0


def measure(given: argparse.Namespace, work: Path, report: dict[str, Any]) -> None:
    """Everything asked for, into the report as it comes."""
    home = work / "arl"
    report["filled_s"] = fill_home(home, given.trials)
    report["small"] = read_all(home, given.trials, given.repeat)
    report["working"] = work_with(home, given.asked)
    if given.large:
        large = given.large_home or work / "large"
        if not (large / "ledger.db").exists():
            report["large_filled_s"] = fill_home(large, LARGE)
        report["large"] = read_all(large, LARGE, given.repeat)
    if given.postgres:
        report["postgres"] = on_postgres(work, given.trials, given.repeat)
    if not given.without_peers:
        report["peers"] = {
            peer.label: service_peers.measure_peer(
                peer,
                ROOT / ".bench",
                work,
                home / "ledger.db",
                given.trials,
                repeat=min(5, given.repeat),
            )
            for peer in service_peers.PEERS
        }
        print("\n" + against(report["small"]["reads"], report["peers"]))
    report["load_at_end"] = os.getloadavg()[0]


if __name__ == "__main__":
    sys.exit(main())
