"""The trials of a bulk ledger, for the adapters that write them into another system's database."""

import argparse
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def parse_arguments() -> argparse.Namespace:
    """The ledger and the study to read, and the database file to fill."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--study", default="bulk", help="its id")
    parser.add_argument("--database", type=Path, required=True)
    return parser.parse_args()


def trials_of(ledger: Path, study: str) -> Iterator[dict[str, Any]]:
    """number, state, value, started_at, ended_at, params, and the last value of each metric."""
    with sqlite3.connect(ledger) as source:
        query = (
            "SELECT t.id, t.number, t.state, t.value, t.started_at, t.ended_at, c.params "
            "FROM trials t JOIN candidates c ON c.id = t.candidate_id "
            "WHERE t.study_id = ? AND t.ended_at IS NOT NULL ORDER BY t.number"
        )
        for trial, number, state, value, started, ended, params in source.execute(query, (study,)):
            said = "SELECT metric, value FROM latest_values WHERE trial_id = ? ORDER BY metric"
            yield {
                "number": number,
                "state": state,
                "value": value,
                "started_at": started,
                "ended_at": ended,
                "params": json.loads(params),
                "metrics": {name: float(text) for name, text in source.execute(said, (trial,))},
            }
