"""What operators ask for happens once, whatever else happens at the time."""

import os
import signal
import time
from dataclasses import replace
from typing import Any

import pytest

from controller.steps import commands, lineage
from controller.steps.context import StepContext
from controller.worker import driver
from ledger import reads
from ledger.errors import Conflict
from ledger.records import Command, CommandVerb
from ledger.states import AttemptState, FamilyState, Reason, StudyState, TrialState
from tests.acceptance.lab import CHOICES, GRID, Lab, evaluate, reasons, train

APPLIED = "command_applied"
WAITING = 'while [ ! -e "${ARL_OUTPUT%/.arl/*}/go" ]; do sleep 0.02; done'
"""Runs until the test makes the file `go`."""


def held(lab: Lab, **changes: Any) -> str:
    """A study of four trials whose first one waits for the test."""
    changes = {"program": train({0.1: WAITING}), "budget": {"trials": 4}, **changes}
    return lab.submit(**changes)


def go(lab: Lab) -> None:
    (lab.base / "go").touch()


def first_attempt(study_id: str) -> str:
    return f"arl-{study_id}-2.t-0"


def asked(lab: Lab, study_id: str) -> list[tuple[str, bool]]:
    """Commands that were answered: the verb, and whether it was refused."""
    found = [entry.payload for entry in lab.entries(study_id, "command_applied")]
    return [(str(f["verb"]), bool(f["refused"])) for f in found]


def test_a_pause_lets_running_trials_finish_and_starts_no_new_ones(lab: Lab) -> None:
    study_id = held(lab)
    worker = lab.worker(study_id)
    lab.wait_for_line(first_attempt(study_id))
    lab.ask(study_id, CommandVerb.PAUSE)
    lab.wait_for(lambda: lab.study(study_id).state is StudyState.PAUSED, "it pauses")
    assert lab.trials(study_id)[0].state is TrialState.RUNNING
    go(lab)
    lab.wait_for(lambda: lab.trials(study_id)[0].state is TrialState.COMPLETE, "it finishes")
    assert len(lab.trials(study_id)) == 1
    lab.ask(study_id, CommandVerb.RESUME)
    assert worker.join() == 0
    assert [t.state for t in lab.trials(study_id)] == [TrialState.COMPLETE] * 4


def test_a_pause_keeps_the_time_used_before_it_and_adds_none(lab: Lab) -> None:
    study_id = held(lab)
    worker = lab.worker(study_id)
    lab.wait_for_line(first_attempt(study_id))
    time.sleep(1.0)
    lab.ask(study_id, CommandVerb.PAUSE)
    lab.wait_for(lambda: lab.study(study_id).state is StudyState.PAUSED, "it pauses")
    used, paused_at = lab.study(study_id).active_s, time.monotonic()
    assert used >= 1.0
    time.sleep(2.0)
    go(lab)
    lab.wait_for(lambda: lab.trials(study_id)[0].state is TrialState.COMPLETE, "it finishes")
    assert lab.study(study_id).active_s == used
    lab.ask(study_id, CommandVerb.RESUME)
    lab.wait_for(lambda: lab.study(study_id).state is StudyState.RUNNING, "it goes on")
    resumed, paused_for = lab.study(study_id).active_s, time.monotonic() - paused_at
    assert used <= resumed < used + paused_for - 1.0
    assert worker.join() == 0
    assert lab.study(study_id).active_s > resumed


def test_a_pause_outlives_the_worker_and_only_a_person_ends_it(lab: Lab) -> None:
    study_id = held(lab)
    go(lab)
    lab.ask(study_id, CommandVerb.PAUSE)
    worker = lab.worker(study_id)
    lab.wait_for(lambda: lab.study(study_id).state is StudyState.PAUSED, "it pauses")
    worker.kill()
    again = lab.worker(study_id)
    lab.wait_for(lambda: len(lab.entries(study_id, "worker_claimed")) == 2, "it is claimed")
    assert lab.study(study_id).paused_by == "operator"
    assert lab.study(study_id).state is StudyState.PAUSED
    lab.ask(study_id, CommandVerb.RESUME)
    assert again.join() == 0
    assert lab.study(study_id).state is StudyState.COMPLETED


