"""How often PostgreSQL is waited for; after it was started again, who was idle notices nothing and
others only once."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ledger import idle_connections
from ledger.database import Ledger, open_ledger
from ledger.errors import LedgerUnavailable
from tests.ledger_builders import Driven, claim, submit
from tests.postgres_server import PostgresServer, find_binaries, private_server

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """One that these tests alone use, since they kill it."""
    binaries = find_binaries()
    assert binaries is not None
    with private_server(binaries) as server:
        yield server


def read_now(ledger: Ledger) -> float:
    with ledger.read() as session:
        return session.now()


def write_now(ledger: Ledger) -> float:
    with ledger.write() as session:
        return session.now()


@pytest.mark.parametrize("now", [read_now, write_now])
@pytest.mark.parametrize(("idle_s", "errors"), [(0.0, 0), (3600.0, 1)])
def test_a_server_that_came_back_is_found(
    own_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    idle_s: float,
    errors: int,
    now: Callable[[Ledger], float],
) -> None:
    monkeypatch.setattr(idle_connections, "IDLE_S", idle_s)
    ledger = open_ledger(own_server.new_ledger_url(), create=True)
    before = now(ledger)
    own_server.stop("immediate")
    own_server.start()
    for _ in range(errors):
        with pytest.raises(LedgerUnavailable):
            now(ledger)
    assert now(ledger) > before
    ledger.close()


def test_a_commit_of_many_changes_is_a_few_round_trips(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    ledger = open_ledger(own_server.new_ledger_url(), create=True)
    submit(ledger)
    study = Driven(ledger, fence=claim(ledger))
    study.run_study()
    waited: list[int] = []

    def counted(generator: Any) -> Any:
        """A wait until the server has answered; to send needs none."""
        value = None
        try:
            while True:
                wanted = generator.send(value)
                if wanted == psycopg.waiting.Wait.R:
                    waited.append(1)
                value = yield wanted
        except StopIteration as end:
            return end.value

    wait = psycopg.Connection.wait
    monkeypatch.setattr(
        psycopg.Connection, "wait", lambda own, gen, *more: wait(own, counted(gen), *more)
    )
    for number in range(5):
        study.record(study.proposed(number), study.launching(number))
    waited.clear()
    moved = [(study.started(number), study.exited(number)) for number in range(5)]
    study.record(*(entry for pair in moved for entry in pair), active_s=1.0)
    assert len(waited) <= 5
    ledger.close()
