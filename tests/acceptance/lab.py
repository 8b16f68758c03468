"""One small ARL to break: a home, studies of shell programs, workers that may be killed.

Every test that uses it ends with the promises being checked, whatever it did in between.
"""

import json
import logging
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import select

from controller.wiring import Service
from controller.worker.loop import Callbacks, Worker
from ledger import reads, writes
from ledger.records import Attempt, CommandVerb, EntryRecord, Json, Study, Trial
from ledger.rows import ATTEMPTS, TRIALS, attempt_from, trial_from
from targets import layout
from tests.acceptance import forked, promises, shell_study
from tests.acceptance.witness import attempt_processes
from tests.target_runs import end_supervisor, is_alive, wait_until

NOTE = 'echo "$ARL_ATTEMPT" >> "${ARL_OUTPUT%/.arl/*}/ran"; '
"""A program writes down that it was started, in the lab's base directory."""
READ_X = 'IFS= read -r d < "$ARL_PARAMS"; x=${d#*\\"x\\": }; x=${x%%[,\\}]*}; '
SAVE = 'mkdir "$ARL_OUTPUT/model"; echo "$x" > "$ARL_OUTPUT/model/x"; '
SCORE = 'echo "{\\"metrics\\": {\\"score\\": $x}}" >&3; '

CHOICES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.05]
GRID: Mapping[str, Any] = {
    "space": {"x": {"type": "categorical", "choices": CHOICES, "default": 0.05}},
    "proposer": {"name": "grid"},
}


def cases(behaviours: Mapping[float, str]) -> str:
    """Shell code that does something else for some values of x."""
    arms = "".join(f"{value:g}) {code} ;; " for value, code in behaviours.items())
    return f'case "$x" in {arms}esac; ' if arms else ""


def train(behaviours: Mapping[float, str] | None = None, *, every: str = "") -> dict[str, Any]:
    """The `program` section: saves x as its model after what `behaviours` says for its x."""
    script = READ_X + NOTE + every + cases(behaviours or {}) + SAVE
    return {"kind": "command", "argv": ["/bin/sh", "-c", script]}


def evaluate(behaviours: Mapping[float, str] | None = None, **more: Any) -> dict[str, Any]:
    """The `evaluator` section: scores x after what `behaviours` says for its x."""
    script = NOTE + 'read -r x < "$ARL_INPUTS/artifact/x"; ' + cases(behaviours or {}) + SCORE
    return {
        "bundle": "./evaluator",
        "argv": ["/bin/sh", "-c", script],
        "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
        "metrics": {"score": {"low": 0, "high": 1, "resolution": 0.001}},
        **more,
    }


