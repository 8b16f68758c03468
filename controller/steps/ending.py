"""Ends a study before its time: nothing of it runs afterwards, and everything says why."""

from controller.steps.asking import finish
from controller.steps.context import StepContext
from controller.steps.requests import record_last_requests
from ledger import entries as e
from ledger.conversion_entries import ConversionEnded
from ledger.states import (
    AttemptState,
    ConversionState,
    FamilyState,
    Reason,
    StudyState,
    TrialState,
)
from targets.protocol import Target


def fail_study(ctx: StepContext, reason: Reason, detail: str) -> None:
    """The study fails; what is running of it is cancelled with it."""
    end_everything(ctx, reason, detail)
    ctx.move(StudyState.FAILED, reason, detail)


def end_everything(ctx: StepContext, reason: Reason, detail: str) -> None:
    """Cancel every live attempt and trial; the processes are ended once that is committed."""
    for attempt in ctx.view.attempts():
        record_last_requests(ctx, attempt)
        target, handle = ctx.target_of(attempt), attempt.handle or attempt.name

        def stop(target: Target = target, handle: str = handle) -> None:
            target.kill(handle)

        ctx.after_commit.append(stop)
        ctx.end_attempt(attempt, AttemptState.CANCELLED, reason, detail)
    for trial in list(ctx.view.live.values()):
        ctx.end_trial(trial, TrialState.CANCELLED, reason, detail)
    finish(ctx)
    for conversion in ctx.view.open_conversions():
        ctx.add(
            ConversionEnded(
                conversion_id=conversion.id,
                new=ConversionState.FAILED,
                reason=reason,
                detail=detail[:2000],
                artifact_digest=None,
                evidence={},
            )
        )
    for family in list(ctx.view.families.values()):
        if family.state is FamilyState.OPEN:
            ctx.add(
                e.FamilyMoved(
                    family_id=family.id,
                    current=family.state,
                    new=FamilyState.INCONCLUSIVE,
                    reason=Reason.STUDY_ENDED,
                    evidence={},
                )
            )
