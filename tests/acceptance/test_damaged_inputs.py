"""What a study reads is checked when it is read; what changed is named, and nothing goes round."""

from ledger.records import Json
from ledger.states import Reason, StudyState, TrialState
from tests.acceptance.lab import Lab, train


def test_an_input_that_changed_at_rest_ends_the_study_and_is_named(lab: Lab) -> None:
    (lab.base / "rows.jsonl").write_text("rows that nothing else has\n")
    program: dict[str, Json] = train() | {"data": {"train": "./rows.jsonl"}}
    study_id = lab.submit(program=program)
    objects = (lab.home / "artifacts" / "objects").rglob("*")
    stored = next(p for p in objects if p.is_file() and b"nothing else has" in p.read_bytes())
    content = stored.read_bytes()
    stored.chmod(0o644)
    stored.write_bytes(bytes(len(content)))
    done = lab.drive(study_id)
    stored.write_bytes(content)
    assert (done.state, done.reason) == (StudyState.FAILED, Reason.ARTIFACT_CORRUPT)
    assert f"the bytes of {stored} changed" in (done.detail or "")
    trials = lab.trials(study_id, "baseline")
    assert {trial.state for trial in trials} <= {TrialState.CANCELLED}, "no trial is to blame"
