"""Resume, seeds, spaces and budgets, as users of other systems suffered them (5d)."""

import time
from typing import Any

import pytest

from controller.decisions import budgets
from ledger import reads
from ledger.records import CommandVerb
from ledger.states import Reason, StudyState, TrialState
from tests.acceptance.lab import Lab, reasons, train
from tests.acceptance.test_process_kills import WAITING

RANDOM: dict[str, Any] = {
    "space": {"x": {"type": "float", "low": 0.0, "high": 1.0, "default": 0.5}},
    "proposer": {"name": "random"},
    "seed": 7,
}


def test_a_resumed_seeded_search_goes_on_where_it_was_instead_of_beginning_anew(
    lab: Lab,
) -> None:
    straight = lab.submit(**RANDOM, name="straight", budget={"trials": 16})
    lab.drive(straight)
    halves = lab.submit(**RANDOM, name="halves", budget={"trials": 8})
    worker = lab.worker(halves)
    lab.wait_for(lambda: len(lab.trials(halves)) >= 4, "it is under way")
    worker.kill()
    lab.drive(halves)
    lab.ask(halves, CommandVerb.EXTEND, trials={"by": 8})
    lab.drive(halves)
    assert lab.params(halves) == lab.params(straight)
    assert [t.value for t in lab.trials(halves)] == [t.value for t in lab.trials(straight)]


def test_a_resumed_grid_repeats_no_point_and_misses_none(lab: Lab) -> None:
    study_id = lab.submit(parallel=2, budget={"trials": 50})
    for pause_s in (0.15, 0.1, 0.2):
        worker = lab.worker(study_id)
        time.sleep(pause_s)
        worker.kill()
    study = lab.drive(study_id)
    assert study.reason is Reason.SPACE_EXHAUSTED
    values = [p["x"] for p in lab.params(study_id)]
    assert values == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.05]


def test_the_cap_is_exact_with_many_workers_and_kills(lab: Lab) -> None:
    study_id = lab.submit(**RANDOM, budget={"trials": 12}, parallel=4)
    for _ in range(3):
        workers = [lab.worker(study_id) for _ in range(3)]
        time.sleep(0.25)
        for worker in workers:
            worker.kill()
    lab.drive(study_id)
    assert [t.state for t in lab.trials(study_id)] == [TrialState.COMPLETE] * 12


def test_a_study_stopped_by_failures_is_not_finished_for_good(lab: Lab) -> None:
    flaky = 'if [ ! -e "${ARL_OUTPUT%/.arl/*}/go" ]; then exit 1; fi'
    study_id = lab.submit(
        program=train({0.1: flaky, 0.2: flaky, 0.3: flaky}),
        budget={"trials": 3},
        stop={"consecutive_failures": 2},
    )
    assert lab.drive(study_id).reason is Reason.CONSECUTIVE_FAILURES
    (lab.base / "go").touch()
    lab.ask(study_id, CommandVerb.EXTEND, trials={"by": 1})
    lab.ask(study_id, CommandVerb.ENQUEUE, params={"x": 0.9})
    study = lab.drive(study_id)
    assert [t.value for t in lab.trials(study_id)] == [None, None, 0.9, 0.3]
    assert study.reason is Reason.BUDGET_TRIALS


def test_a_resume_keeps_spend_baselines_and_leader(lab: Lab) -> None:
    study_id = lab.submit(budget={"trials": 4}, program=train({0.3: WAITING}))
    worker = lab.worker(study_id)
    lab.wait_for_line(f"arl-{study_id}-4.t-0")
    worker.kill()
    with lab.service() as service, service.ledger.read() as session:
        before = reads.load_budgets(session, study_id)["trials"]
    assert (before.spent, before.reserved) == (2, 1)
    (lab.base / "go").touch()
    study = lab.drive(study_id)
    assert len(lab.trials(study_id, "baseline")) == 2
    decisions = [e.payload for e in lab.entries(study_id, "trial_decided")]
    leaders = [d["compared_with"] for d in decisions if d["trial_kind"] == "search"]
    kept = [d["candidate_id"] for d in decisions if d["verdict"] == "keep"]
    assert leaders == [None, *kept[:3]], "the leader was not forgotten"
    assert study.reason is Reason.BUDGET_TRIALS


def test_launches_that_all_fail_are_counted_and_stop_the_study(lab: Lab) -> None:
    study_id = lab.submit(
        program={"kind": "command", "argv": ["/no/such/program"]},
        budget={"trials": 50},
        retries={"infrastructure": 1},
    )
    study = lab.drive(study_id)
    assert (study.state, study.reason) == (StudyState.FAILED, Reason.BASELINE_FAILED)
    assert reasons(lab.trials(study_id, "baseline")) == ["launch_failed"] * 2
    assert len(lab.attempts(study_id)) == 4


@pytest.mark.parametrize(
    ("stop", "reason", "trials"),
    [
        ({"goal": 0.3}, Reason.GOAL_REACHED, 3),
        ({"goal": 0.04}, Reason.GOAL_MET_BY_BASE, 0),
        ({"no_improvement": 3}, Reason.NO_IMPROVEMENT, 3),
    ],
    ids=["goal", "goal_met_by_base", "plateau"],
)
def test_a_stop_rule_ends_the_search_and_its_reason_is_recorded(
    lab: Lab, stop: dict[str, Any], reason: Reason, trials: int
) -> None:
    direction = "minimize" if reason is Reason.NO_IMPROVEMENT else "maximize"
    study_id = lab.submit(
        stop=stop, budget={"trials": 9}, objective={"metric": "score", "direction": direction}
    )
    study = lab.drive(study_id)
    assert (study.state, study.reason) == (StudyState.COMPLETED, reason)
    assert len(lab.trials(study_id)) == trials


def test_a_wall_time_budget_is_not_overshot_by_a_long_trial(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets, "WALL_GRACE_S", 0.2)
    study_id = lab.submit(
        program=train({0.2: "exec sleep 60"}), budget={"trials": 9, "wall_time": "3s"}
    )
    started = time.monotonic()
    study = lab.drive(study_id)
    assert study.reason is Reason.BUDGET_WALL_TIME
    assert time.monotonic() - started < 30
    assert study.active_s < 15
    assert lab.trials(study_id)[1].reason is Reason.TIMED_OUT
    assert len(lab.trials(study_id)) == 2


def test_a_finished_study_says_that_there_is_nothing_to_resume(lab: Lab) -> None:
    study_id = lab.submit(budget={"trials": 1})
    lab.drive(study_id)
    head = lab.study(study_id).head_digest
    lab.ask(study_id, CommandVerb.RESUME)
    lab.drive(study_id)
    (answer,) = lab.entries(study_id, "command_applied")
    assert answer.payload["refused"] is True
    assert "nothing to resume" in str(answer.payload["detail"])
    assert lab.study(study_id).state is StudyState.COMPLETED
    assert lab.study(study_id).head_digest != head
