"""Launched: writes the intent to run an attempt, and starts what is committed.

A launch has two halves. `plan` queues `attempt_launching` entries (the intent, with what they
reserve); after the commit `start` asks the target, which is idempotent on the attempt's name,
and queues `attempt_started`. A crash between the two is repaired by starting again.
"""

from dataclasses import replace
from typing import Final

from controller.decisions.budgets import attempt_timeout_s
from controller.steps import attempt_specs, convert_specs
from controller.steps.context import StepContext
from controller.steps.ending import fail_study
from controller.steps.view import LiveAttempt, LiveTrial
from ledger import entries as e
from ledger.errors import ArtifactCorrupt, BudgetExceeded, InvalidInput, NotFound
from ledger.records import AttemptKind, Resource, Split, TrialKind
from ledger.states import AttemptState, Reason, StudyState, TrialState
from targets.protocol import AttemptSpec

_LABELS: Final = {AttemptKind.TRAIN: "t", AttemptKind.CONVERT: "c", AttemptKind.EVALUATE: "m"}
"""Of attempts without a split, in their ids: an evaluation without one measures."""


def start(ctx: StepContext) -> None:
    """Start every committed intent that is not running yet, while the lease lasts."""
    for attempt in ctx.view.attempts():
        if ctx.lease_is_over():
            return  # a worker that was stopped for so long has to renew it first
        if attempt.state is AttemptState.LAUNCHING and attempt.committed and ctx.is_here(attempt):
            _start(ctx, attempt)


def _start(ctx: StepContext, attempt: LiveAttempt) -> None:
    spec = replace(_spec_of(ctx, attempt), launch_by=ctx.lease_until)
    trial = ctx.view.live.get(attempt.trial_id or "")
    try:
        handle = ctx.target_of(attempt).launch(spec)
    except InvalidInput as error:  # its target will never take it as it is
        _refuse(ctx, attempt, trial, Reason.LAUNCH_FAILED, str(error))
        return
    except (ArtifactCorrupt, NotFound) as error:  # what it reads is not what was stored
        alone = trial if trial is not None and _is_its_own(ctx, trial) else None
        _refuse(ctx, attempt, alone, Reason.ARTIFACT_CORRUPT, str(error))
        return
    ctx.add(
        e.AttemptStarted(
            attempt_id=attempt.id,
            trial_id=attempt.trial_id,
            handle=handle,
            trial_starts=trial is not None and trial.state is TrialState.PROPOSED,
        ),
        urgent=False,
    )
    ctx.news.add(handle)


def _refuse(
    ctx: StepContext, attempt: LiveAttempt, trial: LiveTrial | None, reason: Reason, detail: str
) -> None:
    """End the trial that another attempt would end like this one; None: the study, whose every
    trial would."""
    if trial is None:
        fail_study(ctx, reason, detail)
    else:
        ctx.end_attempt(attempt, AttemptState.LOST, reason, detail)
        ctx.end_trial(trial, TrialState.FAILED, reason, detail)


def _is_its_own(ctx: StepContext, trial: LiveTrial) -> bool:
    """Whether what changed in the store concerns this trial alone, and not the study's inputs."""
    if trial.kind is TrialKind.CONVERSION:
        return True
    try:
        for digest in (trial.model_digest, trial.resume_digest, trial.source_digest):
            if digest is not None:
                ctx.store.verify(digest)
    except (ArtifactCorrupt, NotFound):
        return True
    return False


def _spec_of(ctx: StepContext, attempt: LiveAttempt) -> AttemptSpec:
    if attempt.trial_id is None:
        return attempt_specs.prepare_spec(ctx, attempt)
    trial = ctx.view.live[attempt.trial_id]
    if attempt.kind is AttemptKind.CONVERT:
        return convert_specs.convert_spec(ctx, trial, attempt)
    if attempt.kind is AttemptKind.EVALUATE and attempt.split is None:
        return convert_specs.measure_spec(ctx, trial, attempt)
    if attempt.kind is AttemptKind.EVALUATE:
        return attempt_specs.evaluate_spec(ctx, trial, attempt)
    return attempt_specs.train_spec(ctx, trial, attempt)


