"""Crashes, zombies and stale owners, as users of other systems suffered them (5a)."""

import os
import signal
import sqlite3
import time
from typing import Any

import pytest

from controller.spec.errors import StudyRefused
from controller.worker import driver
from ledger import reads, writes
from ledger.records import AttemptKind
from ledger.search import History, Proposals
from ledger.states import AttemptState, Reason, StudyState, TrialState
from proposers.grid import Grid
from tests.acceptance.lab import NOTE, READ_X, Lab, evaluate, reasons, train
from tests.acceptance.test_process_kills import WAITING, kill, supervisor_pid

PATIENT = {"stop": {"consecutive_failures": 100, "failure_rate": 1.0, "failure_window": 1000}}


def test_a_trial_whose_every_process_was_killed_is_lost_with_a_reason_and_tried_again(
    lab: Lab,
) -> None:
    once = f'if [ "${{ARL_ATTEMPT%-0}}" != "$ARL_ATTEMPT" ]; then {WAITING} fi; '
    study_id = lab.submit(budget={"trials": 1}, program=train({0.1: once}))
    worker = lab.worker(study_id)
    pid = lab.program_pid(f"arl-{study_id}-2.t-0")
    lab.wait_for_line(f"arl-{study_id}-2.t-0")
    subreaper = lab.record(f"arl-{study_id}-2.t-0")["subreaper"][0]
    worker.kill()
    for victim in (supervisor_pid(lab), subreaper, pid):
        kill(victim)
    assert lab.drive(study_id).state is StudyState.COMPLETED
    attempts = [a for a in lab.attempts(study_id) if a.id.startswith(f"{study_id}-2.t")]
    assert [(a.state, a.reason) for a in attempts] == [
        (AttemptState.LOST, Reason.ATTEMPT_LOST),
        (AttemptState.COLLECTED, None),
    ]
    assert [t.value for t in lab.trials(study_id)] == [0.1]


def test_many_zombies_after_a_reboot_are_reaped_by_the_next_start_without_any_tool(
    lab: Lab,
) -> None:
    study_id = lab.submit(
        budget={"trials": 6},
        parallel=6,
        program=train(
            every=f'if [ "${{ARL_ATTEMPT%-0}}" != "$ARL_ATTEMPT" ]; then {WAITING} fi; '
        ),
        noise={"baseline_trials": 4},
    )
    worker = lab.worker(study_id)
    lab.wait_for(lambda: len(lab.ran()) == 4, "the baselines run")
    worker.kill()
    kill(supervisor_pid(lab))
    # Whoever is let go before the supervisor's death ends it has finished, and is not lost.
    lab.wait_for(lambda: not lab.left_running(), "the attempts end with their supervisor")
    (lab.base / "go").touch()
    lab.drive(study_id)
    lost = [a for a in lab.attempts(study_id) if a.state is AttemptState.LOST]
    assert len(lost) >= 4
    assert [t.state for t in lab.trials(study_id)] == [TrialState.COMPLETE] * 6


def test_after_an_interrupt_as_many_trials_run_at_once_as_before(lab: Lab) -> None:
    study_id = lab.submit(
        budget={"trials": 6},
        parallel=3,
        program=train({x: WAITING for x in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)}),
    )
    worker = lab.worker(study_id)

    def running() -> int:
        return sum(t.state is TrialState.RUNNING for t in lab.trials(study_id))

    lab.wait_for(lambda: running() == 3, "three run")
    for _ in range(2):
        worker.kill()
        worker = lab.worker(study_id)
        claims = len(lab.entries(study_id, "worker_claimed"))
        lab.wait_for(lambda n=claims: len(lab.entries(study_id, "worker_claimed")) >= n, "claimed")
        time.sleep(0.2)
        assert running() == 3
        assert len(lab.trials(study_id)) == 3
    (lab.base / "go").touch()
    assert worker.join() == 0