def test_a_stop_drains_and_replays_nothing(lab: Lab) -> None:
    study_id = held(lab, promotion={"model": "toy", "profile": "quick"}, noise={})
    worker = lab.worker(study_id)
    lab.wait_for(lambda: any(n.startswith(f"arl-{study_id}-5.t") for n in lab.ran()), "searches")
    lab.ask(study_id, CommandVerb.STOP)
    lab.wait_for(lambda: lab.study(study_id).state is StudyState.DRAINING, "it drains")
    go(lab)
    assert worker.join() == 0
    study = lab.study(study_id)
    assert (study.state, study.reason) == (StudyState.COMPLETED, Reason.STOPPED_BY_OPERATOR)
    assert [t.state for t in lab.trials(study_id)] == [TrialState.COMPLETE]
    assert lab.trials(study_id, "replay") == []


def test_a_stop_of_a_study_that_was_paused_before_it_ran_is_refused_and_holds_up_nothing(
    lab: Lab,
) -> None:
    study_id = held(lab)
    go(lab)
    for verb in (CommandVerb.PAUSE, CommandVerb.STOP, CommandVerb.RESUME):
        lab.ask(study_id, verb)
    lab.drive(study_id)
    assert asked(lab, study_id) == [("pause", False), ("stop", True), ("resume", False)]
    assert lab.study(study_id).state is StudyState.COMPLETED


