"""An alarm of an online program ends its trial, and what it sampled is an artifact of its own."""

from pathlib import Path

from ledger import reads
from ledger.records import ArtifactRole
from ledger.states import Reason, StudyState, TrialState
from tests.acceptance.shell_study import drive, open_service, submit

ONLINE = """
x=$(sed -n 's/.*"x": *\\([0-9.]*\\).*/\\1/p' "$ARL_PARAMS")
mkdir "$ARL_OUTPUT/model" "$ARL_OUTPUT/rollouts"
echo rows > "$ARL_OUTPUT/rollouts/part-00000.parquet"
cp "$ARL_PARAMS" "$ARL_OUTPUT/model/params.json"
for step in 1 2 3 4 5 6 7 8; do
  ringing=0
  if [ "$x" = 0.9 ] && [ $step -ge 3 ]; then ringing=1; fi
  said='{"step": %d, "metric": "alarm/any", "value": %d}\\n'
  printf "$said" $step $ringing >> "$ARL_REPORTS"
  sleep 0.05
  if [ -e "$ARL_STOP" ]; then exit 42; fi
done
"""


def test_a_ringing_alarm_ends_a_trial_and_a_quiet_one_does_not(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    study_id = submit(
        service,
        tmp_path,
        program={"kind": "command", "argv": ["/bin/sh", "-c", ONLINE]},
        proposer={"name": "grid"},
        space={"x": {"type": "float", "low": 0.5, "high": 0.9, "step": 0.4, "default": 0.5}},
        pruning={"name": "threshold", "metric": "alarm/any", "upper": 0.5},
        duplicates="replicate",
        budget={"trials": 2},
    )
    study = drive(service, study_id)
    assert study.state is StudyState.COMPLETED
    with service.ledger.read() as session:
        trials = [reads.get_trial(session, f"{study_id}-{number}") for number in range(2, 4)]
    ends = {t.candidate.params["x"]: t for t in trials}
    assert (ends[0.9].trial.state, ends[0.9].trial.reason) == (
        TrialState.PRUNED,
        Reason.PRUNED_THRESHOLD,
    )
    assert ends[0.5].trial.state is TrialState.COMPLETE
    kept = {artifact.role: artifact for artifact in ends[0.5].artifacts}
    assert set(kept) == {ArtifactRole.MODEL, ArtifactRole.ROLLOUTS}
    assert [name for name, *_ in service.store.manifest(kept[ArtifactRole.ROLLOUTS].digest)] == [
        "part-00000.parquet"
    ]
    service.close()
