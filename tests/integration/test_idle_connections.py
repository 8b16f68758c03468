"""After PostgreSQL was started again, who was idle notices nothing, and others only once."""

from collections.abc import Iterator

import pytest

from ledger import idle_connections
from ledger.database import Ledger, open_ledger
from ledger.errors import LedgerUnavailable
from tests.postgres_server import PostgresServer, find_binaries, private_server

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """One that these tests alone use, since they kill it."""
    binaries = find_binaries()
    assert binaries is not None
    with private_server(binaries) as server:
        yield server


def now(ledger: Ledger) -> float:
    with ledger.read() as session:
        return session.now()


@pytest.mark.parametrize(("idle_s", "errors"), [(0.0, 0), (3600.0, 1)])
def test_a_server_that_came_back_is_found(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch, idle_s: float, errors: int
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
