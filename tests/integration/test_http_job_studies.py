"""Whole studies over the job protocol: undisturbed, through a network that flaps, and killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from ledger.records import AttemptKind
from ledger.rows import ATTEMPTS
from ledger.states import Reason, StudyState
from tests.acceptance.shell_study import drive
from tests.http_faults import FAULTS, FlappingProxy
from tests.http_runs import BRIEF, QUICK, ROOT, SECRET, SECRET_NAME, JobServer, job_server
from tests.http_studies import broken, open_service, ran, results, submit_remote, values_of
from tests.target_runs import end_supervisor, wait_until

SEARCH = {"budget": {"trials": 5}, "noise": {"baseline_trials": 2}}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobServer]:
    monkeypatch.setenv(SECRET_NAME, SECRET)
    monkeypatch.setattr("targets.http_job.client.Patience", lambda: QUICK)
    monkeypatch.setattr("targets.http_job.target.Patience", lambda: QUICK)
    with job_server(tmp_path / "service") as running:
        yield running


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "home"
    path.mkdir()
    yield path
    end_supervisor(path / ".arl" / "local")


def attempts_of(service: Any) -> list[Any]:
    with service.ledger.read() as session:
        columns = (ATTEMPTS.c.id, ATTEMPTS.c.kind, ATTEMPTS.c.target, ATTEMPTS.c.state)
        return list(session.connection.execute(select(*columns)))


def test_a_study_trains_over_http_and_evaluates_in_the_sandbox_of_this_machine(
    server: JobServer, home: Path
) -> None:
    service = open_service(home)
    study_id = submit_remote(service, home, server.url, **SEARCH)
    study = drive(service, study_id)
    assert (study.state, study.reason) == (StudyState.COMPLETED, Reason.BUDGET_TRIALS)
    places = {
        kind: {a.target for a in attempts_of(service) if a.kind == kind} for kind in AttemptKind
    }
    assert places[AttemptKind.TRAIN] == {"http"}
    assert places[AttemptKind.EVALUATE] == {"local"}
    assert set(values_of(service, study_id).values()) == {3}
    assert broken(service, study_id, ran(home)) == []
    service.cleaner.close()
    assert list((server.root / "local" / "attempts").iterdir()) == []
    service.close()


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))]
)
def test_a_flapping_network_loses_no_trial_and_doubles_none(
    server: JobServer, home: Path, tmp_path: Path, seed: int
) -> None:
    """L D B R I O: and every number is that of a run over a good network."""
    service = open_service(home)
    proxy = FlappingProxy(server.url, seed=seed, rate=0.35)
    try:
        study_id = submit_remote(service, home, proxy.url, parallel=1, **SEARCH)
        study = drive(service, study_id)
    finally:
        proxy.calm()
    assert study.state is StudyState.COMPLETED
    assert broken(service, study_id, ran(home)) == []
    assert set(values_of(service, study_id).values()) == {3}
    faults = sum(count for name, count in proxy.done.items() if name != "none")
    assert faults > 5, proxy.done
    calm = open_service(other := tmp_path / "calm")
    other.mkdir(exist_ok=True)
    reference = submit_remote(calm, other, server.url, parallel=1, **SEARCH)
    drive(calm, reference)
    flapped, undisturbed = results(service, study_id), results(calm, reference)
    for part in ("trials", "params"):
        assert without_ids(flapped[part]) == without_ids(undisturbed[part])
    for used in (service, calm):
        used.close()
    end_supervisor(other / ".arl" / "local")
    proxy.close()


def without_ids(rows: list[Any]) -> list[Any]:
    """Candidates' ids hold their study's."""
    return [row[:-1] if isinstance(row, list) else row for row in rows]


OFTEN = ("tampered", "truncated", "error_500", "reset_in_body")
"""Tried by every run; the others take their time-outs, and are slow."""


@pytest.mark.parametrize(
    "fault", [f if f in OFTEN else pytest.param(f, marks=pytest.mark.slow) for f in FAULTS]
)
def test_every_fault_by_itself_is_survived(server: JobServer, home: Path, fault: str) -> None:
    service = open_service(home)
    proxy = FlappingProxy(server.url, seed=7, rate=0.25, faults=(fault,))
    try:
        study_id = submit_remote(service, home, proxy.url, budget={"trials": 1})
        study = drive(service, study_id)
    finally:
        proxy.calm()
    assert study.state is StudyState.COMPLETED
    assert proxy.done[fault] > 0
    assert broken(service, study_id, ran(home)) == []
    service.close()
    proxy.close()


def test_a_service_that_is_killed_again_and_again_loses_no_trial(
    server: JobServer, home: Path
) -> None:
    service = open_service(home)
    study_id = submit_remote(service, home, server.url, parallel=2, sleep_s=0.7, **SEARCH)
    import threading

    stopped = threading.Event()

    def torment() -> None:
        while not stopped.wait(1.0):
            server.kill()
            time.sleep(0.3)
            server.start()

    thread = threading.Thread(target=torment)
    thread.start()
    try:
        study = drive(service, study_id)
    finally:
        stopped.set()
        thread.join()
    assert study.state is StudyState.COMPLETED
    assert broken(service, study_id, ran(home)) == []
    assert set(values_of(service, study_id).values()) == {3}
    service.close()


def test_a_service_that_is_away_pauses_the_study_which_goes_on_by_itself(
    server: JobServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("targets.http_job.client.Patience", lambda: BRIEF)
    service = open_service(home)
    study_id = submit_remote(service, home, server.url, budget={"trials": 2})
    server.kill()

    def start_once_paused() -> None:
        wait_until(lambda: away_moves(service, study_id), "the study is paused", 60.0)
        server.start()

    starter = threading.Thread(target=start_once_paused)
    starter.start()
    study = drive(service, study_id)
    starter.join()
    assert study.state is StudyState.COMPLETED
    moves = away_moves(service, study_id)
    assert "is away" in str(moves[0]["detail"])
    assert broken(service, study_id, ran(home)) == []
    service.close()


def away_moves(service: Any, study_id: str) -> list[Any]:
    return [
        facts
        for kind, facts in facts_of(service, study_id)
        if kind == "study_moved" and facts["reason"] == Reason.TARGET_UNAVAILABLE
    ]


def facts_of(service: Any, study_id: str) -> list[tuple[str, Any]]:
    from tests.acceptance.shell_study import facts

    return facts(service, study_id)


CONTROLLER = """
import sys
from pathlib import Path
from tests.acceptance.shell_study import drive
from tests.http_studies import open_service
service = open_service(Path(sys.argv[1]))
drive(service, sys.argv[2])
"""


def test_a_controller_that_is_killed_finds_its_attempts_again(
    server: JobServer, home: Path
) -> None:
    service = open_service(home)
    study_id = submit_remote(service, home, server.url, sleep_s=1.0, budget={"trials": 2})
    service.close()
    for known in (1, 2):
        controller = subprocess.Popen(
            [sys.executable, "-c", CONTROLLER, str(home), study_id],
            cwd=ROOT,
            env={**os.environ, SECRET_NAME: SECRET, "PYTHONPATH": str(ROOT)},
        )
        wait_until(lambda n=known: len(ran(home)) >= n, "an attempt runs", patience_s=60.0)
        time.sleep(0.3)
        controller.send_signal(signal.SIGKILL)
        controller.wait()
    again = open_service(home)
    study = drive(again, study_id)
    assert study.state is StudyState.COMPLETED
    assert broken(again, study_id, ran(home)) == []
    assert len(ran(home)) == 4  # two baselines and two trials, each started once
    again.close()
