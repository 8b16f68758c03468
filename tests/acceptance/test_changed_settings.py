"""`parallel` and `stop` change while a study runs, on the record, and survive what budgets do."""

from typing import Any

import pytest

from controller.steps.loading import load_view
from controller.steps.view import StudyView
from ledger.records import CommandVerb
from ledger.states import Reason, StudyState, TrialState
from tests.acceptance.lab import CHOICES, GRID, Lab, train
from tests.acceptance.test_commands import asked, go

WAITING = 'while [ ! -e "${ARL_OUTPUT%/.arl/*}/go" ]; do sleep 0.02; done'
"""Runs until the test makes the file `go`."""


BASELINE = GRID["space"]["x"]["default"]


def held(lab: Lab, **changes: Any) -> str:
    """A study of six search trials, each of which waits for the test."""
    waiting = {x: WAITING for x in CHOICES if x != BASELINE}
    return lab.submit(program=train(waiting), **{"budget": {"trials": 6}, **changes})


def running(lab: Lab, study_id: str) -> int:
    return sum(1 for trial in lab.trials(study_id) if trial.state is TrialState.RUNNING)


def view_of(lab: Lab, study_id: str) -> StudyView:
    with lab.service() as service, service.ledger.read() as session:
        return load_view(session, study_id)


def refusals(lab: Lab, study_id: str) -> list[str]:
    answers = [entry.payload for entry in lab.entries(study_id, "command_applied")]
    return [str(answer["detail"]) for answer in answers if answer["refused"]]


def test_more_trials_run_at_once_as_soon_as_parallel_is_raised(lab: Lab) -> None:
    study_id = held(lab)
    worker = lab.worker(study_id)
    lab.wait_for(lambda: running(lab, study_id) == 1, "one trial runs")
    lab.ask(study_id, CommandVerb.EXTEND, parallel=3)
    lab.wait_for(lambda: running(lab, study_id) == 3, "three trials run")
    worker.kill()
    assert view_of(lab, study_id).spec.parallel == 3
    lab.ask(study_id, CommandVerb.EXTEND, parallel=3)  # said again: nothing to record
    heir = lab.worker(study_id)
    lab.wait_for(lambda: len(asked(lab, study_id)) == 2, "the heir answers")
    go(lab)
    assert heir.join() == 0
    (entry,) = lab.entries(study_id, "setting_changed")
    assert dict(entry.payload) == {"setting": "parallel", "value": 3}
    assert len(lab.trials(study_id)) == 6


def test_what_runs_goes_on_when_parallel_is_lowered_and_no_more_begin(lab: Lab) -> None:
    study_id = held(lab, parallel=3)
    worker = lab.worker(study_id)
    lab.wait_for(lambda: running(lab, study_id) == 3, "three trials run")
    lab.ask(study_id, CommandVerb.EXTEND, parallel=1)
    lab.wait_for(lambda: asked(lab, study_id) == [("extend", False)], "it is lowered")
    assert running(lab, study_id) == 3
    go(lab)
    assert worker.join() == 0
    trials = lab.trials(study_id)
    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * 6
    for number in (3, 4, 5):
        assert all((t.ended_at or 0.0) <= trials[number].created_at for t in trials[:number])


def test_a_completed_study_searches_on_under_a_changed_stop_rule(lab: Lab) -> None:
    study_id = lab.submit(budget={"trials": 6}, stop={"goal": 0.2})
    study = lab.drive(study_id)
    assert (study.state, study.reason) == (StudyState.COMPLETED, Reason.GOAL_REACHED)
    before = len(lab.trials(study_id))
    lab.ask(study_id, CommandVerb.EXTEND, stop={"goal": 0.4})
    study = lab.drive(study_id)
    assert study.reason is Reason.GOAL_REACHED
    assert before < len(lab.trials(study_id)) < 6
    lab.ask(study_id, CommandVerb.EXTEND, stop={"goal": None})
    assert lab.drive(study_id).reason is Reason.BUDGET_TRIALS
    assert len(lab.trials(study_id)) == 6
    spec = view_of(lab, study_id).spec
    assert (spec.stop.goal, spec.stop.consecutive_failures) == (None, 10)


def test_what_no_study_file_may_say_is_refused_and_changes_nothing(lab: Lab) -> None:
    study_id = lab.submit(budget={"trials": 1})
    lab.drive(study_id)
    refused: tuple[dict[str, Any], ...] = (
        {"parallel": 0},
        {"stop": {"failure_rate": 2}},
        {"stop": {"patience": 3}},
        {"stop": {}},
        {"stop": 7},
        {"trials": {"by": 1}, "parallel": "many"},
        {"parallel": 2},
        {"notify": []},
    )
    for arguments in refused:
        lab.ask(study_id, CommandVerb.EXTEND, **arguments)
    assert lab.drive(study_id).state is StudyState.COMPLETED
    told = refusals(lab, study_id)
    for words, detail in zip(
        (
            "parallel: 0",
            "stop.failure_rate: 2",
            "stop.patience",
            "write the fields that change",
            "write the fields that change",
            'parallel: "many"',
            "is completed and runs nothing",
            "write one of trials",
        ),
        told,
        strict=True,
    ):
        assert words in detail, told
    assert lab.entries(study_id, "setting_changed") == []
    assert len(lab.trials(study_id)) == 1


@pytest.mark.parametrize(
    "change", [{"stop": {"goal": 0.5}}, {"trials": {"by": 2}}], ids=["stop", "trials"]
)
def test_what_says_when_a_search_ends_is_not_changed_once_it_is_ending(
    lab: Lab, change: dict[str, Any]
) -> None:
    study_id = held(lab)
    worker = lab.worker(study_id)
    lab.wait_for(lambda: running(lab, study_id) == 1, "one trial runs")
    lab.ask(study_id, CommandVerb.STOP)
    lab.ask(study_id, CommandVerb.EXTEND, **change)
    lab.wait_for(lambda: len(asked(lab, study_id)) == 2, "both are answered")
    assert "draining and searches no further" in refusals(lab, study_id)[0]
    go(lab)
    assert worker.join() == 0
