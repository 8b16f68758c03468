"""What a worker's turns cost: of many studies, and while a target is away."""

import time
from typing import Any

import pytest

from controller.worker import conditions
from controller.worker.driver import StudyDriver
from ledger.errors import TargetUnavailable
from ledger.records import CommandVerb
from ledger.states import StudyState
from targets.local_process import LocalProcessTarget
from tests.acceptance.lab import Lab, train
from tests.acceptance.test_process_kills import WAITING


def test_a_study_keeps_no_news_of_other_studies(lab: Lab) -> None:
    studies = [lab.submit(name=name, budget={"trials": 4}) for name in ("one", "other")]
    kept: set[str] = set()

    def look(driver: StudyDriver) -> None:
        own = f"arl-{driver.study_id}"
        kept.update(name for name in driver.snapshot().news if not name.startswith(own))

    lab.drive(*studies, on_tick=look)
    assert kept == set()


def test_what_a_target_that_is_away_refuses_is_tried_again_in_seconds_and_not_at_once(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    study_id = lab.submit(program=train({0.1: WAITING}), budget={"trials": 2})
    monkeypatch.setattr(conditions, "CONDITION_EVERY_S", 1.0)
    kill = LocalProcessTarget.kill
    refused: list[float] = []

    def away(target: Any, handle: str) -> None:
        now = time.monotonic()
        if now - (refused or [now])[0] < 0.8:
            refused.append(now)
            raise TargetUnavailable("its supervisor is away")
        kill(target, handle)

    def look(driver: StudyDriver) -> None:
        if driver.view.next_search == 1 and not asked:
            asked.append(lab.ask(study_id, CommandVerb.CANCEL))

    asked: list[object] = []
    monkeypatch.setattr(LocalProcessTarget, "kill", away)
    lab.tolerated = "is away"
    assert lab.drive(study_id, on_tick=look).state is StudyState.CANCELLED
    assert len(refused) == 1
