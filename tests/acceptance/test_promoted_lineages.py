"""Built-in programs promoted for good: every link of the lineage is there, or nothing is."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.cli import front
from controller.decisions.lineage import LINKS
from controller.registry.checking import check_promotions
from controller.registry.making import make_evidence
from controller.wiring import Service
from inner_trials import demo_task
from ledger import reads
from ledger.registry_reads import find_sealed
from ledger.states import FamilyState, Reason
from tests.acceptance.shell_study import drive, open_service
from tests.acceptance.trained_study import promoted, repeat, submit_trained

pytestmark = pytest.mark.train


def study(service: Service, base: Path) -> str:
    demo_task.write_task(base)
    return submit_trained(service, base, "sft", data={"train": "./data"}, options={})


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    opened = open_service(tmp_path)
    yield opened
    opened.close()


@pytest.mark.slow
def test_an_sft_model_is_promoted_with_every_link_and_repeated_by_a_stranger(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive(service, study(service, tmp_path))
    pointer = promoted(service)
    with service.ledger.read() as session:
        sealed = find_sealed(session, pointer)
    assert sealed is not None
    links = sealed.entry.lineage
    not_for_sft = {"reward", "sampling", "policy_versions", "image"}
    assert {name for name in LINKS if not links.get(name)} <= not_for_sft | {"data"}
    assert set(links["data"]) == {"train"}  # type: ignore[arg-type]  # a mapping
    make_evidence(service.ledger, service.store, service.settings.home, pointer, "ann")
    checked = next(iter(check_promotions(service.ledger, service.store, [pointer])))
    assert checked.findings == []
    monkeypatch.setenv("ARL_HOME", str(service.settings.home))
    assert front.run(["reproduce", "tiny", str(tmp_path / "bundle")]) == 0
    repeated = repeat(tmp_path / "bundle", tmp_path / "stranger")
    assert repeated["outcome"] == "same_model", repeated


@pytest.mark.slow
def test_a_missing_link_blocks_the_promotion_and_is_named(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the program is of a version that recorded nothing."""
    monkeypatch.setattr("controller.steps.lineage.read_facts", lambda store, tree: {})
    study_id = study(service, tmp_path)
    ended = drive(service, study_id)
    with service.ledger.read() as session:
        families = reads.list_families(session, study_id)
        assert reads.latest_incumbent(session, "tiny") is None
    assert [(f.state, f.reason) for f in families] == [
        (FamilyState.DECLINED, Reason.LINEAGE_INCOMPLETE)
    ]
    assert "the optimizer configuration" in ended.detail
    assert "the versions of the training libraries" in ended.detail
    assert "the base revision" not in ended.detail
