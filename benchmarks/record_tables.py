"""Record tables of real training runs: settings, held-out curve, seconds.

    python -m benchmarks.record_tables sft dpo_lora grpo_lora [--points 64] [--repeated 32]
    python -m benchmarks.record_tables sft dpo_lora grpo_lora --from 64 [--points 64]

Every row is one run of the demo's task with TRL in this process. The points are those of a
scrambled Sobol sequence over the table's space (`benchmarks/table_spaces.py`), the same ones
each time. All run with seed 0, then the first `--repeated` of them with seed 1, which tells the
noise. `benchmarks/tables/NAME.json` is written after each row: a recording that was stopped goes
on where it was. With `--from N` it is the points from number N on, once each, into
NAME_from_N.json: more curves for pruning to be measured on.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.table_spaces import SPACES, from_cube
from ledger.records import Params
from proposers.search_space import describe, describe_conditions

FOLDER: Final = Path(__file__).parent / "tables"
DESIGN_SEED: Final = 20_26
PACKAGES: Final = ("torch", "trl", "transformers", "peft", "accelerate", "datasets")


def design(table: str, points: int) -> list[Params]:
    """The first points; more of them begin with the same ones."""
    from scipy.stats import qmc

    space = SPACES[table]
    cube = qmc.Sobol(len(space), scramble=True, rng=DESIGN_SEED).random(points)
    return [from_cube(space, [float(share) for share in row]) for row in cube]


def heading(table: str, rows: Sequence[dict[str, Any]], *, start: int) -> dict[str, Any]:
    """Everything about the table but its rows."""
    from benchmarks.table_runs import CHECKPOINTS, HELD_OUT, STEPS

    points = len({row["point"] for row in rows})
    runs = f"--from {start}" if start else f"--repeated {len(rows) - points}"
    return {
        "name": table,
        "command": f"python -m benchmarks.record_tables {table} --points {points} {runs}",
        "task": "python -m inner_trials.demo_task DIRECTORY --seed 0",
        "objective": f"share of {HELD_OUT[table]} held-out items answered exactly; maximize",
        "steps": STEPS[table],
        "checkpoints": CHECKPOINTS,
        "design": f"scrambled Sobol, seed {DESIGN_SEED}, {points} points"
        + (f" from number {start} on" if start else ""),
        "space": {
            name: describe(distribution)
            + (f" when {describe_conditions(distribution.when)}" if distribution.when else "")
            for name, distribution in SPACES[table].items()
        },
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": 1,
        "seconds": "wall time of the training alone, beside other work",
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
    }


def read_rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path.exists() else []
    return rows


def write_table(path: Path, head: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    """One row a line, so that a new row is a new line; whole or not at all."""
    start = json.dumps(head, indent=1).removesuffix("\n}")
    lines = ",\n".join(json.dumps(row) for row in rows)
    draft = path.with_suffix(".draft")
    draft.write_text(f'{start},\n "rows": [\n{lines}\n]}}\n')
    draft.replace(path)


def record(table: str, laboratory: Any, *, points: int, repeated: int, start: int = 0) -> None:
    path = FOLDER / (f"{table}_from_{start}.json" if start else f"{table}.json")
    rows = read_rows(path)
    done = {(row["point"], row["seed"]) for row in rows}
    drawn = design(table, start + points)
    runs = [(point, drawn[point], 0) for point in range(start, start + points)]
    if not start:
        runs += [(point, params, 1) for point, params, _ in runs[:repeated]]
    for point, params, seed in runs:
        if (point, seed) in done:
            continue
        run = laboratory.run(table, params, seed)
        row = {"point": point, "seed": seed, "params": params}
        rows.append(row | {"curve": run.curve, "seconds": run.seconds})
        write_table(path, heading(table, rows, start=start), rows)
        print(path.stem, point, seed, run.curve[-1][1], run.seconds, flush=True)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.record_tables",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tables", nargs="+", choices=list(SPACES))
    parser.add_argument("--points", type=int, default=64)
    parser.add_argument("--repeated", type=int, default=32, help="points that run twice")
    parser.add_argument(
        "--from", dest="start", type=int, default=0, help="the points from this number on, once"
    )
    options = parser.parse_args(argv)
    # More threads are slower on a model this small, and give other last digits.
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["TQDM_DISABLE"] = os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"
    from benchmarks.table_runs import Laboratory
    from inner_trials.demo_task import write_task

    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder) / "task"
        write_task(task, seed=0)
        laboratory = Laboratory(task, Path(folder) / "trainers")
        for table in options.tables:
            record(
                table,
                laboratory,
                points=options.points,
                repeated=options.repeated,
                start=options.start,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
