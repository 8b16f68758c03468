"""PostgreSQL cut off around its commits and killed again and again; a worker stopped in one."""

import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.worker import loop
from ledger.database import Ledger, WriteSession
from ledger.states import StudyState, TrialState
from tests.acceptance import figures
from tests.acceptance.cutting_proxy import CuttingProxy
from tests.acceptance.lab import Lab, WorkerProcess, train
from tests.acceptance.shell_study import witness
from tests.acceptance.witness import Witness
from tests.postgres_server import PostgresServer

PATIENT = {"retries": {"infrastructure": 100}, "stop": {"consecutive_failures": 100}}
AWAY = "does not answer|driven by another worker"


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[CuttingProxy]:
    with tempfile.TemporaryDirectory(prefix="arl-cut-") as folder:
        made = CuttingProxy(postgres_server.socket, Path(folder), seed=7)
        yield made
        made.close()


@pytest.mark.postgres
@pytest.mark.parametrize("trials", [6, pytest.param(120, marks=pytest.mark.slow)])
@pytest.mark.timeout(1200)
def test_a_commit_whose_answer_was_lost_is_read_again_and_not_repeated(
    lab: Lab,
    postgres_server: PostgresServer,
    proxy: CuttingProxy,
    monkeypatch: pytest.MonkeyPatch,
    trials: int,
) -> None:
    monkeypatch.setattr(loop, "LEDGER_RETRY_S", 0.02)
    lab.tolerated = AWAY
    direct = postgres_server.new_ledger_url()
    lab.environment["ARL_LEDGER"] = direct
    study_id = lab.submit(
        budget={"trials": trials},
        parallel=3,
        space={"x": {"type": "float", "low": 0.0, "high": 1.0, "default": 0.05}},
        proposer={"name": "random"},
        **PATIENT,
    )
    lab.environment["ARL_LEDGER"] = direct.replace(
        f"host={postgres_server.socket}", f"host={proxy.folder}"
    )

    def begin(_: object) -> None:
        proxy.one_in = 10 if trials < 100 else 4

    study = None
    while study is None or study.state is not StudyState.COMPLETED:
        with lab.service() as service:
            loop.Worker(service, loop.Callbacks(on_tick=begin)).run(only=[study_id])
        proxy.one_in = 0
        lab.environment["ARL_LEDGER"] = direct
        study = lab.study(study_id)
    assert [t.state for t in lab.trials(study_id)] == [TrialState.COMPLETE] * trials
    assert Counter(lab.ran()).most_common(1)[0][1] == 1
    assert min(proxy.cuts["before"], proxy.cuts["after"]) >= 1
    figures.publish(
        f"connections cut at COMMIT, {trials} trials",
        injected=proxy.cuts.total(),
        cuts=dict(proxy.cuts),
        **lab.tally(),
    )


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_postgresql_server_killed_over_and_over_costs_no_trial(
    lab: Lab, postgres_server: PostgresServer
) -> None:
    lab.tolerated = AWAY
    lab.environment["ARL_LEDGER"] = postgres_server.new_ledger_url()
    study_id = lab.submit(
        budget={"trials": 9}, parallel=2, program=train(every="sleep 0.5; "), **PATIENT
    )
    worker = lab.worker(study_id)
    back: list[float] = []
    while not worker.ended():
        time.sleep(0.7)
        postgres_server.stop("immediate")
        postgres_server.start()
        back.append(time.time())
    assert worker.join() == 0
    assert len(back) >= 3
    assert [t.state for t in lab.trials(study_id)] == [TrialState.COMPLETE] * 9
    with lab.service() as service:
        times = figures.recoveries(witness(service).facts(study_id), back)
    figures.publish(
        "PostgreSQL killed and started again",
        injected=len(back),
        **lab.tally(),
        **figures.spread(times),
    )


# --- stopped inside a commit -----------------------------------------------------------------


def stops_in_commit(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """A worker forked from now on stops itself just before one of its commits, its lock held."""
    write = Ledger.write
    parent, seen = os.getpid(), [0]

    @contextmanager
    def stopping(ledger: Ledger) -> Iterator[WriteSession]:
        with write(ledger) as session:
            yield session
            seen[0] += os.getpid() != parent
            if seen[0] == at:
                os.kill(os.getpid(), signal.SIGSTOP)

    monkeypatch.setattr(Ledger, "write", stopping)


def asleep(lab: Lab, worker: WorkerProcess) -> bool:
    lab.wait_for(lambda: worker.is_stopped() or worker.ended(), "it stops in a commit")
    return worker.is_stopped()


@pytest.mark.parametrize(
    "database", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)
@pytest.mark.slow
@pytest.mark.parametrize("at", [4, 9])
def test_a_worker_stopped_inside_a_commit_breaks_nothing_and_postgresql_cuts_it_off(
    lab: Lab,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    database: str,
    at: int,
) -> None:
    lab.tolerated = AWAY
    lab.environment["ARL_LEASE_S"] = "1"
    if database == "postgres":
        server = request.getfixturevalue("postgres_server")
        lab.environment["ARL_LEDGER"] = server.new_ledger_url()
    study_id = lab.submit(budget={"trials": 4}, program=train(every="sleep 0.1; "))
    with monkeypatch.context() as patched:
        stops_in_commit(patched, at)
        sleeper = lab.worker(study_id)
    assert asleep(lab, sleeper)
    other = lab.worker(study_id)
    time.sleep(3.0)  # past its lease
    address = lab.environment.get("ARL_LEDGER", str(lab.home / "ledger.db"))
    claims = [f for f in Witness(address, lab.home).facts() if f.kind == "worker_claimed"]
    held = database == "sqlite"
    assert (len(claims) <= 1) is held, "SQLite's lock is its process's; PostgreSQL ends it"
    sleeper.signal(signal.SIGCONT)
    assert other.join() == 0
    assert sleeper.join() == 0
    assert lab.study(study_id).state is StudyState.COMPLETED
    assert [t.state for t in lab.trials(study_id)] == [TrialState.COMPLETE] * 4
    assert Counter(lab.ran()).most_common(1)[0][1] == 1
