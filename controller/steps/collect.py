"""Collected: turns an ended training (or converting) attempt into stored artifacts, or into a
typed failure."""

from typing import Final

from controller.decisions.retries import decide_retry
from controller.steps.context import StepContext
from controller.steps.prune import find_stop
from controller.steps.view import LiveAttempt, LiveTrial
from evaluator.collector import (
    ROLE_DIRS,
    Collected,
    CollectedTree,
    CollectLimits,
    Refused,
    collect,
)
from inner_trials import contract
from ledger import entries as e
from ledger.errors import Conflict, NotFound
from ledger.records import ArtifactRole, AttemptKind
from ledger.states import AttemptState, Reason, TrialState
from targets.protocol import ExitCause

CAUSES: Final = {
    ExitCause.DEADLINE: Reason.TIMED_OUT,
    ExitCause.STALLED: Reason.STALLED,
    ExitCause.OUT_OF_MEMORY: Reason.OUT_OF_MEMORY,
    ExitCause.TOO_MANY_PROCESSES: Reason.TOO_MANY_PROCESSES,
    ExitCause.TOO_MUCH_DATA: Reason.TOO_MUCH_DATA,
    ExitCause.IMAGE_MISSING: Reason.IMAGE_MISSING,
    ExitCause.LAUNCH_FAILED: Reason.LAUNCH_FAILED,
    ExitCause.LOST: Reason.ATTEMPT_LOST,
    # We end attempts for a reason we know; one that nobody here asked for was lost.
    ExitCause.KILLED: Reason.ATTEMPT_LOST,
    ExitCause.STOPPED: Reason.ATTEMPT_LOST,
}
SAID: Final = {
    contract.EXIT_OUT_OF_MEMORY: Reason.OUT_OF_MEMORY,
    contract.EXIT_NOT_FINITE: Reason.NOT_FINITE,
    contract.EXIT_RANK_LOST: Reason.CRASHED,
    contract.EXIT_ACTORS_LOST: Reason.ACTORS_LOST,
}
LOG_TAIL_BYTES: Final = 600


def run(ctx: StepContext) -> None:
    for trial in list(ctx.view.live.values()):
        attempt = trial.attempt
        if (
            attempt is not None
            and attempt.kind in (AttemptKind.TRAIN, AttemptKind.CONVERT)
            and attempt.state is AttemptState.EXITED
        ):
            _settle(ctx, trial, attempt)


def exit_reason(exited: e.AttemptExited) -> Reason | None:
    """Why an attempt's exit is a failure; None when the program ended well."""
    reason = CAUSES.get(ExitCause(exited.cause))
    if reason is not None:
        return reason
    if exited.exit_code == 0:
        return None
    return Reason.CRASHED if (exited.exit_code or -1) < 0 else Reason.EXIT_NONZERO


def training_reason(exited: e.AttemptExited) -> Reason | None:
    """The same of a training program, which may say by its exit status what ended it."""
    reason = exit_reason(exited)
    return SAID.get(exited.exit_code or 0, reason) if reason is Reason.EXIT_NONZERO else reason


def _settle(ctx: StepContext, trial: LiveTrial, attempt: LiveAttempt) -> None:
    exited = attempt.exited
    if exited is None:
        raise ValueError(f"{attempt.id} is exited without an exit")
    pruned = find_stop(ctx, trial, attempt, exited)
    if pruned is not None:
        ctx.end_attempt(attempt, AttemptState.CANCELLED, pruned, "stopped as asked")
        ctx.end_trial(trial, TrialState.PRUNED, pruned, _pruned_at(trial))
        return
    failure = training_reason(exited)
    if failure is None:
        _collect(ctx, trial, attempt)
    elif _keep_resume(ctx, trial, attempt):
        fail_attempt(ctx, trial, attempt, failure, describe(ctx, attempt, exited))


def _pruned_at(trial: LiveTrial) -> str:
    return f"at step {trial.curve[-1][0]}" if trial.curve else ""


def _read_outputs(ctx: StepContext, attempt: LiveAttempt) -> Collected | Refused | None:
    """None while they are read beside the loop: a checkpoint is large, and a remote target
    fetches it when it is looked at. Raises Conflict, NotFound, OSError."""
    limits = CollectLimits(total_bytes=ctx.view.spec.resources.output_bytes)
    left = ctx.target_of(attempt).outputs(attempt.handle or attempt.name)
    # What a command says of itself is no fact: a candidate may have written it.
    is_ours = ctx.view.spec.program.kind != "command"
    roles = {r: d for r, d in ROLE_DIRS.items() if is_ours or r is not ArtifactRole.FACTS}
    return ctx.collecting.result(
        attempt.id, lambda: collect(left.root, ctx.store, role_dirs=roles, limits=limits)
    )