@pytest.mark.parametrize(
    ("retries", "program", "evaluator", "reason", "tries"),
    [
        ({"candidate": 2}, {0.1: "exit 3"}, {}, Reason.EXIT_NONZERO, 3),
        ({"candidate": 1}, {0.1: "kill -9 $$"}, {}, Reason.CRASHED, 2),
        ({"candidate": 1}, {0.1: "exit 0"}, {}, Reason.NO_MODEL, 2),
        ({"candidate": 1}, {0.1: "sleep 60"}, {}, Reason.TIMED_OUT, 2),
        ({"candidate": 0}, {0.1: "exit 3"}, {}, Reason.EXIT_NONZERO, 1),
        ({"evaluator": 2}, {}, {0.1: "exit 3"}, Reason.EVALUATOR_ERROR, 3),
        ({"evaluator": 1}, {}, {0.1: "exit 0"}, Reason.EVALUATOR_ERROR, 2),
    ],
)
def test_each_reason_is_retried_as_the_policy_says(
    lab: Lab,
    retries: dict[str, int],
    program: dict[float, str],
    evaluator: dict[float, str],
    reason: Reason,
    tries: int,
) -> None:
    study_id = lab.submit(
        program=train(program),
        evaluator=evaluate(evaluator),
        retries=retries,
        budget={"trials": 2},
        resources={"cpus": 0.1, "wall_time": "1s"},
        **PATIENT,
    )
    lab.drive(study_id)
    first, second = lab.trials(study_id)
    assert (first.state, first.reason) == (TrialState.FAILED, reason)
    assert second.value == 0.2, "the next trial is none the worse for it"
    failed = [a for a in lab.attempts(study_id) if a.trial_id == first.id and a.reason is not None]
    assert [a.reason for a in failed] == [reason] * tries


def test_a_program_that_fails_after_a_good_metric_is_no_success(lab: Lab) -> None:
    report = (
        'echo "{\\"step\\": 1, \\"metric\\": \\"score\\", \\"value\\": 0.99}" >> "$ARL_REPORTS"; '
    )
    study_id = lab.submit(program=train({0.1: report + "exit 1"}), budget={"trials": 1}, **PATIENT)
    lab.drive(study_id)
    (trial,) = lab.trials(study_id)
    assert (trial.state, trial.reason, trial.value) == (
        TrialState.FAILED,
        Reason.EXIT_NONZERO,
        None,
    )


def test_a_terminated_program_is_ended_by_the_controller_and_not_by_its_own_last_words(
    lab: Lab,
) -> None:
    study_id = lab.submit(program=train({0.1: "kill -TERM $$"}), budget={"trials": 1}, **PATIENT)
    lab.drive(study_id)
    (trial,) = lab.trials(study_id)
    assert (trial.reason, trial.ended_at is not None) == (Reason.CRASHED, True)


