"""Whole studies that end trials early, with the margin that is the default."""

from pathlib import Path

import pytest

from controller.decisions import retries
from controller.steps.loading import load_view
from controller.steps.view import StudyView
from controller.worker.driver import StudyDriver
from controller.worker.loop import Callbacks
from ledger import reads
from ledger.records import AttemptKind, TrialKind
from ledger.states import AttemptState, Reason, StudyState, TrialState
from tests.acceptance.shell_study import drive, open_service, submit, target_named

LEARNS = """
x=$(sed -n 's/.*"x": *\\([0-9.]*\\).*/\\1/p' "$ARL_PARAMS")
for step in 1 2 3 4 5 6 7 8; do
  echo "{\\"step\\": $step, \\"metric\\": \\"score\\", \\"value\\": $x}" >> "$ARL_REPORTS"
  sleep 0.05
  if [ -e "$ARL_STOP" ]; then exit 42; fi
done
mkdir "$ARL_OUTPUT/model" && cp "$ARL_PARAMS" "$ARL_OUTPUT/model/params.json"
"""


RUNGS = {"reduction_factor": 2, "min_resource": 2}


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [("asha", RUNGS, Reason.PRUNED_ASHA), ("power_law", {}, Reason.PRUNED_FORECAST)],
)
def test_what_cannot_win_is_ended_and_the_best_is_kept(
    tmp_path: Path, name: str, options: dict[str, int], reason: Reason
) -> None:
    service = open_service(tmp_path)
    study_id = submit(
        service,
        tmp_path,
        objective={"metric": "score", "direction": "minimize"},
        program={"kind": "command", "argv": ["/bin/sh", "-c", LEARNS]},
        proposer={"name": "grid"},
        space={"x": {"type": "float", "low": 0.1, "high": 0.9, "step": 0.05, "default": 0.7}},
        pruning={"name": name, "startup_trials": 2, "horizon": 8, **options},
        duplicates="replicate",
        budget={"trials": 17},
    )
    study = drive(service, study_id)
    assert study.state is StudyState.COMPLETED
    with service.ledger.read() as session:
        trials = [reads.get_trial(session, f"{study_id}-{number}") for number in range(2, 19)]
        view = load_view(session, study_id)
    ends = {t.candidate.params["x"]: (t.trial.state, t.trial.reason) for t in trials}
    assert ends[0.1][0] is TrialState.COMPLETE
    pruned = [trial for trial in trials if trial.trial.state is TrialState.PRUNED]
    assert pruned
    assert {trial.trial.reason for trial in pruned} == {reason}
    assert all({v.metric: v.step for v in t.latest}["score"] < 8 for t in pruned)
    complete = [c for c in view.other_curves if c.is_complete]
    assert len(complete) + len(pruned) == len(view.other_curves) == 17
    assert len(view.curves) == len(complete) + 2
    service.close()


def test_a_study_that_is_read_again_knows_what_its_running_trials_showed_and_took(
    tmp_path: Path,
) -> None:
    service = open_service(tmp_path)
    # Large enough to be read beside the loop, so that an attempt is seen that has exited.
    large = f'{LEARNS}truncate -s 64M "$ARL_OUTPUT/model/large"\n'
    study_id = submit(
        service,
        tmp_path,
        program={"kind": "command", "argv": ["/bin/sh", "-c", large]},
        pruning={"name": "median", "startup_trials": 9, "horizon": 8},
        budget={"trials": 1},
    )
    seen: set[AttemptState | None] = set()
    differing: list[object] = []

    def compare(driver: StudyDriver) -> None:
        ctx = driver.snapshot()
        if ctx.batch:
            return  # ahead of the ledger
        with service.ledger.read() as session:
            again = load_view(session, study_id)
        if known(again) != known(ctx.view):
            differing.append((known(again), known(ctx.view)))
        trials = [trial for trial in ctx.view.live.values() if trial.curve]
        seen.update(trial.attempt.state if trial.attempt else None for trial in trials)

    study = drive(service, study_id, Callbacks(on_tick=compare))
    service.close()
    assert study.state is StudyState.COMPLETED
    assert differing == []
    assert {AttemptState.RUNNING, AttemptState.EXITED} <= seen


def known(view: StudyView) -> dict[str, tuple[list[tuple[int, float]], float]]:
    return {trial.id: (trial.curve, round(trial.wall_s, 6)) for trial in view.live.values()}


STARTS_OVER = """
x=$(sed -n 's/.*"x": *\\([0-9.]*\\).*/\\1/p' "$ARL_PARAMS")
if [ -e "$ARL_INPUTS/resume/seen" ]; then
  mkdir "$ARL_OUTPUT/model" && cp "$ARL_PARAMS" "$ARL_OUTPUT/model/params.json"
  exit 0
fi
mkdir -p "$ARL_OUTPUT/resume" && touch "$ARL_OUTPUT/resume/seen"
for step in 1 2 3 4; do
  echo "{\\"step\\": $step, \\"metric\\": \\"score\\", \\"value\\": $x}" >> "$ARL_REPORTS"
done
sleep 600
"""


def test_only_what_the_pruner_speaks_against_is_pruned_when_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "FIRST_DELAY_S", 0.0)
    service = open_service(tmp_path)
    study_id = submit(
        service,
        tmp_path,
        program={"kind": "command", "argv": ["/bin/sh", "-c", STARTS_OVER]},
        proposer={"name": "grid"},
        space={"x": {"type": "float", "low": 0.1, "high": 0.9, "step": 0.8, "default": 0.9}},
        pruning={"name": "median", "startup_trials": 2, "margin": "none"},
        duplicates="replicate",
        budget={"trials": 2},
    )

    def kill_first_attempts(driver: StudyDriver) -> None:
        """And forget what they were asked, as where the worker that asked has died."""
        for attempt in driver.view.attempts():
            is_first = attempt.kind is AttemptKind.TRAIN and attempt.index == 0
            if is_first and attempt.value_batches and attempt.exited is None:
                attempt.stop_asked = None
                target_named(service, "local").kill(attempt.name)

    study = drive(service, study_id, Callbacks(on_tick=kill_first_attempts))
    assert study.state is StudyState.COMPLETED
    with service.ledger.read() as session:
        trials = [reads.get_trial(session, f"{study_id}-{number}") for number in range(4)]
    ends = [(t.trial.kind, t.candidate.params["x"], t.trial.state) for t in trials]
    assert sorted(ends) == [
        (TrialKind.BASELINE, 0.9, TrialState.COMPLETE),
        (TrialKind.BASELINE, 0.9, TrialState.COMPLETE),
        (TrialKind.SEARCH, 0.1, TrialState.PRUNED),
        (TrialKind.SEARCH, 0.9, TrialState.COMPLETE),
    ]
    pruned = next(t.trial for t in trials if t.trial.state is TrialState.PRUNED)
    assert pruned.reason is Reason.PRUNED_MEDIAN
    reasons = [a.reason for t in trials for a in t.attempts]
    assert reasons.count(Reason.ATTEMPT_LOST) == 3
    service.close()