def test_a_command_that_fails_half_way_is_refused_and_those_behind_it_are_applied(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(ctx: StepContext, command: Command) -> None:
        ctx.move(StudyState.DRAINING)
        raise Conflict("thought better of it")

    monkeypatch.setitem(commands._VERBS, CommandVerb.STOP, half)
    study_id = held(lab)
    go(lab)
    lab.ask(study_id, CommandVerb.STOP)
    lab.ask(study_id, CommandVerb.EXTEND, trials={"by": 1})
    lab.drive(study_id)
    answers = [(e.payload["verb"], e.payload["detail"]) for e in lab.entries(study_id, APPLIED)]
    assert answers == [("stop", "thought better of it"), ("extend", "")]
    assert [t.state for t in lab.trials(study_id)] == [TrialState.COMPLETE] * 5


def test_a_cancel_kills_what_runs_and_a_second_one_is_refused(lab: Lab) -> None:
    study_id = held(lab, program=train({0.1: f"(setsid sleep 60 &); {WAITING}"}))
    worker = lab.worker(study_id)
    lab.wait_for_line(first_attempt(study_id))
    lab.ask(study_id, CommandVerb.CANCEL)
    assert worker.join() == 0
    study = lab.study(study_id)
    assert (study.state, study.reason) == (StudyState.CANCELLED, Reason.CANCELLED_BY_OPERATOR)
    assert [t.state for t in lab.trials(study_id)] == [TrialState.CANCELLED]
    lab.ask(study_id, CommandVerb.CANCEL)
    lab.drive(study_id)
    assert asked(lab, study_id) == [("cancel", False), ("cancel", True)]
    assert lab.study(study_id).state is StudyState.CANCELLED


def test_two_cancels_at_once_end_the_study_once(lab: Lab) -> None:
    study_id = held(lab)
    lab.ask(study_id, CommandVerb.CANCEL)
    lab.ask(study_id, CommandVerb.CANCEL)
    lab.drive(study_id)
    assert asked(lab, study_id) == [("cancel", False), ("cancel", True)]
    ends = [e for e in lab.entries(study_id, "study_moved") if e.payload["new"] == "cancelled"]
    assert len(ends) == 1


@pytest.mark.parametrize("delay_ms", range(0, 100, 20))
def test_a_cancel_that_races_with_the_end_leaves_one_terminal_state(
    lab: Lab, delay_ms: int
) -> None:
    study_id = lab.submit(
        budget={"trials": 1}, program=train(every=f"sleep 0.0{delay_ms // 10}; ")
    )
    worker = lab.worker(study_id)
    lab.wait_for_line(first_attempt(study_id))
    lab.ask(study_id, CommandVerb.CANCEL)
    assert worker.join() == 0
    lab.drive(study_id)
    study = lab.study(study_id)
    refused = asked(lab, study_id)[0][1]
    expected = StudyState.COMPLETED if refused else StudyState.CANCELLED
    assert study.state is expected
    assert len(lab.entries(study_id, "trial_decided") + lab.entries(study_id, "trial_ended")) == 3


def test_an_extended_study_searches_on_to_exactly_the_new_cap(lab: Lab) -> None:
    study_id = lab.submit(budget={"trials": 2})
    assert lab.drive(study_id).reason is Reason.BUDGET_TRIALS
    lab.ask(study_id, CommandVerb.EXTEND, trials={"by": 3})
    study = lab.drive(study_id)
    assert (study.state, study.reason) == (StudyState.COMPLETED, Reason.BUDGET_TRIALS)
    assert [p["x"] for p in lab.params(study_id)] == [0.1, 0.2, 0.3, 0.4, 0.5]
    with lab.service() as service, service.ledger.read() as session:
        line = reads.load_budgets(session, study_id)["trials"]
    assert (line.limit, line.spent, line.reserved) == (5, 5, 0)


def test_a_budget_is_not_lowered_below_what_is_used(lab: Lab) -> None:
    study_id = lab.submit(budget={"trials": 3})
    lab.drive(study_id)
    lab.ask(study_id, CommandVerb.EXTEND, trials={"to": 2})
    lab.drive(study_id)
    assert asked(lab, study_id) == [("extend", True)]
    assert lab.study(study_id).state is StudyState.COMPLETED


def test_a_trial_enqueued_before_any_worker_came_is_run_and_costs_the_grid_no_point(
    lab: Lab,
) -> None:
    study_id = held(lab, budget={"trials": 3})
    lab.ask(study_id, CommandVerb.ENQUEUE, params={"x": 0.7})
    go(lab)
    lab.drive(study_id)
    assert asked(lab, study_id) == [("enqueue", False)]
    assert [p["x"] for p in lab.params(study_id)] == [0.7, 0.1, 0.2]


def test_trials_enqueued_while_paused_come_first_and_count(lab: Lab) -> None:
    study_id = held(lab)
    worker = lab.worker(study_id)
    lab.wait_for_line(first_attempt(study_id))
    lab.ask(study_id, CommandVerb.PAUSE)
    lab.ask(study_id, CommandVerb.ENQUEUE, params={"x": 0.85})
    lab.ask(study_id, CommandVerb.ENQUEUE, params={"x": 0.8})
    lab.ask(study_id, CommandVerb.ENQUEUE, params={"y": 1})
    lab.ask(study_id, CommandVerb.RESUME)
    lab.wait_for(lambda: len(asked(lab, study_id)) == 5, "they are answered")
    go(lab)
    assert worker.join() == 0
    answers = asked(lab, study_id)
    # 0.85 is none of the choices, and y is no parameter.
    assert [refused for _, refused in answers] == [False, True, False, True, False]
    assert [p["x"] for p in lab.params(study_id)] == [0.1, 0.8, 0.2, 0.3]


PROMOTING: dict[str, Any] = {
    **GRID,
    "budget": {"trials": 3},
    "noise": {},
    "promotion": {"model": "toy", "profile": "quick", "approval": "required"},
}


def families(lab: Lab, study_id: str) -> list[FamilyState]:
    with lab.service() as service, service.ledger.read() as session:
        return [family.state for family in reads.list_families(session, study_id)]


def winner(lab: Lab, study_id: str) -> str:
    return max(
        (t for t in lab.trials(study_id) if t.value is not None), key=lambda t: t.value or 0
    ).candidate_id


def incumbents(lab: Lab, model: str = "toy") -> list[str]:
    with lab.service() as service, service.ledger.read() as session:
        return [i.candidate_id for i in reads.list_incumbents(session, model)]


def test_a_promotion_that_wants_approval_waits_for_it(lab: Lab) -> None:
    study_id = lab.submit(**PROMOTING)
    assert lab.drive(study_id).state is StudyState.COMPLETED
    assert families(lab, study_id) == [FamilyState.AWAITING_APPROVAL]
    assert incumbents(lab) == []
    best = winner(lab, study_id)
    lab.ask(study_id, CommandVerb.PROMOTE, candidate_id=best)
    assert lab.drive(study_id).detail == "promoted"
    assert families(lab, study_id) == [FamilyState.PROMOTED]
    assert incumbents(lab) == [best]
    lab.ask(study_id, CommandVerb.PROMOTE, candidate_id=best)
    lab.drive(study_id)
    assert incumbents(lab) == [best], "approving twice promotes once"


def test_a_declined_promotion_stays_declined(lab: Lab) -> None:
    study_id = lab.submit(**PROMOTING)
    lab.drive(study_id)
    best = winner(lab, study_id)
    lab.ask(study_id, CommandVerb.DECLINE, candidate_id=best)
    lab.ask(study_id, CommandVerb.DECLINE, candidate_id=best)
    assert lab.drive(study_id).detail == "not promoted: declined by operator"
    assert families(lab, study_id) == [FamilyState.DECLINED]
    assert incumbents(lab) == []
    assert asked(lab, study_id) == [("decline", False), ("decline", True)]


def test_who_approves_a_model_that_changed_at_rest_is_told_why_it_is_not_promoted(
    lab: Lab,
) -> None:
    study_id = lab.submit(**PROMOTING)
    lab.drive(study_id)
    best = winner(lab, study_id)
    numbers = {f"{x}\n".encode() for x in CHOICES}
    objects = [p for p in (lab.home / "artifacts" / "objects").rglob("*") if p.is_file()]
    models = {p: p.read_bytes() for p in objects if p.read_bytes() in numbers}
    assert models
    for stored in models:
        stored.chmod(0o644)
        stored.write_bytes(b"0.123456789")
    lab.ask(study_id, CommandVerb.APPROVE, candidate_id=best)
    said = lab.drive(study_id).detail or ""
    for stored, content in models.items():
        stored.write_bytes(content)
    assert "the winner's stored artifact does not match its digest" in said
    assert families(lab, study_id) == [FamilyState.DECLINED]
    assert incumbents(lab) == []
    answer = lab.entries(study_id, "command_applied")[-1].payload
    assert (answer["refused"], answer["detail"]) == (True, said)


def test_who_asks_again_for_a_model_whose_lineage_still_lacks_a_link_is_told_so_at_once(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    study_id = lab.submit(**PROMOTING)
    lab.drive(study_id)
    best = winner(lab, study_id)
    with monkeypatch.context() as patched:
        needs = lineage.needs_of
        patched.setattr(lineage, "needs_of", lambda ctx: replace(needs(ctx), has_image=True))
        for _ in range(2):
            lab.ask(study_id, CommandVerb.PROMOTE, candidate_id=best)
            lab.drive(study_id)
        assert families(lab, study_id) == [FamilyState.DECLINED]
    first, second = [entry.payload for entry in lab.entries(study_id, "command_applied")]
    assert [first["refused"], second["refused"]] == [True, True]
    assert "its lineage lacks the image digest; run the study again" in str(first["detail"])
    assert f"candidate {best} passed the gate in family 1, but its lineage lacks the image" in str(
        second["detail"]
    )
    lab.ask(study_id, CommandVerb.PROMOTE, candidate_id=best)
    lab.drive(study_id)
    assert families(lab, study_id) == [FamilyState.DECLINED, FamilyState.AWAITING_APPROVAL]


def test_a_replay_asked_for_goes_through_the_same_gate(lab: Lab) -> None:
    study_id = lab.submit(**{**PROMOTING, "budget": {"trials": 2}, "stop": {"goal": 0.9}})
    searched = lab.drive(study_id)
    first = winner(lab, study_id)
    lab.ask(study_id, CommandVerb.DECLINE, candidate_id=first)
    lab.ask(study_id, CommandVerb.REPLAY, candidate_id=first)
    done = lab.drive(study_id)
    assert (done.state, done.reason) == (StudyState.COMPLETED, searched.reason)
    assert searched.reason is not None
    assert families(lab, study_id) == [FamilyState.DECLINED, FamilyState.AWAITING_APPROVAL]


def test_a_replay_of_nothing_known_is_refused_with_why(lab: Lab) -> None:
    study_id = lab.submit(budget={"trials": 1})
    lab.drive(study_id)
    lab.ask(study_id, CommandVerb.REPLAY, candidate_id="nobody")
    lab.drive(study_id)
    (answer,) = lab.entries(study_id, "command_applied")
    assert answer.payload["refused"] is True
    assert "promotion" in str(answer.payload["detail"])


COMMANDS: list[tuple[CommandVerb, dict[str, Any]]] = [
    (CommandVerb.PAUSE, {}),
    (CommandVerb.RESUME, {}),
    (CommandVerb.STOP, {}),
    (CommandVerb.CANCEL, {}),
    (CommandVerb.EXTEND, {"trials": {"by": 1}}),
    (CommandVerb.ENQUEUE, {"params": {"x": 0.9}}),
    (CommandVerb.REPLAY, {"candidate_id": "nobody"}),
    (CommandVerb.DECLINE, {"candidate_id": "nobody"}),
]


@pytest.mark.parametrize(("verb", "arguments"), COMMANDS, ids=[str(v) for v, _ in COMMANDS])
def test_a_command_is_applied_once_when_the_worker_is_killed_right_after_it_was_given(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, verb: CommandVerb, arguments: dict[str, Any]
) -> None:
    monkeypatch.setattr(driver, "COMMANDS_EVERY_S", 60.0)  # the killed one must not see it
    study_id = held(lab)
    worker = lab.worker(study_id)
    lab.wait_for_line(first_attempt(study_id))
    lab.ask(study_id, verb, **arguments)
    worker.kill()
    monkeypatch.setattr(driver, "COMMANDS_EVERY_S", 0.02)
    go(lab)
    again = lab.worker(study_id)
    lab.wait_for(lambda: asked(lab, study_id), "it is answered")
    if verb is CommandVerb.PAUSE:
        lab.ask(study_id, CommandVerb.RESUME)
    assert again.join() == 0
    assert asked(lab, study_id)[0][0] == verb
    assert len(asked(lab, study_id)) == (2 if verb is CommandVerb.PAUSE else 1)
    done = len([t for t in lab.trials(study_id) if t.state is TrialState.COMPLETE])
    expected = {CommandVerb.EXTEND: 5, CommandVerb.STOP: 1, CommandVerb.CANCEL: 0}
    assert done == expected.get(verb, 4)


def test_a_cancel_kills_attempts_even_when_the_worker_dies_between_saying_and_doing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    study_id = held(lab)
    monkeypatch.setattr("targets.local_process.LocalProcessTarget.kill", die)
    worker = lab.worker(study_id)
    lab.wait_for_line(first_attempt(study_id))
    lab.ask(study_id, CommandVerb.CANCEL)
    assert worker.join() == -9
    monkeypatch.undo()
    assert lab.study(study_id).state is StudyState.CANCELLED
    assert lab.record(first_attempt(study_id)).get("exit") is None, "it still runs"
    lab.drive(study_id)
    assert lab.record(first_attempt(study_id)) == {}
    states = [a.state for a in lab.attempts(study_id) if a.trial_id == f"{study_id}-2"]
    assert states == [AttemptState.CANCELLED]
    assert reasons(lab.trials(study_id)) == ["cancelled_by_operator"]


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_evaluations_that_run_are_not_cut_by_a_pause(lab: Lab) -> None:
    study_id = lab.submit(budget={"trials": 1}, evaluator=evaluate({0.1: WAITING}))
    worker = lab.worker(study_id)
    lab.wait_for_line(f"arl-{study_id}-2.e-search-0")
    lab.ask(study_id, CommandVerb.PAUSE)
    lab.wait_for(lambda: lab.study(study_id).state is StudyState.PAUSED, "it pauses")
    go(lab)
    lab.wait_for(lambda: lab.trials(study_id)[0].value == 0.1, "it is scored")
    lab.ask(study_id, CommandVerb.RESUME)
    assert worker.join() == 0
