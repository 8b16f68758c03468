"""NaN, infinities and clocks, as users of other systems suffered them (5c)."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from ledger import database
from ledger.search import History, Proposals
from ledger.states import Reason, StudyState, TrialState
from proposers.grid import Grid
from tests.acceptance.lab import READ_X, Lab, evaluate, train
from tests.acceptance.test_pain_crashes import PATIENT


def reported(value: str) -> dict[str, Any]:
    """A trusted program that reports this for x = 0.1, and x otherwise."""
    line = 'echo "{\\"step\\": 1, \\"metric\\": \\"score\\", \\"value\\": $v}" >> "$ARL_REPORTS"'
    script = f'{READ_X}v=$x; if [ "$x" = 0.1 ]; then v={value}; fi; {line}'
    return {
        "program": {"kind": "command", "argv": ["/bin/sh", "-c", script]},
        "evaluator": {"mode": "reported", "metrics": {"score": {}}},
    }


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_value_that_is_not_finite_never_wins_and_the_study_goes_on(lab: Lab, value: str) -> None:
    study_id = lab.submit(**reported(value), budget={"trials": 3}, **PATIENT)
    study = lab.drive(study_id)
    first, *others = lab.trials(study_id)
    assert (first.state, first.value) == (TrialState.FAILED, None)
    assert first.reason in (Reason.NOT_FINITE, Reason.NO_METRIC)
    assert [t.value for t in others] == [0.2, 0.3]
    assert study.state is StudyState.COMPLETED


def test_an_evaluators_failure_is_no_score_and_no_lesson_for_the_proposer(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[int, float | None]] = []
    real = Grid.propose

    def propose(
        self: Grid, history: History, *, count: int, seed: int, state: bytes | None
    ) -> Proposals:
        seen.append({t.number: t.value for t in history.finished})
        return real(self, history, count=count, seed=seed, state=state)

    study_id = lab.submit(
        evaluator=evaluate({0.1: "exit 1"}),
        retries={"evaluator": 1},
        budget={"trials": 2},
        **PATIENT,
    )
    monkeypatch.setattr(Grid, "propose", propose)
    lab.drive(study_id)
    assert lab.trials(study_id)[0].reason is Reason.EVALUATOR_ERROR
    assert seen[1] == {2: None}


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0, 10 * 365 * 86400.0, -10 * 365 * 86400.0])
def test_a_wall_clock_that_jumps_disturbs_no_lease_deadline_or_budget(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    study_id = lab.submit(
        budget={"trials": 4, "wall_time": "5m"},
        resources={"cpus": 0.1, "wall_time": "1m"},
        program=train(every="sleep 0.05; "),
    )
    shift = [0.0]

    jumping = SimpleNamespace(
        time=lambda: time.time() + shift[0], monotonic=time.monotonic, sleep=time.sleep
    )
    monkeypatch.setattr(database, "time", jumping)

    def jump(driver: Any) -> None:
        if driver.view.finish_seq >= 3:
            shift[0] = jump_s

    study = lab.drive(study_id, on_tick=jump)
    assert (study.state, study.reason) == (StudyState.COMPLETED, Reason.BUDGET_TRIALS)
    assert [t.value for t in lab.trials(study_id)] == [0.1, 0.2, 0.3, 0.4]
    assert 0 < study.active_s < 60
    assert len(lab.entries(study_id, "worker_claimed")) == 1
    shift[0] = 0.0
