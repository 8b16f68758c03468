"""Folds entries about conversions into a study's view."""

from dataclasses import replace

from controller.steps.view import Converted, LiveTrial, StudyView
from ledger.conversion_entries import ConversionEnded, ConversionMeasured, ConversionOpened
from ledger.conversion_records import Conversion
from ledger.states import ConversionState, Reason, TrialState


def fold_opened(view: StudyView, entry: ConversionOpened) -> None:
    view.conversions[entry.conversion_id] = Conversion(
        id=entry.conversion_id,
        study_id=view.study.id,
        number=entry.number,
        candidate_id=entry.candidate_id,
        model=entry.model,
        method=entry.method,
        settings=entry.settings,
        sources=entry.sources,
        digests=entry.digests,
        actor=entry.actor,
        state=ConversionState.OPEN,
        reason=None,
        detail="",
        artifact_digest=None,
        evidence={},
        created_at=0.0,
        ended_at=None,
    )


def fold_measured(view: StudyView, entry: ConversionMeasured) -> None:
    trial = view.live[entry.trial_id]
    trial.measured = entry.report
    trial.attempt = None


def fold_ended(view: StudyView, entry: ConversionEnded) -> None:
    view.conversions[entry.conversion_id] = replace(
        view.conversions[entry.conversion_id],
        state=entry.new,
        reason=entry.reason,
        detail=entry.detail,
        artifact_digest=entry.artifact_digest,
        evidence=entry.evidence,
    )
    view.is_retained = False


def file_converted(
    view: StudyView, trial: LiveTrial, state: TrialState, reason: Reason, detail: str
) -> None:
    """Keep what an ended conversion trial came to, for the judgement of its conversion."""
    view.converted[trial.stage or ""] = Converted(
        trial_id=trial.id,
        state=state,
        reason=reason,
        detail=detail,
        digest=trial.model_digest,
        scores=dict(trial.scores),
        measured=trial.measured or {},
    )