def _collect(ctx: StepContext, trial: LiveTrial, attempt: LiveAttempt) -> None:
    try:
        found = _read_outputs(ctx, attempt)
    except Conflict:
        return  # something of it still runs; the target is ending it
    except NotFound as error:  # its machine went before they were fetched
        fail_attempt(ctx, trial, attempt, Reason.ATTEMPT_LOST, str(error))
        return
    if found is None:
        return
    if isinstance(found, Refused):
        fail_attempt(ctx, trial, attempt, Reason.OUTPUT_REFUSED, found.reason)
        return
    evaluator = ctx.view.spec.evaluator
    if not found.model.files and evaluator.requires_model and evaluator.mode != "reported":
        detail = f"exited 0 but left nothing in {contract.OUTPUT}/{contract.MODEL_DIR}. "
        fail_attempt(ctx, trial, attempt, Reason.NO_MODEL, detail + _log_tail(ctx, attempt))
        return
    ctx.release_later(attempt)
    if found.rollouts.files:
        _record(ctx, trial, attempt, ArtifactRole.ROLLOUTS, found.rollouts)
    if found.facts.files:
        _record(ctx, trial, attempt, ArtifactRole.FACTS, found.facts)
    _record(ctx, trial, attempt, ArtifactRole.MODEL, found.model)


def _record(
    ctx: StepContext,
    trial: LiveTrial,
    attempt: LiveAttempt,
    role: ArtifactRole,
    tree: CollectedTree,
) -> None:
    """Queue an artifact. The model is what the attempt was for, and ends it."""
    ctx.add(
        e.ArtifactRecorded(
            attempt_id=attempt.id,
            trial_id=trial.id,
            digest=tree.digest,
            role=role,
            files=tree.files,
            size_bytes=tree.size_bytes,
            collects=role is ArtifactRole.MODEL,
        )
    )


def _keep_resume(ctx: StepContext, trial: LiveTrial, attempt: LiveAttempt) -> bool:
    """Save the resume checkpoint of an attempt that failed, for the one that follows it; False
    while it is being read."""
    try:
        found = _read_outputs(ctx, attempt)
    except (Conflict, NotFound, OSError):
        return True  # lost with its machine: the next attempt starts over
    if isinstance(found, Collected) and found.resume.files:
        _record(ctx, trial, attempt, ArtifactRole.RESUME, found.resume)
    return found is not None


def fail_attempt(
    ctx: StepContext, trial: LiveTrial, attempt: LiveAttempt, reason: Reason, detail: str
) -> None:
    """End an attempt that brought nothing; retry it or fail its trial by whose fault it was."""
    lost = reason in (Reason.ATTEMPT_LOST, Reason.HOST_GONE)
    ctx.end_attempt(attempt, AttemptState.LOST if lost else AttemptState.REJECTED, reason, detail)
    retry = decide_retry(
        reason, trial.failures, ctx.view.spec.retries, seed=trial.seed, kind=trial.kind
    )
    if retry is None:
        ctx.end_trial(trial, TrialState.FAILED, reason, detail)
    else:
        trial.retry_at = ctx.clock.monotonic() + retry.delay_s


def describe(ctx: StepContext, attempt: LiveAttempt, exited: e.AttemptExited) -> str:
    """What a person wants to read first: how it ended and the end of its log."""
    if exited.exit_code is None:
        ending = exited.cause
    elif exited.exit_code < 0:
        ending = f"{exited.cause}, signal {-exited.exit_code}"
    else:
        ending = f"{exited.cause}, exit code {exited.exit_code}"
    parts = [ending, exited.detail, _log_tail(ctx, attempt)]
    return ". ".join(part for part in parts if part)


def _log_tail(ctx: StepContext, attempt: LiveAttempt) -> str:
    handle = attempt.handle or attempt.name
    target = ctx.target_of(attempt)
    size = target.read_log(handle, offset=0, limit=0).size
    chunk = target.read_log(handle, offset=max(0, size - LOG_TAIL_BYTES), limit=LOG_TAIL_BYTES)
    text = chunk.data.decode("utf-8", "replace")
    printable = "".join(c if c.isprintable() or c == "\n" else " " for c in text).strip()
    return f"log ends: {printable}" if printable else ""
