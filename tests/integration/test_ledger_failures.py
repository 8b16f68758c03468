"""A full disk, a damaged file and a lost server are told apart, and nothing is half written."""

import os
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import event

from ledger import reads, writes
from ledger.database import Ledger, open_ledger
from ledger.errors import Conflict, DiskFull, InvalidInput, LedgerUnavailable
from ledger.verify import verify_ledger
from tests.ledger_builders import driven
from tests.postgres_server import PostgresServer, find_binaries, private_server


def test_a_full_disk_is_said_and_survived(sqlite_ledger: Ledger) -> None:
    """SQLite's own page limit gives the very error that a full file system gives."""
    study = driven(sqlite_ledger)
    study.whole_trial(0, 1.0)
    with sqlite_ledger.read() as session:
        engine = session.connection.engine
        pages = session.connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    pool = engine.pool
    pool.dispose()

    def limit(connection: sqlite3.Connection, _record: object, _proxy: object) -> None:
        connection.execute(f"PRAGMA max_page_count={pages + 5}")

    def free(connection: sqlite3.Connection, _record: object, _proxy: object) -> None:
        connection.execute("PRAGMA max_page_count=1000000")

    event.listen(pool, "checkout", limit)
    written: list[int] = []

    def fill_up() -> None:
        for number in range(1, 500):
            study.whole_trial(number, 1.0)
            written.append(number)

    with pytest.raises(DiskFull, match="no space is left"):
        fill_up()
    event.listen(pool, "checkout", free)
    assert verify_ledger(sqlite_ledger, None) == []
    with sqlite_ledger.read() as session:
        complete = [t for t in reads.load_live(session, "s1").finished if t.value == 1.0]
    assert len(complete) == len(written) + 1
    study.record(study.proposed(900))


def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = open_ledger(path, create=True)
    study = driven(ledger)
    for number in range(20):
        study.whole_trial(number, 1.0)
    ledger.close()
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw.close()
    data = bytearray(path.read_bytes())
    for page in range(2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 64] = os.urandom(64)
    path.write_bytes(bytes(data))

    def use() -> None:
        ledger = open_ledger(path, create=False)
        with ledger.read() as session:
            reads.load_live(session, "s1")

    with pytest.raises(LedgerUnavailable, match="arl verify") as raised:
        use()
    assert str(path) in str(raised.value)


def test_a_ledger_that_another_process_holds_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.database.BUSY_TIMEOUT_S", 0.2)
    ledger = open_ledger(tmp_path / "l.db", create=True)
    holder = sqlite3.connect(tmp_path / "l.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerUnavailable, match="another process holds"), ledger.write():
        pass
    holder.close()
    with ledger.write():
        pass
    ledger.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(LedgerUnavailable):
        open_ledger(tmp_path / "l.db", create=True)


def test_a_server_that_is_not_there_is_said() -> None:
    with pytest.raises(LedgerUnavailable, match="does not answer"):
        open_ledger("postgresql://arl@127.0.0.1:1/arl", create=False)


@pytest.mark.postgres
def test_a_crash_of_the_server_loses_nothing_committed() -> None:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server is installed (apt-get install postgresql)")
    with private_server(binaries) as server:
        check_crash(server)


def check_crash(server: PostgresServer) -> None:
    ledger = open_ledger(server.new_ledger_url(), create=True)
    study = driven(ledger)
    study.whole_trial(0, 1.0)

    def crash_before_commit() -> None:
        with ledger.write() as session:
            writes.record(session, "s1", study.fence, [study.proposed(1)])
            server.stop("immediate")

    with pytest.raises(LedgerUnavailable):
        crash_before_commit()
    with pytest.raises(LedgerUnavailable), ledger.read() as session:
        reads.list_studies(session)
    server.start()
    with ledger.read() as session:
        assert [t.trial.number for t in reads.list_trials(session, "s1").items] == [0]
    study.whole_trial(1, 1.0)
    assert verify_ledger(ledger, None) == []
    ledger.close()


@pytest.mark.postgres
def test_text_too_long_for_its_column_is_the_callers_fault(postgres_ledger: Ledger) -> None:
    study = driven(postgres_ledger)
    with pytest.raises((InvalidInput, Conflict)):
        study.record(study.proposed(0, stage="x" * 100))
