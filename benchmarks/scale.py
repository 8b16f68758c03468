"""How everything grows: studies of a thousand to a million trials, and of up to a hundred million
reported values.

    python -m benchmarks.scale --json FILE [--sizes 1000,10000] [--values 1000,10000] [--postgres]

Each size is a study that `arl run` began, that was killed and that got a past in bulk; `arl serve`
is asked for its lists and plots (the first time ever, after a start, and again), a thousand values
are recorded, and `arl resume` goes on with it. A million trials take some six minutes to write and
4 GB; `--values` counts trials with a thousand values each: 100000 of them take as long and 3 GB.
"""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text

from benchmarks.noop import ROOT, durable_commit_ms
from benchmarks.reports import machine, write_report
from benchmarks.scale_reads import read_study
from benchmarks.scale_study import Aged, age, sizes
from benchmarks.scale_work import record_values, resume
from ledger.database import ledger_url

STEPS = 100
PRUNED = {"pruning": {"name": "median", "metric": "m0"}}


def measure(aged: Aged, *, values: bool) -> dict[str, Any]:
    """Everything about one study; printed as it comes."""
    found: dict[str, Any] = {"trials": aged.trials, "filled_s": aged.filled_s}
    found["values"] = aged.trials * 10 * (STEPS if values else 1)
    if aged.url.startswith("sqlite"):
        found["bytes"] = sizes(aged.home)
    found["load"] = os.getloadavg()[0]
    found["recording"] = record_values(aged)
    found |= read_study(aged, _last_in_bulk(aged))
    found["resume"] = resume(aged)
    print(json.dumps({key: found[key] for key in ("trials", "values", "resume")}), flush=True)
    return found


def _last_in_bulk(aged: Aged) -> str:
    engine = create_engine(ledger_url(aged.url))
    with engine.connect() as connection:
        query = text("SELECT max(number) FROM trials WHERE study_id = :study")
        last = connection.execute(query, {"study": aged.study_id}).scalar_one()
    engine.dispose()
    return f"{aged.study_id}-{last}"


def table(found: Sequence[dict[str, Any]], rows: dict[str, Callable[[Any], str]]) -> str:
    """Markdown: a column for each size."""
    lines = ["| | " + " | ".join(f"{one['trials']:,} trials" for one in found) + " |"]
    lines.append("|---" * (len(found) + 1) + "|")
    lines += [
        "| " + " | ".join([name, *(cell(one) for one in found)]) + " |"
        for name, cell in rows.items()
    ]
    return "\n".join(lines)


def rows_of(first: dict[str, Any]) -> dict[str, Callable[[Any], str]]:
    """The rows of a table: name and what stands in a cell."""
    rows: dict[str, Callable[[Any], str]] = {
        "ledger, MB": lambda one: f"{one['bytes']['file'] / 1e6:.0f}" if "bytes" in one else "",
        "columns kept, MB": lambda one: f"{one['columns_bytes'] / 1e6:.1f}",
        "write 1,000 values": lambda one: _pair(one["recording"]),
        "server: read once beside all else, s of its processor": lambda one: (
            f"{one['kept_cpu_s']:.1f}"
        ),
        "server: start to first page, s": lambda one: f"{one['start_to_first_page_s']:.2f}",
        "server: memory after all, MB": lambda one: f"{one['memory_mb']:.0f}",
        "resume: first action, s (processor)": lambda one: (
            f"{one['resume']['first_action_s']:.2f} ({one['resume']['first_action_cpu_s']:.2f})"
        ),
        "resume: memory then, MB": lambda one: f"{one['resume']['first_action_mb']:.0f}",
        "a trial then": lambda one: (
            f"{one['resume']['trial_ms']:.1f} ({one['resume']['trial_cpu_ms']:.1f})"
        ),
    }
    for place, read in enumerate(first["reads"]):
        rows[read["name"]] = lambda one, at=place: " / ".join(  # type: ignore[misc]
            _pair(one["reads"][at][when]) for when in ("ever", "started", "then")
        )
    return rows


def _pair(answer: dict[str, float]) -> str:
    return f"{answer['wall_ms']:.0f} ({answer['cpu_ms']:.0f})"


def _sizes(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def _one(work: Path, trials: int, *, values: bool, url: str | None, keep: bool) -> dict[str, Any]:
    folder = work / f"{'values' if values else 'trials'}-{trials}"
    steps, sections = (STEPS, PRUNED) if values else (1, None)
    try:
        aged = age(folder, trials=trials, steps=steps, url=url, sections=sections)
        return measure(aged, values=values)
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def on_postgres(work: Path, trials: Sequence[int]) -> list[dict[str, Any]]:
    """The same on a private PostgreSQL server, a database for each size."""
    from tests.postgres_server import find_binaries, private_server

    binaries = find_binaries()
    if binaries is None:
        raise RuntimeError("PostgreSQL is not installed here (Debian: postgresql)")
    with private_server(binaries) as server:
        return [
            _one(work / "postgres", n, values=False, url=server.new_ledger_url(), keep=False)
            for n in trials
        ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=_sizes, default=[1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--values", type=_sizes, default=[], help="trials with 1,000 values each")
    parser.add_argument("--postgres", type=_sizes, default=[], help="sizes on PostgreSQL")
    parser.add_argument(
        "--work", type=Path, help="where ledgers are made, and stay for the next time"
    )
    parser.add_argument("--json", type=Path, help="where to write all figures")
    given = parser.parse_args()
    work = given.work or ROOT / ".bench" / "work" / f"scale-{os.getpid()}"
    work.mkdir(parents=True, exist_ok=True)
    keep = given.work is not None
    report: dict[str, Any] = {"machine": machine(), "commit_ms": durable_commit_ms(work, 100)}
    try:
        for name, trials, values in (
            ("trials", given.sizes, False),
            ("values", given.values, True),
        ):
            report[name] = []
            for n in trials:
                report[name].append(_one(work, n, values=values, url=None, keep=keep))
        report["postgres"] = on_postgres(work, given.postgres) if given.postgres else []
    finally:
        if not keep:
            shutil.rmtree(work, ignore_errors=True)
        write_report(given.json, report)
    for name in ("trials", "values", "postgres"):
        if report.get(name):
            print(f"\n{name}\n\n{table(report[name], rows_of(report[name][0]))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
