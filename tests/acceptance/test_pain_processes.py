"""Processes and logs of whole studies, as users of other systems suffered them (5e)."""

import time

import pytest

from controller.steps import attempt_specs
from ledger.states import Reason, StudyState, TrialState
from tests.acceptance.lab import Lab, evaluate, train
from tests.acceptance.shell_study import target_named
from tests.acceptance.test_hostile_candidates import short_grace
from tests.acceptance.test_pain_crashes import PATIENT
from tests.target_runs import processes_marked

__all__ = ["short_grace"]

LIMITED = {"resources": {"cpus": 0.1, "wall_time": "1s", "logs": "64KiB"}}


def test_a_script_that_times_out_leaves_nothing_of_its_tree(lab: Lab) -> None:
    mark = f"ARL_PAIN={lab.base.name}"
    tree = f"export {mark}; (setsid sleep 61 &); (sleep 62 & sleep 63 &); sh -c 'sleep 64'"
    study_id = lab.submit(program=train({0.1: tree}), budget={"trials": 2}, **LIMITED, **PATIENT)
    lab.drive(study_id)
    first, second = lab.trials(study_id)
    assert first.reason is Reason.TIMED_OUT
    assert second.value == 0.2
    assert processes_marked(mark) == []


@pytest.mark.parametrize("where", ["program", "evaluator"])
def test_an_endless_loop_is_ended_within_its_limit(lab: Lab, where: str) -> None:
    loop = {0.1: "trap '' TERM; while :; do :; done"}
    study_id = lab.submit(
        program=train(loop if where == "program" else {}),
        evaluator=evaluate(loop if where == "evaluator" else {}, wall_time="1s"),
        retries={"evaluator": 0},
        budget={"trials": 2},
        **LIMITED,
        **PATIENT,
    )
    started = time.monotonic()
    lab.drive(study_id)
    assert time.monotonic() - started < 20
    first, second = lab.trials(study_id)
    assert first.reason in (Reason.TIMED_OUT, Reason.EVALUATOR_ERROR)
    assert second.value == 0.2


def test_a_program_that_dies_without_cleaning_up_fails_alone(lab: Lab) -> None:
    study_id = lab.submit(
        program=train({0.2: "kill -SEGV $$"}), budget={"trials": 4}, parallel=2, **PATIENT
    )
    lab.drive(study_id)
    states = [t.state for t in lab.trials(study_id)]
    assert states.count(TrialState.FAILED) == 1
    assert lab.trials(study_id)[1].reason is Reason.CRASHED


def test_a_program_that_does_nothing_any_more_is_ended_as_stalled(lab: Lab) -> None:
    study_id = lab.submit(
        program=train({0.1: "exec sleep 60"}),
        budget={"trials": 2},
        resources={"cpus": 0.1, "stall_time": "1s"},
        **PATIENT,
    )
    lab.drive(study_id)
    assert lab.trials(study_id)[0].reason is Reason.STALLED
    assert lab.trials(study_id)[1].value == 0.2


def test_a_program_that_reports_is_not_stalled(lab: Lab) -> None:
    line = 'echo "{\\"step\\": 1, \\"metric\\": \\"loss\\", \\"value\\": 1}" >> "$ARL_REPORTS"'
    beat = f"i=0; while [ $i -lt 12 ]; do {line}; sleep 0.2; i=$((i+1)); done"
    study_id = lab.submit(
        program=train({0.1: beat}),
        budget={"trials": 1},
        resources={"cpus": 0.1, "stall_time": "1s"},
    )
    lab.drive(study_id)
    assert lab.trials(study_id)[0].value == 0.1


def test_a_flood_of_output_stays_small_and_hides_no_metric(lab: Lab) -> None:
    line = 'echo "{\\"step\\": 1, \\"metric\\": \\"loss\\", \\"value\\": 0.5}" >> "$ARL_REPORTS"'
    flood = f"echo FIRST; head -c 30000000 /dev/zero; {line}; echo LAST"
    study_id = lab.submit(
        program=train({0.1: flood}),
        budget={"trials": 1},
        resources={"cpus": 0.1, "logs": "64KiB"},
    )
    assert lab.drive(study_id).state is StudyState.COMPLETED
    assert lab.trials(study_id)[0].value == 0.1
    (entry,) = lab.entries(study_id, "values_reported")
    assert entry.payload["count"] == 1
    with lab.service() as service:
        chunk = target_named(service, "local").read_log(
            f"arl-{study_id}-2.t-0", offset=0, limit=1 << 20
        )
        logs = list((lab.home / "local" / "logs").iterdir())
    assert chunk.data.startswith(b"FIRST")
    assert sum(path.stat().st_size for path in logs) < 300_000


def test_a_slot_is_free_again_when_a_killed_workers_trial_has_ended(lab: Lab) -> None:
    lab.environment["ARL_CPUS"] = "1"
    study_id = lab.submit(
        budget={"trials": 4},
        parallel=4,
        resources={"cpus": 1.0},
        program=train(every="sleep 0.1; "),
    )
    worker = lab.worker(study_id)
    lab.wait_for_line(f"arl-{study_id}-2.t-0")
    worker.kill()
    time.sleep(0.3)
    lab.drive(study_id)
    assert [t.state for t in lab.trials(study_id)] == [TrialState.COMPLETE] * 4
    assert attempt_specs.CODE_INPUT == "code"
