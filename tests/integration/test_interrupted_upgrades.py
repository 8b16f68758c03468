"""An upgrade killed anywhere leaves the older ledger whole, and the next one finishes it."""

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, inspect, text

from benchmarks.bulk_ledger import fill
from benchmarks.bulk_rows import Shape
from ledger.database import connect, ledger_url, open_ledger
from ledger.errors import LedgerTooOld
from ledger.schema import REVISIONS, find_revision, migration_config, upgrade_schema
from ledger.tables import Base
from tests.acceptance import forked
from tests.postgres_server import PostgresServer

Counts = Mapping[str, int]


@contextmanager
def engine_of(address: str) -> Iterator[Engine]:
    engine, _ = connect(ledger_url(address), create=False)
    try:
        yield engine
    finally:
        engine.dispose()


def upgrade(address: str) -> None:
    with engine_of(address) as engine:
        upgrade_schema(engine)


def at_revision(address: str, revision: str) -> None:
    """Make an empty database as an ARL of that revision made it."""
    from alembic import command

    url = ledger_url(address)
    if url.get_backend_name() == "sqlite":
        Path(url.database or "").parent.mkdir(parents=True, exist_ok=True)
        sqlite3.connect(url.database or "").close()
    with engine_of(address) as engine, engine.begin() as connection:
        command.upgrade(migration_config(connection), revision)


def fill_older(address: str, path: Path) -> None:
    """Copy the rows of a ledger of today into an older one, as far as it has their columns."""
    newest = open_ledger(path, create=False)
    with engine_of(address) as engine, newest.read() as source, engine.begin() as target:
        there = inspect(target)
        names = set(there.get_table_names())
        for table in Base.metadata.sorted_tables:
            if table.name not in names or table.name in ("ledger", "service_head"):
                continue
            columns = {column["name"] for column in there.get_columns(table.name)}
            shared = [column.name for column in table.columns if column.name in columns]
            _copy(source.connection, target, table.name, shared)
    newest.close()


def _copy(source: Any, target: Any, table: str, columns: list[str]) -> None:
    rows = source.execute(text(f"SELECT {', '.join(columns)} FROM {table}"))
    marks = ", ".join(f":{name}" for name in columns)
    put = text(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})")
    while batch := rows.mappings().fetchmany(5000):
        target.execute(put, [dict(row) for row in batch])


def counts(address: str) -> dict[str, int]:
    """Rows of every table, and under `revision` where its schema is."""
    with engine_of(address) as engine, engine.connect() as connection:
        run = connection.execute
        found = {
            name: int(run(text(f"SELECT count(*) FROM {name}")).scalar_one())
            for name in inspect(connection).get_table_names()
            if name != "alembic_version"
        }
        found["revision"] = int(find_revision(connection) or 0)
    return found


def statements_of_an_upgrade(address: str) -> int:
    """How many statements an upgrade of such a ledger takes; it is upgraded."""
    seen = 0

    def count(*_: object) -> None:
        nonlocal seen
        seen += 1

    with engine_of(address) as engine:
        event.listen(engine, "before_cursor_execute", count)
        upgrade_schema(engine)
    return seen


def killed_at(address: str, number: int, log: Path) -> int:
    """Upgrade in a process of its own, which is killed when that statement was just executed (or
    about to be, for a negative number)."""

    def work() -> None:
        seen = 0

        def count(*_: object) -> None:
            nonlocal seen
            seen += 1
            if seen == abs(number):
                os.kill(os.getpid(), signal.SIGKILL)

        with engine_of(address) as engine:
            event.listen(engine, ("after" if number > 0 else "before") + "_cursor_execute", count)
            upgrade_schema(engine)

    return forked.join(forked.fork(work, log), 300.0)


