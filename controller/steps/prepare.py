"""Prepared: freezes the study's inputs by digest and checks them, in a `prepare` attempt."""

import json
from typing import Final

from controller.steps import attempt_specs
from controller.steps.collect import describe, exit_reason
from controller.steps.context import StepContext
from controller.steps.ending import fail_study
from controller.steps.loading import INCUMBENT
from controller.steps.view import LiveAttempt
from evaluator.bundle import verify_bundle
from ledger import entries as e
from ledger.errors import ArtifactCorrupt, BundleChanged, NotFound
from ledger.records import AttemptKind, Json
from ledger.states import AttemptState, FaultClass, Reason, StudyState, fault_class

TIMEOUT_S: Final = 3600.0


def begin(ctx: StepContext) -> None:
    """submitted → preparing, once the bundle's bytes are what they were at submit."""
    if ctx.view.study.state is StudyState.SUBMITTED and is_bundle_intact(ctx):
        ctx.move(StudyState.PREPARING)


def is_bundle_intact(ctx: StepContext) -> bool:
    """Verify the frozen evaluator; a change of one byte fails the study, saying so."""
    if ctx.bundle is None:
        return True
    try:
        verify_bundle(ctx.store, ctx.bundle.digest)
    except (BundleChanged, ArtifactCorrupt, NotFound) as error:
        fail_study(ctx, Reason.BUNDLE_CHANGED, str(error))
        return False
    return True


def run(ctx: StepContext) -> None:
    if ctx.view.study.state is not StudyState.PREPARING:
        return
    attempt = ctx.view.prepare
    if attempt is None:
        _launch_or_skip(ctx)
    elif attempt.state is AttemptState.EXITED:
        _settle(ctx, attempt)


def _launch_or_skip(ctx: StepContext) -> None:
    inputs = ctx.view.study.inputs
    if not any(name != attempt_specs.CODE_INPUT for name in inputs):
        _freeze(ctx, {})
        return
    if ctx.clock.monotonic() < ctx.prepare_retry_at:
        return
    index = ctx.view.prepare_launches
    ctx.add(
        e.AttemptLaunching(
            attempt_id=f"{ctx.view.study.id}.prepare-{index}",
            trial_id=None,
            attempt_kind=AttemptKind.PREPARE,
            index=index,
            split=None,
            target=ctx.evaluating.name,
            host=ctx.settings.host,
            timeout_s=TIMEOUT_S,
        )
    )


def _freeze(ctx: StepContext, report: dict[str, Json]) -> None:
    inputs = dict(ctx.view.study.inputs)
    found: dict[str, Json] = {**report, INCUMBENT: ctx.view.incumbent}
    ctx.add(e.InputsFrozen(inputs=inputs, report=found))
    ctx.move(StudyState.RUNNING)


def _settle(ctx: StepContext, attempt: LiveAttempt) -> None:
    exited = attempt.exited
    if exited is None:
        raise ValueError(f"{attempt.id} is exited without an exit")
    reason = exit_reason(exited)
    if reason is not None:
        _fail(ctx, attempt, reason, describe(ctx, attempt, exited))
        return
    try:
        report = json.loads(ctx.target_of(attempt).score(attempt.handle or attempt.name))
        ok = report["ok"]
    except (ValueError, KeyError, TypeError) as error:
        _fail(ctx, attempt, Reason.PREPARE_FAILED, f"prepare wrote no report: {error}")
        return
    if ok is not True:
        contaminated = bool(report.get("contaminated"))
        why = Reason.CONTAMINATED if contaminated else Reason.PREPARE_FAILED
        _fail(ctx, attempt, why, str(report.get("error", "prepare refused the inputs")))
        return
    ctx.release_later(attempt)
    ctx.add(
        e.AttemptEnded(
            attempt_id=attempt.id,
            current=attempt.state,
            new=AttemptState.COLLECTED,
            reason=Reason.MEASURED,
            detail="",
        )
    )
    _freeze(ctx, report)


def _fail(ctx: StepContext, attempt: LiveAttempt, reason: Reason, detail: str) -> None:
    infrastructure = fault_class(reason) is FaultClass.INFRASTRUCTURE
    new = AttemptState.LOST if reason is Reason.ATTEMPT_LOST else AttemptState.REJECTED
    ctx.end_attempt(attempt, new, reason, detail)
    if infrastructure and attempt.index < ctx.view.spec.retries.infrastructure:
        ctx.prepare_retry_at = ctx.clock.monotonic() + 0.5 * 2**attempt.index
        return
    ended = reason if reason is Reason.CONTAMINATED else Reason.PREPARE_FAILED
    fail_study(ctx, ended, detail)
