"""A bubblewrap target with something around it that is worth attacking."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.artifacts import ArtifactStore
from targets.bubblewrap import BubblewrapTarget
from tests.hostile.bubblewrap_attacks import HELD_OUT, SCORER
from tests.target_runs import bubblewrap_target, end_supervisor


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bubblewrap")


@pytest.fixture(scope="module")
def store(base: Path) -> ArtifactStore:
    return ArtifactStore(base / "artifacts")


@pytest.fixture(scope="module")
def target(base: Path, store: ArtifactStore) -> Iterator[BubblewrapTarget]:
    made = bubblewrap_target(base, store)
    yield made
    made.close()
    end_supervisor(base / "bubblewrap-root")


@pytest.fixture(scope="module")
def outside(base: Path, store: ArtifactStore) -> dict[str, str]:
    """What lies around a candidate: a ledger, a bundle in the store, another attempt."""
    (base / "ledger.db").write_text("the ledger\n")
    (base / "bundle").mkdir()
    (base / "bundle" / "holdout.jsonl").write_text(HELD_OUT + "\n")
    (base / "bundle" / "score.py").write_text(SCORER)
    bundle = store.put_tree(base / "bundle")
    store.checkout(bundle)
    return {"bundle": bundle, "base": str(base)}