def test_a_worker_killed_inside_a_transaction_leaves_no_lock(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def record_and_die(*args: Any, **kwargs: Any) -> None:
        real(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    real = writes.record
    study_id = lab.submit(budget={"trials": 1})
    monkeypatch.setattr(driver.writes, "record", record_and_die)
    assert lab.worker(study_id).join() == -signal.SIGKILL
    monkeypatch.undo()
    with sqlite3.connect(lab.home / "ledger.db", timeout=0.1) as connection:
        connection.execute("BEGIN IMMEDIATE")
    connection.close()
    assert lab.drive(study_id).state is StudyState.COMPLETED


def test_parameters_and_intent_are_recorded_before_the_process_starts(lab: Lab) -> None:
    study_id = lab.submit(budget={"trials": 1}, program=train({0.1: WAITING}))
    worker = lab.worker(study_id)
    lab.wait_for_line(f"arl-{study_id}-2.t-0")
    worker.kill()
    assert lab.params(study_id) == [{"x": 0.1}]
    assert f"{study_id}-2.t-0" in [a.id for a in lab.attempts(study_id)]
    (lab.base / "go").touch()
    lab.drive(study_id)


def test_a_study_that_stops_for_failures_lets_its_running_trials_end_and_says_so(
    lab: Lab,
) -> None:
    study_id = lab.submit(
        budget={"trials": 9},
        parallel=3,
        program=train({0.1: "exit 1", 0.2: "sleep 0.4", 0.3: "sleep 0.4", 0.4: "exit 1"}),
        stop={"consecutive_failures": 2},
    )
    study = lab.drive(study_id)
    assert (study.state, study.reason) == (StudyState.COMPLETED, Reason.CONSECUTIVE_FAILURES)
    assert "the last 2 trials failed" in str(lab.entries(study_id, "study_moved"))
    trials = lab.trials(study_id)
    assert all(t.state in (TrialState.COMPLETE, TrialState.FAILED) for t in trials)
    assert len(trials) < 9


def test_a_missing_metric_is_an_outcome_of_its_own_with_the_log_and_counts_as_a_failure(
    lab: Lab,
) -> None:
    script = READ_X + NOTE + "echo nothing to report here"
    study_id = lab.submit(
        program={"kind": "command", "argv": ["/bin/sh", "-c", script]},
        evaluator={"mode": "reported", "metrics": {"score": {}}},
        budget={"trials": 3},
        stop={"consecutive_failures": 2},
    )
    study = lab.drive(study_id)
    assert study.state is StudyState.FAILED
    assert study.reason is Reason.BASELINE_FAILED
    assert reasons(lab.trials(study_id, "baseline")) == ["no_metric"] * 2


@pytest.mark.parametrize("wrong", ["raises", "outside", "too_many"])
def test_a_proposer_that_fails_ends_the_study_with_its_words(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    def propose(
        self: Grid, history: History, *, count: int, seed: int, state: bytes | None
    ) -> Proposals:
        if wrong == "raises":
            raise ZeroDivisionError("low equals high")
        made = real(self, history, count=count, seed=seed, state=state)
        if wrong == "outside":
            return Proposals(items=[type(made.items[0])(params={"x": 7.0})])
        return Proposals(items=[*made.items, *made.items])

    real = Grid.propose
    lab.expects_ends = False  # what such a proposer would do again is no promise
    study_id = lab.submit(budget={"trials": 2})
    monkeypatch.setattr(Grid, "propose", propose)
    study = lab.drive(study_id)
    assert (study.state, study.reason) == (StudyState.FAILED, Reason.PROPOSER_ERROR)
    words = {"raises": "low equals high", "outside": "7.0", "too_many": "2 proposals where 1"}
    assert words[wrong] in study.detail


def test_a_constant_parameter_is_refused_at_submit_instead_of_hanging(lab: Lab) -> None:
    with pytest.raises(StudyRefused, match="low equals high"):
        lab.submit(space={"x": {"type": "float", "low": 0.5, "high": 0.5}})
    with lab.service() as service, service.ledger.read() as session:
        assert reads.list_studies(session) == []


def test_queued_studies_survive_a_restart(lab: Lab) -> None:
    studies = [lab.submit(name=f"queued-{i}", budget={"trials": 2}) for i in range(5)]
    worker = lab.worker(*studies)
    lab.wait_for(lambda: lab.ran(), "it begins")
    worker.kill()
    assert lab.worker(*studies).join() == 0
    assert {lab.study(s).state for s in studies} == {StudyState.COMPLETED}


def test_a_crash_between_training_and_verdict_evaluates_again_and_never_trains_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    study_id = lab.submit(budget={"trials": 1}, evaluator=evaluate({0.1: WAITING}))
    worker = lab.worker(study_id)
    lab.wait_for_line(f"arl-{study_id}-2.e-search-0")
    worker.kill()
    kill(supervisor_pid(lab))
    lab.wait_for(lambda: not lab.left_running(), "the attempts end with their supervisor")
    (lab.base / "go").touch()
    lab.drive(study_id)
    attempts = [a for a in lab.attempts(study_id) if a.trial_id == f"{study_id}-2"]
    trained = [a for a in attempts if a.kind is AttemptKind.TRAIN]
    assert len(trained) == 1
    assert lab.trials(study_id)[0].value == 0.1


def test_an_evaluator_that_crashes_costs_no_second_training(lab: Lab) -> None:
    crash = 'case "$ARL_ATTEMPT" in *-0) exit 9;; esac'
    study_id = lab.submit(budget={"trials": 1}, evaluator=evaluate({0.1: crash}))
    lab.drive(study_id)
    names = [
        name.rpartition(".")[2] for name in lab.ran() if name.startswith(f"arl-{study_id}-2.")
    ]
    assert names == ["t-0", "e-search-0", "e-search-1"]
    assert lab.trials(study_id)[0].value == 0.1


def test_values_are_accepted_once_however_often_they_are_read_again(lab: Lab) -> None:
    line = 'echo "{\\"step\\": $i, \\"metric\\": \\"loss\\", \\"value\\": $i}" >> "$ARL_REPORTS"'
    report = f"i=0; while [ $i -lt 40 ]; do {line}; i=$((i+1)); sleep 0.01; done"
    study_id = lab.submit(budget={"trials": 1}, program=train({0.1: report}))
    worker = lab.worker(study_id)
    lab.wait_for_line(f"arl-{study_id}-2.t-0")
    for _ in range(3):
        time.sleep(0.1)
        worker.kill()
        worker = lab.worker(study_id)
    assert worker.join() == 0
    with lab.service() as service, service.ledger.read() as session:
        found = list(reads.read_values(session, f"{study_id}-2"))
    assert [point.step for point in found if point.metric == "loss"] == list(range(40))