@pytest.fixture
def older(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[int], Iterator[str]]:
    """Makes ledgers of revision 0001 with so many trials, as often as one is asked for."""
    database = request.param

    def make(trials: int) -> Iterator[str]:
        newest = open_ledger(tmp_path / "newest.db", create=True)
        fill(newest, Shape(trials=trials, params=4, metrics=2, running=False))
        newest.close()
        if database == "sqlite":
            original = tmp_path / "older.db"
            at_revision(str(original), REVISIONS[0])
            fill_older(str(original), tmp_path / "newest.db")
            while True:
                copy = tmp_path / f"copy-{os.urandom(4).hex()}.db"
                copy.write_bytes(original.read_bytes())
                yield str(copy)
        server: PostgresServer = request.getfixturevalue("postgres_server")
        template = new_database(server)
        at_revision(template, REVISIONS[0])
        fill_older(template, tmp_path / "newest.db")
        while True:
            yield new_database(server, template)

    return make


def new_database(server: PostgresServer, template: str = "") -> str:
    """An empty one, or a copy of another: a schema, which is quicker to make, cannot be copied."""
    name = f"arl_{os.urandom(4).hex()}"
    admin = create_engine(f"postgresql+psycopg://arl@/postgres?host={server.socket}")
    with admin.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        like = f"TEMPLATE {ledger_url(template).database}" if template else ""
        connection.execute(text(f"CREATE DATABASE {name} {like}"))
    admin.dispose()
    return f"postgresql://arl@/{name}?host={server.socket}"


SLOWER = [pytest.mark.postgres, pytest.mark.slow]
SQLITE_FIRST = pytest.mark.parametrize(
    "older", ["sqlite", pytest.param("postgres", marks=SLOWER)], indirect=True
)
BOTH = pytest.mark.parametrize(
    "older", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)


def check_every_point(older: Iterator[str], points: list[int], log: Path) -> None:
    before = counts(next(older))
    whole = next(older)
    upgrade(whole)
    after = counts(whole)
    assert (before["revision"], after["revision"]) == (1, int(REVISIONS[-1]))
    for point in points:
        address = next(older)
        assert killed_at(address, point, log) == -signal.SIGKILL, point
        assert counts(address) == before, f"killed at {point}: half of it was kept"
        with pytest.raises(LedgerTooOld):
            open_ledger(address, create=False)
        upgrade(address)
        assert counts(address) == after, f"killed at {point}: something is lost"
        open_ledger(address, create=False).close()


@SQLITE_FIRST
def test_an_upgrade_killed_at_some_points_is_finished_by_the_next(
    older: Callable[[int], Iterator[str]], tmp_path: Path
) -> None:
    ledgers = older(50)
    total = statements_of_an_upgrade(next(ledgers))
    points = [-1, total // 3, -(2 * total // 3), total]
    check_every_point(ledgers, points, tmp_path / "log")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@BOTH
def test_an_upgrade_of_50000_trials_killed_at_many_points_is_finished_by_the_next(
    older: Callable[[int], Iterator[str]], tmp_path: Path
) -> None:
    ledgers = older(50_000)
    total = statements_of_an_upgrade(next(ledgers))
    points = [1, total // 4, -(total // 2), 3 * total // 4, -total, total]
    check_every_point(ledgers, points, tmp_path / "log")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@BOTH
def test_an_upgrade_killed_by_the_clock_is_finished_by_the_next(
    older: Callable[[int], Iterator[str]], tmp_path: Path
) -> None:
    """Inside long statements, too: an index over every entry takes a while."""
    ledgers = older(50_000)
    before = counts(next(ledgers))
    address = next(ledgers)
    kills = 0
    for wait_ms in (0, 5, 10, 20, 40, 60, 80, 120, 160, 240, 320):

        def work(address: str = address) -> None:
            upgrade(address)

        pid = forked.fork(work, tmp_path / "log")
        signal.sigtimedwait([], wait_ms / 1000)
        os.kill(pid, signal.SIGKILL)
        forked.join(pid, 300.0)
        found = counts(address)
        if found["revision"] == int(REVISIONS[-1]):
            address = next(ledgers)
            continue
        kills += 1
        assert found == before
    assert kills > 3
    upgrade(address)
    assert counts(address)["trials"] == before["trials"]
