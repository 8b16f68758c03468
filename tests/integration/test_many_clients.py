"""Clients and workers in numbers on PostgreSQL: every trial once, and not one error."""

import http.client
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from benchmarks.service_asking import Counted, complete_trials, run_clients, submit
from benchmarks.service_server import Server
from benchmarks.worker_processes import Workers, claims_after
from controller.settings import read_settings
from controller.wiring import build_service
from ledger.pools import seen_workers
from ledger.verify import verify_ledger
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

API = "/api/v1"
STUDY = f"{API}/studies/{{study}}"
READS = (f"{API}/studies", f"{API}/system", STUDY, f"{STUDY}/trials?limit=20")


class Reader(threading.Thread):
    """Somebody who looks at everything all the time."""

    def __init__(self, port: int, studies: list[str]) -> None:
        super().__init__()
        self._port = port
        self._studies = studies
        self.ending = threading.Event()
        self.errors: list[str] = []
        self.answers = 0

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            while not self.ending.wait(0.05):
                for study in self._studies:
                    self._look(connection, study)
        except OSError as error:
            self.errors.append(repr(error))
        finally:
            connection.close()

    def _look(self, connection: http.client.HTTPConnection, study: str) -> None:
        for path in READS:
            connection.request("GET", path.format(study=study))
            answer = connection.getresponse()
            found: Any = json.loads(answer.read())
            self.answers += 1
            if answer.status != 200:
                self.errors.append(f"{path}: {answer.status} {found}")


@pytest.mark.parametrize(
    ("clients", "workers", "studies", "trials"),
    [
        pytest.param(4, 2, 2, 8, id="some"),
        pytest.param(32, 8, 8, 60, id="32-clients-8-workers", marks=pytest.mark.slow),
    ],
)
def test_clients_and_workers_go_on_without_an_error(
    tmp_path: Path,
    postgres_server: PostgresServer,
    clients: int,
    workers: int,
    studies: int,
    trials: int,
) -> None:
    """`trials` of each study; the clients are spread over the studies."""
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        "ARL_HOME": str(home),
        "ARL_LEDGER": postgres_server.new_ledger_url(),
        "ARL_CPUS": "64",
    }
    each = clients // studies
    server = Server(home, "--no-worker", **environment)
    server.start()
    try:
        with Workers(workers, environment, home):
            wait_for_workers(environment, workers)  # before the first study comes
            names = [
                submit(server.port, trials=trials, clients=each, name=f"s{number}")
                for number in range(studies)
            ]
            reader = Reader(server.port, names)
            reader.start()
            counted = ask_all(server.port, names, clients=each, trials=trials)
            complete = [complete_trials(server.port, name, trials) for name in names]
            reader.ending.set()
            reader.join()
    finally:
        server.stop()
    assert [dict(one.errors) for one in counted] == [{}] * studies
    assert reader.errors == []
    assert reader.answers >= studies
    assert [one.told for one in counted] == complete == [trials] * studies
    said = (home / "workers.log").read_text()
    assert "Traceback" not in said
    assert "does not answer" not in said
    check_ledger(environment, names, workers)


def wait_for_workers(environment: dict[str, str], count: int) -> None:
    settings = read_settings(environment)
    service = build_service(settings, create=False)
    try:
        until = time.monotonic() + 60
        while True:
            with service.ledger.read() as session:
                if len(seen_workers(session, settings.lease_s)) >= count:
                    return
            assert time.monotonic() < until, "workers say that they are there"
            time.sleep(0.05)
    finally:
        service.close()


def ask_all(port: int, studies: list[str], *, clients: int, trials: int) -> list[Counted]:
    with ThreadPoolExecutor(len(studies)) as pool:
        running = [
            pool.submit(run_clients, port, study, clients=clients, trials=trials)
            for study in studies
        ]
        return [one.result() for one in running]


def check_ledger(environment: dict[str, str], studies: list[str], workers: int) -> None:
    """The chain, and that the work was spread."""
    service = build_service(read_settings(environment), create=False)
    try:
        assert verify_ledger(service.ledger, service.store) == []
        owners = claims_after(service, studies, 0.0)
    finally:
        service.close()
    assert len(owners) >= min(workers, 2), "several workers had studies"
