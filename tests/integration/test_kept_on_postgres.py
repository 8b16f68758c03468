"""Retention, gc and the witness of a restored ledger, on PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from controller.spec.retention import parse_policy
from controller.wiring import Service, build_service
from controller.worker.releasing import find_released, release
from ledger.database import Ledger
from ledger.errors import LedgerRestored
from ledger.saved_reads import studies_with_checkpoints
from ledger.unneeded import Graces, discard, find_unneeded
from ledger.verify import verify_ledger
from tests.acceptance.shell_study import drive, settings, submit
from tests.target_runs import end_supervisor

pytestmark = pytest.mark.postgres
NOW = Graces(let_go_s=0.0, orphan_s=0.0)


@pytest.fixture
def service(postgres_ledger: Ledger, tmp_path: Path) -> Iterator[Service]:
    opened = build_service(settings(tmp_path, ARL_LEDGER=postgres_ledger.address), create=False)
    yield opened
    opened.close()
    end_supervisor(tmp_path / ".arl" / "local")


def test_what_is_not_kept_goes_and_the_ledger_stays_whole(
    service: Service, tmp_path: Path
) -> None:
    first = submit(service, tmp_path, name="own", retention={"checkpoints": "best-1"})
    second = submit(service, tmp_path, name="asked", space=OTHER)
    for study_id in (first, second):
        drive(service, study_id)
    with service.ledger.read() as session:
        assert set(studies_with_checkpoints(session)) == {first, second}
    wanted = parse_policy("none")
    wish, skipped = find_released(service, [second], wanted)
    done, driven = release(service, wish, wanted, "ann")
    assert (skipped, driven, [one.study_id for one in done]) == ([], [], [second])
    with service.ledger.read() as session:
        found = find_unneeded(session, service.store, orphans=True, graces=NOW)
    assert discard(service.store, found) > 0
    assert verify_ledger(service.ledger, service.store) == []


OTHER = {"x": {"type": "float", "low": 0.0, "high": 0.5, "default": 0.2}}


def test_a_ledger_put_back_is_noticed(service: Service, tmp_path: Path) -> None:
    submit(service, tmp_path)
    service.witness.close()
    with service.ledger.write() as session:  # as a dump of an hour ago has it
        session.connection.execute(text("UPDATE studies SET head_seq = 0"))
    with pytest.raises(LedgerRestored, match="holds 0 entries and held 1 before"):
        build_service(service.settings, create=False)