def plan(ctx: StepContext) -> None:
    """Queue the next attempt of every trial that has none, where resources allow. One that has
    not begun waits while `parallel` others have: that may be less than when it was proposed."""
    now, live = ctx.clock.monotonic(), list(ctx.view.live.values())
    ctx.capacity.begin(ctx.view.study.id, ctx.view.spec, ctx.view.durations)
    slots = ctx.view.spec.parallel - sum(1 for trial in live if _has_begun(trial))
    for trial in live:
        is_new = not _has_begun(trial)
        if trial.attempt is None and trial.retry_at <= now and (slots > 0 or not is_new):
            _plan_next(ctx, trial)
            slots -= is_new and _has_begun(trial)
    ctx.capacity.end(ctx.view.study.id)


def _has_begun(trial: LiveTrial) -> bool:
    return trial.attempt is not None or trial.state is not TrialState.PROPOSED


def _plan_next(ctx: StepContext, trial: LiveTrial) -> None:
    if trial.state in (TrialState.PROPOSED, TrialState.RUNNING):
        if trial.state is TrialState.PROPOSED and ctx.view.study.state is StudyState.PAUSED:
            return  # a pause holds back what has not started; the rest goes on
        converts = trial.kind is TrialKind.CONVERSION
        kind = AttemptKind.CONVERT if converts else AttemptKind.TRAIN
        if _admit(ctx, trial, kind):
            _intend(ctx, trial, kind, None)
    elif trial.state is TrialState.EVALUATING and ctx.bundle is not None:
        if _admit(ctx, trial, AttemptKind.EVALUATE):
            _intend(ctx, trial, AttemptKind.EVALUATE, _next_split(trial))


def _next_split(trial: LiveTrial) -> Split | None:
    """What to evaluate next; None to measure a converted model, which comes first."""
    if trial.kind is TrialKind.CONVERSION and trial.measured is None:
        return None
    return next(s for s in trial.splits if s not in trial.scores)


def _admit(ctx: StepContext, trial: LiveTrial, kind: AttemptKind) -> bool:
    """Whether the machine has room and it is the study's turn; a trial keeps what it was granted
    until it ends. What runs elsewhere is admitted there."""
    if ctx.target_for(kind).is_shared:
        return True
    grant = ctx.capacity.take(ctx.view.study.id, trial.id)
    if grant is None:
        return False
    trial.gpu_ids = grant.gpu_ids
    return True


def _intend(ctx: StepContext, trial: LiveTrial, kind: AttemptKind, split: Split | None) -> None:
    spec = ctx.view.spec
    evaluates = kind is AttemptKind.EVALUATE
    wall = spec.evaluator.wall_time_s if evaluates else spec.resources.wall_time_s
    timeout_s = attempt_timeout_s(
        wall, ctx.view.budgets.get(Resource.WALL_S), ctx.active_s(), kind=trial.kind
    )
    index = trial.next_index(kind, split)
    label = f"e-{split}" if split is not None else _LABELS[kind]
    gpu_s = ctx.view.gpu_seconds(kind, timeout_s)
    try:
        ctx.check_room(Resource.GPU_S, gpu_s)
    except BudgetExceeded as error:
        ctx.end_trial(trial, TrialState.FAILED, Reason.BUDGET_GPU_HOURS, str(error))
        return
    ctx.add(
        e.AttemptLaunching(
            attempt_id=f"{trial.id}.{label}-{index}",
            trial_id=trial.id,
            attempt_kind=kind,
            index=index,
            split=split,
            target=ctx.target_for(kind).name,
            host=ctx.settings.host,
            timeout_s=timeout_s,
            gpu_s=gpu_s,
        )
    )
