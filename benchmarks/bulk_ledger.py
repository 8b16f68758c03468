"""Fills a ledger with a large study quickly: rows straight into the tables, with a chain of
entries that is long enough to page through but holds no more than what pages show.

    python -m benchmarks.bulk_ledger LEDGER.db --trials 20000
"""

import argparse
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from benchmarks.bulk_rows import BEGAN, Rows, Shape, entry_digest
from ledger.database import Ledger, open_ledger
from ledger.digests import canonical_json, json_digest
from ledger.tables import Base

TABLES = Base.metadata.tables
CHUNK = 2000


def spec_of(shape: Shape) -> dict[str, Any]:
    space: dict[str, Any] = {
        f"p{i}": {"type": "float", "low": 0.0, "high": 1.0} for i in range(shape.params - 2)
    }
    space["layers"] = {"type": "int", "low": 1, "high": 12}
    space["optimizer"] = {"type": "categorical", "choices": ["adam", "sgd", "lion"]}
    return {
        "name": shape.name,
        "objective": {"metric": "score", "direction": "maximize"},
        "objectives": [{"metric": "cost", "direction": "minimize"}],
        "space": space,
        "evaluator": {"metrics": {"score": {}, "cost": {}}},
        "program": {"kind": "command"},
    }


def fill(ledger: Ledger, shape: Shape) -> str:
    """Write the study; its id."""
    with ledger.write() as session:
        session.connection.execute(insert(TABLES["studies"]), [_study(shape)])
        session.connection.execute(insert(TABLES["budgets"]), list(_budgets(shape)))
    add_trials(ledger, shape)
    return shape.study_id


def add_trials(ledger: Ledger, shape: Shape) -> None:
    """The trials alone, of a study that is there."""
    rng = random.Random(shape.seed)  # the same study every time
    end = shape.first + shape.trials
    for start in range(shape.first, end, CHUNK):
        numbers = range(start, min(start + CHUNK, end))
        rows = Rows(shape, rng, numbers)
        with ledger.write() as session:
            for name, found in rows.tables.items():
                if found:
                    session.connection.execute(insert(TABLES[name]), found)


def _study(shape: Shape) -> dict[str, Any]:
    spec = spec_of(shape)
    head = shape.seq_of(shape.first + shape.trials)
    return {
        "id": shape.study_id,
        "name": shape.name,
        "state": "running" if shape.running else "completed",
        "reason": None,
        "detail": "",
        "spec": canonical_json(spec),
        "spec_digest": json_digest(spec),
        "bundle_digest": "b" * 64,
        "comparison": "c" * 64,
        "inputs": "{}",
        "secret": "5" * 64,
        "seed": shape.seed,
        "active_s": 1.0,
        "fence": 1,
        "head_seq": head,
        "head_digest": entry_digest(head),
        "created_at": BEGAN,
        "ended_at": None if shape.running else BEGAN + 10.0 * shape.trials,
    }


def _budgets(shape: Shape) -> Iterator[dict[str, Any]]:
    for resource, limit in (("trials", 2.0 * shape.trials), ("wall_s", None)):
        yield {
            "study_id": shape.study_id,
            "resource": resource,
            "amount_limit": limit,
            "spent": float(shape.trials),
            "reserved": 0.0,
            "overrun": 0.0,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ledger", type=Path)
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--study", default="bulk")
    given = parser.parse_args()
    began = time.monotonic()
    ledger = open_ledger(given.ledger, create=True)
    shape = Shape(study_id=given.study, name=given.study, trials=given.trials, steps=given.steps)
    fill(ledger, shape)
    ledger.close()
    print(f"{given.trials} trials in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