class WorkerProcess:
    """A worker in a process of its own."""

    def __init__(self, pid: int, output: Path) -> None:
        self.pid = pid
        self.output = output
        self.code: int | None = None

    def signal(self, number: int) -> None:
        if self.code is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """`kill -9`, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        self.join()

    def join(self, patience_s: float = 60.0) -> int:
        if self.code is None:
            self.code = forked.join(self.pid, patience_s)
        return self.code

    def ended(self) -> bool:
        if self.code is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def is_stopped(self) -> bool:
        """By SIGSTOP."""
        if self.ended():
            return False
        stat = Path(f"/proc/{self.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def said(self) -> str:
        return self.output.read_text() if self.output.exists() else ""


class Lab:
    def __init__(self, base: Path) -> None:
        self.base = base
        self.home = base / ".arl"
        self.environment: dict[str, str] = {}
        """Settings (ARL_…) for everything opened from now on."""
        self.tolerated = ""
        """A pattern of log lines that would otherwise be a failure."""
        self.expects_ends = True
        """Whether every study must have come to its end when the test is over."""
        self._workers: list[WorkerProcess] = []

    # --- doing ---------------------------------------------------------------------------------

    @contextmanager
    def service(self) -> Iterator[Service]:
        opened = shell_study.open_service(self.base, **self.environment)
        try:
            yield opened
        finally:
            opened.close()

    def submit(self, **changes: Any) -> str:
        """Submit the shell study with some of its top-level keys replaced; its id."""
        defaults = {**GRID, "program": train(), "evaluator": evaluate(), "noise": {}}
        if "promotion" not in changes:
            defaults["noise"] = {"baseline_trials": 2}
        with self.service() as service:
            return shell_study.submit(service, self.base, **{**defaults, **changes})

    def drive(self, *study_ids: str, on_tick: Callable[[Any], None] | None = None) -> Study:
        """Run a worker here until the studies have ended; the last of them."""
        with self.service() as service:
            callbacks = Callbacks(on_tick=on_tick) if on_tick is not None else None
            Worker(service, callbacks).run(only=study_ids)
        return self.study(study_ids[-1])

    def run(self, **changes: Any) -> Study:
        """Submit and drive."""
        return self.drive(self.submit(**changes))

    def worker(self, *study_ids: str, **environment: str) -> WorkerProcess:
        """Start a worker process for these studies."""
        output = self.base / f"worker-{len(self._workers)}"

        def work() -> None:
            logging.basicConfig(level=logging.WARNING, force=True)
            service = shell_study.open_service(self.base, **{**self.environment, **environment})
            Worker(service).run(only=study_ids or None)
            service.close()

        started = WorkerProcess(forked.fork(work, output), output)
        self._workers.append(started)
        return started

    def ask(self, study_id: str, verb: CommandVerb, **arguments: Json) -> int:
        """Insert a command, as the command line and the service do."""
        with self.service() as service, service.ledger.write() as session:
            return writes.insert_command(session, study_id, verb, arguments, "operator")

    # --- looking -------------------------------------------------------------------------------

    def study(self, study_id: str) -> Study:
        with self.service() as service, service.ledger.read() as session:
            return reads.get_study(session, study_id)

    def trials(self, study_id: str, kind: str = "search") -> list[Trial]:
        query = select(TRIALS).where(TRIALS.c.study_id == study_id, TRIALS.c.kind == kind)
        with self.service() as service, service.ledger.read() as session:
            rows = session.connection.execute(query.order_by(TRIALS.c.number)).all()
            return [trial_from(row) for row in rows]

    def attempts(self, study_id: str) -> list[Attempt]:
        query = select(ATTEMPTS).where(ATTEMPTS.c.study_id == study_id)
        with self.service() as service, service.ledger.read() as session:
            rows = session.connection.execute(query.order_by(ATTEMPTS.c.created_at)).all()
            return [attempt_from(row) for row in rows]

    def params(self, study_id: str) -> list[dict[str, Any]]:
        """Of every search trial, in order."""
        with self.service() as service, service.ledger.read() as session:
            return [
                dict(reads.get_candidate(session, trial.candidate_id).params)
                for trial in self.trials(study_id)
            ]

    def entries(self, study_id: str, kind: str = "") -> list[EntryRecord]:
        with self.service() as service, service.ledger.read() as session:
            found = reads.list_entries(session, study_id, limit=1_000_000)
        return [entry for entry in found if kind in ("", entry.kind)]

    def ran(self) -> list[str]:
        """Names of the attempts whose programs were started, as they wrote them down."""
        path = self.base / "ran"
        return path.read_text().split() if path.exists() else []

    def record(self, name: str) -> dict[str, Any]:
        """What the supervisor wrote down of an attempt."""
        return layout.read_record(str(self.home / "local" / "attempts" / name)) or {}

    def program_pid(self, name: str) -> int:
        """Of a running attempt; waits for it to start."""
        wait_until(lambda: "program" in self.record(name), f"{name} starts", 20.0)
        pid: int = self.record(name)["program"][0]
        return pid

    def wait_for(self, condition: Callable[[], Any], what: str, patience_s: float = 30.0) -> None:
        wait_until(condition, what, patience_s)

    def wait_for_line(self, name: str, patience_s: float = 30.0) -> None:
        """Until an attempt's program has written down that it runs."""
        wait_until(lambda: name in self.ran(), f"{name} runs", patience_s)

    # --- the end -------------------------------------------------------------------------------

    def broken(self) -> list[str]:
        """Every promise that is not kept now."""
        with self.service() as service:
            witness = shell_study.witness(service)
            ended = self.expects_ends
            found = promises.broken(witness, self.ran(), ended=ended)
            return found + shell_study.own_findings(service, ended=ended)

    def tally(self) -> dict[str, int]:
        """How many breaches of each promise the judges find now, for a row of figures."""
        found = Counter(line.partition(":")[0] for line in self.broken())
        return {
            "lost": found["L"],
            "duplicated": found["D"],
            "overrun": found["B"],
            "broken": found.total(),
        }

    def complaints(self) -> list[str]:
        """What worker processes said that no test expected."""
        lines = [line for worker in self._workers for line in worker.said().splitlines()]
        bad = [x for x in lines if re.search(r"Traceback|unexpected error|Error:", x)]
        return [x for x in bad if not (self.tolerated and re.search(self.tolerated, x))]

    def close(self) -> None:
        """End every process that the test started."""
        for worker in self._workers:
            if worker.code is None:
                worker.signal(signal.SIGCONT)
                worker.kill()
        end_supervisor(self.home / "local")

    def left_running(self) -> list[tuple[int, str]]:
        """Processes of attempts that outlive even the supervisor."""
        until = time.monotonic() + 5.0
        while found := list(attempt_processes(self.base)):
            if time.monotonic() > until:
                return [(pid, name) for pid, name in found if is_alive(pid)]
            time.sleep(0.02)
        return []


def score_line(metrics: Mapping[str, Any]) -> str:
    """Shell code that writes one score document and leaves."""
    text = json.dumps({"metrics": metrics}).replace('"', '\\"')
    return f'echo "{text}" >&3; exit 0'


def reasons(trials: Sequence[Trial]) -> list[str]:
    return [str(trial.reason) for trial in trials]
