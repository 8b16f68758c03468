"""Whole studies that end trials early, with the margin that is the default."""

from pathlib import Path

import pytest

from controller.steps.loading import load_view
from ledger import reads
from ledger.states import Reason, StudyState, TrialState
from tests.acceptance.shell_study import drive, open_service, submit

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
        space={"x": {"type": "float", "low": 0.1, "high": 0.9, "step": 0.2, "default": 0.7}},
        pruning={"name": name, "startup_trials": 2, "horizon": 8, **options},
        duplicates="replicate",
        budget={"trials": 5},
    )
    study = drive(service, study_id)
    assert study.state is StudyState.COMPLETED
    with service.ledger.read() as session:
        trials = [reads.get_trial(session, f"{study_id}-{number}") for number in range(2, 7)]
        view = load_view(session, study_id)
    ends = {t.candidate.params["x"]: (t.trial.state, t.trial.reason) for t in trials}
    assert ends[0.1][0] is TrialState.COMPLETE
    pruned = [trial for trial in trials if trial.trial.state is TrialState.PRUNED]
    assert pruned
    assert {trial.trial.reason for trial in pruned} == {reason}
    assert all({v.metric: v.step for v in t.latest}["score"] < 8 for t in pruned)
    complete = [c for c in view.other_curves if c.is_complete]
    assert len(complete) + len(pruned) == len(view.other_curves) == 5
    assert len(view.curves) == len(complete) + 2
    service.close()
