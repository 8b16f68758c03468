"""Folds what was saved, and let go, into the view of a study that does not keep everything."""

from dataclasses import replace

from controller.decisions.retention import Ended, Saved, concerns
from controller.steps.view import LiveTrial, StudyView
from ledger.entries import ArtifactRecorded
from ledger.retention_entries import ArtifactReleased
from ledger.states import Reason, TrialState


def fold_recorded(view: StudyView, entry: ArtifactRecorded) -> None:
    retention = view.spec.retention
    if retention is None or entry.trial_id is None or not entry.files:
        return
    if concerns(retention.policy, entry.role):
        key = entry.attempt_id, entry.role
        view.saved_under_way.setdefault(entry.trial_id, []).append(key)
        view.saved[key] = Saved(
            attempt_id=entry.attempt_id,
            trial_id=entry.trial_id,
            role=entry.role,
            digest=entry.digest,
            size_bytes=entry.size_bytes,
            ended=None,
        )


def fold_released(view: StudyView, entry: ArtifactReleased) -> None:
    view.saved.pop((entry.attempt_id, entry.role), None)


def file_saved(
    view: StudyView, trial: LiveTrial, state: TrialState, reason: Reason, value: float | None
) -> None:
    """Note how the trial came out that saved something."""
    retention = view.spec.retention
    if retention is None:
        return
    view.is_retained = False
    if retention.logs is not None:
        view.quiet.append(trial.id)
    for key in view.saved_under_way.pop(trial.id, ()):
        if key in view.saved:
            ended = Ended(
                number=trial.number,
                kind=trial.kind,
                candidate_id=trial.candidate_id,
                state=state,
                reason=reason,
                value=value,
                finish_seq=view.finish_seq,
            )
            view.saved[key] = replace(view.saved[key], ended=ended)
