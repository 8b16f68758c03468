"""`kill -9` at fault points elsewhere: in a recovery, on PostgreSQL, with trials in a sandbox."""

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.fault_runs import HERE, Place, warm_up
from tests.acceptance.test_fault_points import check, firsts, of_each_moment, shuffled, unfaulted
from tests.postgres_server import PostgresServer
from tests.target_runs import require_bubblewrap

SEED = 1_130
LONGEST_RECOVERY = 40
"""Points of a recovery up to its first new attempts."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(6 * 3600)]


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    directory = Path(tempfile.mkdtemp(prefix="arl-faults-", dir=place))
    warm_up(directory)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def test_a_kill_during_the_recovery_from_a_kill_is_survived(base: Path) -> None:
    recorded = unfaulted(base, HERE)
    dice = random.Random(SEED)
    chosen = shuffled(of_each_moment(firsts(recorded.points), recorded.order))
    again = [dice.randint(1, LONGEST_RECOVERY) for _ in chosen]
    verdicts = check(base, recorded, chosen, "twice, the second one in the recovery", again=again)
    assert sum(v.killed_again for v in verdicts) >= 0.5 * len(chosen)


@pytest.mark.postgres
def test_a_kill_at_every_fault_point_on_postgresql_is_survived(
    base: Path, postgres_server: PostgresServer
) -> None:
    place = Place(
        new_ledger=postgres_server.new_ledger_url, drop_ledger=postgres_server.drop_ledger
    )
    recorded = unfaulted(base, place)
    commits = [p for p in recorded.points if p.identity.partition(" @ ")[0].endswith("commit")]
    assert len(commits) > 40
    check(base, recorded, shuffled(recorded.points), "on PostgreSQL", place)


@pytest.mark.bubblewrap
def test_a_kill_at_every_fault_point_is_survived_by_trials_in_sandboxes(base: Path) -> None:
    require_bubblewrap()
    place = Place(target="bubblewrap")
    recorded = unfaulted(base, place)
    check(base, recorded, shuffled(recorded.points), "trials in sandboxes", place)
