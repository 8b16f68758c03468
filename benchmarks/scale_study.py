"""A study as it stands after a long life: begun by `arl run`, killed, and given a past in bulk.

Its rows are true to the tables, so that `arl serve` shows it and `arl resume` goes on with it; its
chain is made up and verifies nowhere.
"""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text

from benchmarks.bulk_ledger import add_trials, spec_of
from benchmarks.bulk_rows import Shape, entry_digest
from benchmarks.noop_arl import ARL, write_study
from ledger.database import ledger_url, open_ledger

NAME = "bulk"
FIRST = 20
"""Search trials that the study really runs before it is killed."""
PATIENCE_S = 60.0
_SCORE = """printf '{"metrics":{"score":0.5,"cost":1.0}}' >/dev/fd/$ARL_SCORE_FD\n"""


@dataclass(frozen=True, kw_only=True)
class Aged:
    """A home with one such study."""

    home: Path
    url: str
    study_id: str
    trials: int
    filled_s: float | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {"ARL_HOME": str(self.home), "ARL_LEDGER": self.url, "ARL_CPUS": "2"}


def age(
    folder: Path,
    *,
    trials: int,
    steps: int = 1,
    url: str | None = None,
    sections: Mapping[str, object] | None = None,
) -> Aged:
    """Make it, of so many trials with so many reports of ten metrics each; one that lies in the
    folder already is taken as it is."""
    home = folder / "home"
    where = url or f"sqlite:///{home / 'ledger.db'}"
    if (home / "ledger.db").exists():
        shutil.rmtree(home / "columns", ignore_errors=True)
        return Aged(home=home, url=where, study_id=_study_in(where), trials=trials)
    home.mkdir(parents=True)
    path = write_study(folder, trials=1, parallel=1, sections=_sections(trials, sections))
    (folder / "bundle" / "score.sh").write_text(_SCORE)
    _begin(path, {"ARL_HOME": str(home), "ARL_LEDGER": where, "ARL_CPUS": "2"}, where)
    began = time.monotonic()
    study_id = _add_past(where, trials, steps)
    return Aged(
        home=home,
        url=where,
        study_id=study_id,
        trials=trials,
        filled_s=time.monotonic() - began,
    )


def _sections(trials: int, sections: Mapping[str, object] | None) -> dict[str, Any]:
    like = spec_of(Shape())
    return {
        "name": NAME,
        "objectives": like["objectives"],
        "space": like["space"],
        "parallel": 2,
        "budget": {"trials": 2 * trials + 10 * FIRST},
        "proposer": {"name": "random"},
        "evaluator": {
            "bundle": "bundle",
            "argv": ["/bin/sh", "{bundle}/score.sh"],
            "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
            "metrics": {"score": {"low": -10.0, "high": 10.0}, "cost": {"low": -10.0}},
            "requires_model": False,
        },
        **(sections or {}),
    }


def _begin(study: Path, environment: Mapping[str, str], url: str) -> None:
    """`arl run`, killed once some trials ended."""
    log = study.parent / "begin.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(ARL), "run", str(study), "--json"],
            env={**os.environ, **environment},
            stdout=output,
            stderr=output,
        )
        deadline = time.monotonic() + PATIENCE_S
        while process.poll() is None and time.monotonic() < deadline and _ended(url) < FIRST:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
    if _ended(url) < FIRST:
        raise RuntimeError(f"the study does not run:\n{log.read_text(errors='replace')[-2000:]}")


def _study_in(url: str) -> str:
    engine = create_engine(ledger_url(url))
    with engine.connect() as connection:
        query = text("SELECT id FROM studies WHERE name = :name")
        found = connection.execute(query, {"name": NAME}).scalar_one()
    engine.dispose()
    return str(found)


def _ended(url: str) -> int:
    engine = create_engine(ledger_url(url))
    try:
        with contextlib.suppress(Exception), engine.connect() as connection:
            found = connection.execute(text("SELECT max(finish_seq) FROM trials")).scalar()
            return int(found or 0)
        return 0
    finally:
        engine.dispose()


def _add_past(url: str, trials: int, steps: int) -> str:
    """The bulk, behind what the study did; its head and its budgets follow."""
    ledger = open_ledger(url, create=False)
    try:
        with ledger.read() as session:
            run = session.connection.execute
            study, head = run(text("SELECT id, head_seq FROM studies")).one()
            last, ended = run(text("SELECT max(number), max(finish_seq) FROM trials")).one()
        shape = Shape(
            study_id=study,
            name=NAME,
            trials=trials,
            steps=steps,
            first=last + 1,
            ended=ended,
            head_seq=head,
        )
        add_trials(ledger, shape)
        head = shape.seq_of(last + 1 + trials)
        with ledger.write() as session:
            run = session.connection.execute
            told = {"seq": head, "digest": entry_digest(head), "trials": trials}
            run(text("UPDATE studies SET head_seq = :seq, head_digest = :digest"), told)
            run(text("UPDATE budgets SET spent = spent + :trials WHERE resource='trials'"), told)
    finally:
        ledger.close()
    return str(study)


def sizes(home: Path) -> dict[str, Any]:
    """Bytes of the ledger's file, its tables and its indices; of SQLite alone."""
    path = home / "ledger.db"
    found: dict[str, Any] = {"file": path.stat().st_size}
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        with contextlib.suppress(sqlite3.OperationalError):  # built without dbstat
            rows = database.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY 1 ORDER BY 2")
            found["tables"] = json.loads(json.dumps(dict(rows.fetchall())))
    return found
