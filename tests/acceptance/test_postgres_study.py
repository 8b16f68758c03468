"""The same straight line with PostgreSQL as the ledger, its server killed on the way included."""

import threading
from pathlib import Path

import pytest

from controller.worker.driver import StudyDriver
from controller.worker.loop import Callbacks
from ledger import reads
from ledger.states import StudyState
from ledger.verify import verify_ledger
from tests.acceptance.shell_study import drive, open_service, submit
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

PROMOTION = {"promotion": {"model": "toy", "profile": "quick"}, "noise": {}, "parallel": 2}


def test_a_study_is_promoted_on_postgresql(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    service = open_service(tmp_path, ARL_LEDGER=postgres_server.new_ledger_url())
    study_id = submit(service, tmp_path, **PROMOTION)
    study = drive(service, study_id)
    with service.ledger.read() as session:
        incumbent = reads.latest_incumbent(session, "toy")
    assert study.state is StudyState.COMPLETED
    assert incumbent is not None
    assert incumbent.study_id == study_id
    assert list(verify_ledger(service.ledger, service.store)) == []
    service.close()


def test_a_study_goes_on_after_its_postgresql_server_was_killed(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    service = open_service(tmp_path, ARL_LEDGER=postgres_server.new_ledger_url())
    study_id = submit(service, tmp_path, **PROMOTION)
    killed = threading.Event()

    def kill_the_server(driver: StudyDriver) -> None:
        if driver.view.finish_seq >= 6 and not killed.is_set():
            postgres_server.stop("immediate")
            postgres_server.start()
            killed.set()

    study = drive(service, study_id, Callbacks(on_tick=kill_the_server))
    assert killed.is_set()
    assert study.state is StudyState.COMPLETED
    assert list(verify_ledger(service.ledger, service.store)) == []
    service.close()
