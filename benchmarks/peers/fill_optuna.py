"""Writes a bulk ledger's trials into Optuna's SQLite database, as rows: its own interface would
take minutes. The ten metrics become intermediate values at ten steps."""

import sqlite3
from datetime import UTC, datetime
from typing import Any

import optuna
from ledger_trials import parse_arguments, trials_of
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
)

STATES = {"complete": "COMPLETE", "pruned": "PRUNED", "failed": "FAIL"}
CHOICES = ["adam", "sgd", "lion"]
INSERTS = {
    "trials": "INSERT INTO trials (trial_id, number, study_id, state, datetime_start, "
    "datetime_complete) VALUES (?, ?, 1, ?, ?, ?)",
    "params": "INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json) "
    "VALUES (?, ?, ?, ?)",
    "values": "INSERT INTO trial_values (trial_id, objective, value, value_type) "
    "VALUES (?, 0, ?, 'FINITE')",
    "intermediate": "INSERT INTO trial_intermediate_values (trial_id, step, intermediate_value, "
    "intermediate_value_type) VALUES (?, ?, ?, 'FINITE')",
}


def distribution_of(name: str) -> BaseDistribution:
    if name == "optimizer":
        return CategoricalDistribution(CHOICES)
    return IntDistribution(1, 12) if name == "layers" else FloatDistribution(0.0, 1.0)


def main() -> None:
    given = parse_arguments()
    optuna.create_study(
        storage=f"sqlite:///{given.database}", study_name="bulk", direction="maximize"
    )
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in INSERTS}
    written: dict[str, str] = {}
    for trial in trials_of(given.ledger, given.study):
        key = trial["number"] + 1
        times = [datetime.fromtimestamp(trial[at], UTC) for at in ("started_at", "ended_at")]
        shown = [f"{moment:%Y-%m-%d %H:%M:%S.%f}" for moment in times]
        rows["trials"].append((key, trial["number"], STATES[trial["state"]], *shown))
        for name, value in trial["params"].items():
            told = written.setdefault(name, distribution_to_json(distribution_of(name)))
            stored = CHOICES.index(value) if name == "optimizer" else value
            rows["params"].append((key, name, float(stored), told))
        if trial["value"] is not None:
            rows["values"].append((key, trial["value"]))
        rows["intermediate"] += [(key, n, v) for n, v in enumerate(trial["metrics"].values())]
    with sqlite3.connect(given.database) as database:
        for name, insert in INSERTS.items():
            database.executemany(insert, rows[name])


main()
