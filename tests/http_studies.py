"""Studies that train on a job service and evaluate in a sandbox of this machine."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from controller.wiring import Service
from ledger import reads
from tests.acceptance import promises
from tests.acceptance.shell_study import TRAIN, open_service, own_findings, submit, witness
from tests.http_runs import SECRET_NAME

STEPS = (
    'for i in 1 2 3; do echo "{\\"step\\": $i, \\"metric\\": \\"loss\\", \\"value\\": 0.$i}"; done'
)


def training(ran: Path, *, sleep_s: float = 0.0) -> dict[str, Any]:
    """A program that writes down that it started, reports, and leaves its parameters."""
    script = f'echo "$ARL_ATTEMPT" >> {ran}; {STEPS} >> "$ARL_REPORTS"; sleep {sleep_s}; {TRAIN}'
    return {"kind": "command", "argv": ["/bin/sh", "-c", script]}


def submit_remote(service: Service, base: Path, url: str, **changes: Any) -> str:
    """`changes` as for shell_study.document; `machine` and `sleep_s` are ours."""
    target = {"name": "http", "url": url, "secret": SECRET_NAME}
    if "machine" in changes:
        target["machine"] = changes.pop("machine")
    program = training(base / "ran", sleep_s=changes.pop("sleep_s", 0.0))
    return submit(service, base, target=target, program=program, **changes)


def ran(base: Path) -> list[str]:
    """Attempts that wrote down that they started, and evaluations, which say nothing."""
    path = base / "ran"
    return path.read_text().split() if path.exists() else []


def broken(service: Service, study_id: str, started: Sequence[str]) -> list[str]:
    del study_id  # all studies of the ledger are judged
    deleted = threading.Event()
    service.cleaner.run(deleted.set)  # it deletes beside the loop
    assert deleted.wait(timeout=60)
    return [*promises.broken(witness(service), started), *own_findings(service)]


def results(service: Service, study_id: str) -> dict[str, Any]:
    """What an undisturbed run of the same study gives too: everything but ids of time."""
    return promises.outcome(witness(service), study_id)


def values_of(service: Service, study_id: str) -> dict[str, int]:
    """How many reported values the ledger has of each trial."""
    with service.ledger.read() as session:
        entries = reads.list_entries(session, study_id, limit=100_000)
    counts: dict[str, int] = {}
    for entry in entries:
        if entry.kind == "values_reported":
            trial = str(entry.payload["trial_id"])
            counts[trial] = counts.get(trial, 0) + int(str(entry.payload["count"]))
    return counts


__all__ = ["broken", "open_service", "ran", "results", "submit_remote", "training", "values_of"]
