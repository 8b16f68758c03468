"""Writes a bulk ledger's trials into MLflow's SQLite database, as rows: its own interface would
take an hour. Parameters are text there, as MLflow keeps them."""

import sqlite3
from typing import Any

from ledger_trials import parse_arguments, trials_of
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

EXPERIMENT = 1
STATES = {"complete": "FINISHED", "pruned": "KILLED", "failed": "FAILED"}
INSERTS = {
    "runs": "INSERT INTO runs (run_uuid, name, source_type, source_name, entry_point_name, "
    "user_id, status, start_time, end_time, source_version, lifecycle_stage, artifact_uri, "
    "experiment_id) VALUES (?, ?, 'UNKNOWN', '', '', 'bench', ?, ?, ?, '', 'active', ?, ?)",
    "params": "INSERT INTO params (key, value, run_uuid) VALUES (?, ?, ?)",
    "metrics": "INSERT INTO metrics (key, value, timestamp, run_uuid, step, is_nan) "
    "VALUES (?, ?, ?, ?, 0, 0)",
    "latest": "INSERT INTO latest_metrics (key, value, timestamp, step, is_nan, run_uuid) "
    "VALUES (?, ?, ?, 0, 0, ?)",
    "tags": "INSERT INTO tags (key, value, run_uuid) VALUES (?, ?, ?)",
}


def main() -> None:
    given = parse_arguments()
    store = SqlAlchemyStore(
        f"sqlite:///{given.database}", str(given.database.parent / "artifacts")
    )
    if store.create_experiment("bulk") != str(EXPERIMENT):
        raise SystemExit("the database was not empty")
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in INSERTS}
    for trial in trials_of(given.ledger, given.study):
        run, name = f"{trial['number']:032x}", f"trial-{trial['number']}"
        begin, end = (int(trial[at] * 1000) for at in ("started_at", "ended_at"))
        where = f"{given.database.parent}/artifacts/{run}"
        state = STATES[trial["state"]]
        rows["runs"].append((run, name, state, begin, end, where, EXPERIMENT))
        rows["params"] += [(key, str(value), run) for key, value in trial["params"].items()]
        said = dict(trial["metrics"])
        if trial["value"] is not None:
            said["score"] = trial["value"]
        rows["metrics"] += [(key, value, end, run) for key, value in said.items()]
        rows["latest"] += [(key, value, end, run) for key, value in said.items()]
        rows["tags"].append(("mlflow.runName", name, run))
    with sqlite3.connect(given.database) as database:
        for table, insert in INSERTS.items():
            database.executemany(insert, rows[table])


main()
