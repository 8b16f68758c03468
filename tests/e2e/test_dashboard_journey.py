"""From a study's trials to what it changed, what it printed, a comparison and a promotion."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from controller.client import Client
from tests.acceptance.lab import GRID
from tests.acceptance.shell_study import document, write_evaluator
from tests.acceptance.test_patched_trials import EVALUATE, PATCH, RATE, TRAIN
from tests.e2e_pages import Watched
from tests.serve_runs import Served, served

pytestmark = pytest.mark.browser
PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("journey") / ".arl"
    with served(home, ARL_ALLOW_UNSANDBOXED_PATCHES="1") as made:
        yield made


def patched_file(directory: Path) -> Path:
    """A study that may change rate.sh, and prints which rate it trains with."""
    write_evaluator(directory)
    (directory / "program").mkdir()
    (directory / "program" / "rate.sh").write_text(RATE, encoding="utf-8")
    program = {
        "kind": "command",
        "argv": ["/bin/sh", "-c", f'sleep 0.5; {TRAIN}; echo "trained with $RATE"'],
        "source": "./program",
        "mutable": ["rate.sh"],
        "mutable_reason": "rate.sh sets a number",
    }
    evaluator = {
        **document()["evaluator"],
        "argv": ["/bin/sh", "-c", EVALUATE],
        "metrics": {"score": {"low": 0, "high": 1, "resolution": 0.001}, "cost": {}},
    }
    made = document(
        name="patched", program=program, evaluator=evaluator, budget={"trials": 3}, parallel=1
    )
    file = directory / "study.json"
    file.write_text(json.dumps({**made, "noise": {}}), encoding="utf-8")
    return file


def test_a_trial_is_opened_with_its_change_and_its_log_and_compared(
    watched: Watched, client: Client, tmp_path: Path
) -> None:
    page = watched.page
    study = client.submit(patched_file(tmp_path)).study
    client.add_trial(study, patch=PATCH)
    client.wait(study, timeout_s=60)
    changed = next(one for one in client.trials(study) if client.trial(one.id).patch is not None)
    watched.open(f"/studies/{study}/trials")
    page.get_by_role("link", name=str(changed.number), exact=True).first.click()
    expect(page.get_by_role("heading", name=f"Trial {changed.number}", level=1)).to_be_visible()
    change = page.get_by_role("region", name="Changes of rate.sh")
    expect(change.get_by_text("RATE=0.8")).to_be_visible()
    expect(change.get_by_text("RATE=0.3")).to_be_visible()
    expect(page.get_by_role("region", name=re.compile("^Log of"))).to_contain_text(
        "trained with 0.8"
    )
    page.get_by_role("link", name="Trials", exact=True).click()
    for number in (0, 1):
        page.get_by_role("checkbox", name=f"Compare trial {number}").check()
    page.get_by_role("button", name="Compare 2").click()
    expect(page.get_by_role("heading", name="Compare", level=1)).to_be_visible()
    for number in (0, 1):
        expect(page.get_by_role("link", name=f"Trial {number}").first).to_be_visible()


def test_a_promotion_is_approved_and_another_candidate_replayed(
    watched: Watched, client: Client, tmp_path: Path
) -> None:
    write_evaluator(tmp_path)
    promoting = {"model": "toy", "profile": "quick", "approval": "required"}
    given = document(
        **{
            **GRID,
            "name": "promoting",
            "budget": {"trials": 3},
            "noise": {},
            "promotion": promoting,
        }
    )
    study = client.submit(given, base=tmp_path).study
    client.wait(study, timeout_s=90)
    page = watched.page
    watched.open("/promotions")
    page.get_by_role("link", name=re.compile("toy|promoting")).first.click()
    page.get_by_role("button", name="Approve").click()
    page.get_by_role("dialog").get_by_role("button", name="Approve and promote").click()
    expect(page.get_by_text("promoted").first).to_be_visible(timeout=PATIENCE_MS)
    [promotion] = client.promotions()
    assert str(promotion.state) == "promoted"
    watched.open("/models/toy")
    expect(page.get_by_text("promoting").first).to_be_visible()
    trials = [one for one in client.trials(study) if str(one.kind) == "search"]
    second = sorted(trials, key=lambda one: one.value or 0)[-2]
    watched.open(f"/candidates/{second.candidate}")
    page.get_by_role("button", name="Replay", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Replay", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0, timeout=PATIENCE_MS)
    families = promotions_of(client, 2)
    assert second.candidate in client.promotion(families[-1]).candidates


def promotions_of(client: Client, count: int) -> list[str]:
    """The families, oldest first, once there are so many."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while time.monotonic() < deadline:
        found = sorted(client.promotions(), key=lambda one: one.number)
        if len(found) >= count:
            return [one.family for one in found]
        time.sleep(0.2)
    raise AssertionError(f"not {count} promotions")
