"""Fixtures shared by every level: ledgers on both databases, a Docker engine."""

from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from ledger.database import Ledger, open_ledger
from tests import private_engine
from tests.postgres_server import PostgresServer, find_binaries, private_server
from tests.ray_cluster import RayCluster, ray_cluster

# How long an example takes is the machine's business: a busy one must fail no property.
hypothesis.settings.register_profile("arl", deadline=None)
hypothesis.settings.load_profile("arl")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One private cluster for the whole run."""
    pytest.importorskip("psycopg", reason="the postgres extra is not installed")
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server is installed (apt-get install postgresql)")
    with private_server(binaries) as server:
        yield server


@pytest.fixture(scope="session")
def ray_nodes() -> Iterator[RayCluster]:
    """A cluster of two nodes besides its head, for the whole run: `left` and `right`."""
    with ray_cluster() as cluster:
        for side in ("left", "right"):
            cluster.add_node(num_cpus=8, num_gpus=2 * (side == "left"), resources={side: 4})
        yield cluster


@pytest.fixture
def sqlite_ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = open_ledger(tmp_path / "ledger.db", create=True)
    yield ledger
    ledger.close()


@pytest.fixture
def postgres_ledger(postgres_server: PostgresServer) -> Iterator[Ledger]:
    ledger = open_ledger(postgres_server.new_ledger_url(), create=True)
    yield ledger
    ledger.close()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def ledger(request: pytest.FixtureRequest) -> Ledger:
    """The same test on both databases."""
    found: Ledger = request.getfixturevalue(f"{request.param}_ledger")
    return found


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[private_engine.Engine]:
    """One engine for the whole run: leave it running."""
    with private_engine.shared_engine() as engine:
        yield engine


@pytest.fixture
def own_engine() -> Iterator[private_engine.Engine]:
    """An engine for one test alone, which may kill it."""
    with private_engine.private_engine() as engine:
        yield engine
