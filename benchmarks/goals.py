"""The whole table of goals: every benchmark, one after the other, and what its figures say.

    python -m benchmarks.goals [PART ...] [--quick] [--page FILE] [--record FILE]

Each part is a command of its own (benchmarks/goal_parts.py), whose figures go to
`benchmarks/results/PART.json` and whose log beside them. Its rows replace that part's in the
record (docs/performance.json), and the table in the page (docs/performance.md) is written again
from the record: so parts can be measured on different days, and the table says when and under what
load. `--quick` tries everything in minutes and changes neither. Exit status 1: a part failed.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.goal_parts import BY_NAME, PARTS, Part
from benchmarks.goal_row import Row
from benchmarks.goal_rows import ROWS
from benchmarks.noop import ROOT

RESULTS: Final = ROOT / "benchmarks" / "results"
RECORD: Final = ROOT / "docs" / "performance.json"
PAGE: Final = ROOT / "docs" / "performance.md"
BEGIN: Final = "<!-- goals: written by python -m benchmarks.goals -->"
END: Final = "<!-- end of goals -->"
VERDICTS: Final = {True: "met", False: "**missed**", None: ""}


def pace_ms() -> float:
    """The median time of a fixed computation: how fast the machine is just now, which its load
    does not tell where it shares its cores with others."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        sum(number * number for number in range(500_000))
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)


def measure(part: Part, results: Path, *, quick: bool) -> dict[str, Any]:
    """Run it; when, how long, under what load, and its rows. Raises RuntimeError."""
    path, log = results / f"{part.name}.json", results / f"{part.name}.log"
    options = part.quick if quick else part.whole
    argv = [sys.executable, "-m", f"benchmarks.{part.module}", *options, "--json", str(path)]
    path.unlink(missing_ok=True)
    load, pace = os.getloadavg()[0], pace_ms()
    began, at = time.monotonic(), datetime.now(UTC)
    with log.open("wb") as output:
        done = subprocess.run(argv, cwd=ROOT, stdout=output, stderr=output, check=False)
    if done.returncode not in part.exits or not path.exists():
        tail = log.read_text(errors="replace").strip().splitlines()[-3:]
        raise RuntimeError(f"exit {done.returncode}, see {log}: " + " | ".join(tail))
    rows = ROWS[part.name](json.loads(path.read_text()))
    return {
        "at": f"{at:%Y-%m-%d %H:%M} UTC",
        "took_s": round(time.monotonic() - began),
        "load_before": round(load, 1),
        "pace_ms": [round(pace), round(pace_ms())],
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
        "command": " ".join(["python -m", f"benchmarks.{part.module}", *options]),
        "rows": [asdict(row) for row in rows],
    }


def line(row: Row) -> str:
    verdict = "" if row.is_met is None else "  met" if row.is_met else "  MISSED"
    return f"  {row.what}: {row.measured}" + (f" (goal: {row.goal})" if row.goal else "") + verdict


def table(record: Mapping[str, Any]) -> str:
    """Markdown: the rows of every part, in their order, and how each part was measured."""
    lines = ["| what | goal | measured | | others, in the same run |", "|---|---|---|---|---|"]
    for part in PARTS:
        for row in record.get(part.name, {}).get("rows", ()):
            cells = (row["what"], row["goal"], row["measured"], VERDICTS[row["is_met"]])
            shown = [str(cell).replace("|", "\\|") for cell in (*cells, row["peers"])]
            lines.append("| " + " | ".join(shown) + " |")
    lines += [
        "",
        "| part | measured | took | load before | pace, ms | machine | command |",
        "|---|---|---|---|---|---|---|",
    ]
    for part in PARTS:
        found = record.get(part.name)
        if found is None:
            lines.append(f"| {part.name} | never | | | | | |")
            continue
        cells = (part.name, found["at"], f"{found['took_s'] / 60:.1f} min", found["load_before"])
        pace = " and ".join(map(str, found.get("pace_ms", ())))
        told = [str(cell) for cell in (*cells, pace, found["machine"], f"`{found['command']}`")]
        lines.append("| " + " | ".join(told) + " |")
    return "\n".join(lines)


def write_page(page: Path, record: Mapping[str, Any]) -> None:
    """Put the table between its two marks. Raises ValueError without them."""
    text = page.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{page}: the marks {BEGIN!r} and {END!r} are not there once each")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{table(record)}\n{END}{after}")


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.goals", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("part", nargs="*", help=f"of {', '.join(BY_NAME)}; all without any")
    parser.add_argument(
        "--quick", action="store_true", help="minutes; says little, records nothing"
    )
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args(argv)
    if unknown := [name for name in given.part if name not in BY_NAME]:
        parser.error(f"{unknown[0]!r}: name a part, one of {', '.join(BY_NAME)}")
    chosen = [BY_NAME[name] for name in given.part] or list(PARTS)
    results = RESULTS / "quick" if given.quick else RESULTS
    results.mkdir(parents=True, exist_ok=True)
    failed = []
    for number, part in enumerate(chosen, 1):
        about = "a try" if given.quick else f"about {part.minutes} min when idle"
        print(f"{part.name} ({number} of {len(chosen)}, {about})", flush=True)
        try:
            found = measure(part, results, quick=given.quick)
        except RuntimeError as error:
            failed.append(part.name)
            print(f"  FAILED: {error}", flush=True)
            continue
        for row in found["rows"]:
            print(line(Row(**row)), flush=True)
        if not given.quick:
            record = json.loads(given.record.read_text()) if given.record.exists() else {}
            record[part.name] = found
            given.record.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
            write_page(given.page, record)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
