"""Evaluated: reads the score an evaluate attempt left on its own channel; nothing else counts."""

import math

from controller.steps.collect import describe, exit_reason, fail_attempt
from controller.steps.context import StepContext
from controller.steps.view import LiveAttempt, LiveTrial
from evaluator.measurements import parse_measurement
from evaluator.scores import ScoreRefused, parse_scores
from inner_trials import contract
from ledger import entries as e
from ledger.conversion_entries import ConversionMeasured
from ledger.digests import json_digest
from ledger.records import AttemptKind, Split
from ledger.states import AttemptState, FaultClass, Reason, TrialState, fault_class
from targets.protocol import ExitCause


def run(ctx: StepContext) -> None:
    for trial in list(ctx.view.live.values()):
        if trial.state is not TrialState.EVALUATING:
            continue
        if ctx.bundle is None:
            _take_reported(ctx, trial)
            continue
        attempt = trial.attempt
        if (
            attempt is not None
            and attempt.kind is AttemptKind.EVALUATE
            and attempt.state is AttemptState.EXITED
        ):
            _settle(ctx, trial, attempt)


def _settle(ctx: StepContext, trial: LiveTrial, attempt: LiveAttempt) -> None:
    exited, split = attempt.exited, attempt.split
    if exited is None or ctx.bundle is None or trial.model_digest is None:
        raise ValueError(f"{attempt.id} is not an ended evaluation")
    reason = exit_reason(exited)
    if reason is not None:
        blamed = _whose_fault(reason, exited)
        fail_attempt(ctx, trial, attempt, blamed, describe(ctx, attempt, exited))
        return
    raw = ctx.target_of(attempt).score(attempt.handle or attempt.name)
    if split is None:
        _take_measurement(ctx, trial, attempt, raw)
        return
    metric = ctx.view.spec.objective.metric
    scores = parse_scores(raw, metrics=ctx.bundle.metrics, objective=metric)
    if isinstance(scores, ScoreRefused):
        fail_attempt(ctx, trial, attempt, Reason.EVALUATOR_ERROR, scores.reason)
        return
    ctx.release_later(attempt)
    ctx.add(
        e.TrialEvaluated(
            attempt_id=attempt.id,
            trial_id=trial.id,
            split=split,
            bundle_digest=ctx.bundle.digest,
            artifact_digest=trial.model_digest,
            value=scores.value,
            scores=scores.metrics,
            items_digest=json_digest(list(scores.items)) if scores.items else None,
            items=scores.items,
            last=all(s in trial.scores or s is split for s in trial.splits),
        )
    )


def _take_measurement(
    ctx: StepContext, trial: LiveTrial, attempt: LiveAttempt, raw: bytes
) -> None:
    """Of a converted model, by our own program; its figures change no score."""
    report = parse_measurement(raw)
    if isinstance(report, ScoreRefused):
        fail_attempt(ctx, trial, attempt, Reason.EVALUATOR_ERROR, report.reason)
        return
    ctx.release_later(attempt)
    ctx.add(ConversionMeasured(attempt_id=attempt.id, trial_id=trial.id, report=report))


def _whose_fault(reason: Reason, exited: e.AttemptExited) -> Reason:
    """An evaluation that fails is the evaluator's fault, unless the machine's; only the frozen
    evaluator itself may say that the artifact is to blame."""
    if fault_class(reason) is FaultClass.INFRASTRUCTURE:
        return reason
    refused = exited.cause == ExitCause.EXITED and exited.exit_code == contract.EXIT_REFUSED
    return Reason.OUTPUT_REFUSED if refused else Reason.EVALUATOR_ERROR


def _take_reported(ctx: StepContext, trial: LiveTrial) -> None:
    """`reported` mode: the program's own last word, marked as such by its empty bundle."""
    value = trial.last_reported
    metric = ctx.view.spec.objective.metric
    if value is None:
        detail = f"the program never reported {metric!r}"
        ctx.end_trial(trial, TrialState.FAILED, Reason.NO_METRIC, detail)
    elif not math.isfinite(value):
        detail = f"the last reported {metric!r} is {value}"
        ctx.end_trial(trial, TrialState.FAILED, Reason.NOT_FINITE, detail)
    else:
        ctx.add(
            e.TrialEvaluated(
                attempt_id=f"{trial.id}.t-{trial.next_index(AttemptKind.TRAIN, None) - 1}",
                trial_id=trial.id,
                split=Split.SEARCH,
                bundle_digest="",
                artifact_digest=trial.model_digest or "",
                value=value,
                scores={metric: value},
                items_digest=None,
                last=True,
            )
        )
