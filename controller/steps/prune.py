"""Pruned: asks a trial that cannot win to stop, and tells by an attempt's end that it did."""

from controller.steps.context import StepContext
from controller.steps.view import LiveAttempt, LiveTrial
from evaluator.pruning import REASONS, OtherCurve, decide_pruning, pack_curve
from ledger import entries as e
from ledger.records import TrialKind
from ledger.states import Reason
from targets.protocol import ExitCause


def ask_to_stop(ctx: StepContext, attempt: LiveAttempt, trial: LiveTrial, handle: str) -> None:
    """If it cannot win; once is enough."""
    if attempt.stop_asked is None:
        attempt.stop_asked = find_verdict(ctx, trial)
        if attempt.stop_asked is not None:
            ctx.target_of(attempt).request_stop(handle)


def find_verdict(ctx: StepContext, trial: LiveTrial) -> Reason | None:
    """What the study's pruner says of the trial by now; only search trials are ever pruned."""
    spec = ctx.view.spec
    if trial.kind is not TrialKind.SEARCH or not trial.curve:
        return None
    settings = spec.pruning.settings()
    return decide_pruning(
        settings,
        curve=trial.curve,
        finished=ctx.view.curves,
        direction=spec.pruning.direction or spec.objective.direction,
        others=_others(ctx, trial) if settings.compares_all else (),
        number=trial.number,
    )


def _others(ctx: StepContext, trial: LiveTrial) -> list[OtherCurve]:
    """What every other search trial has come to by now."""
    running = (
        OtherCurve(other.number, pack_curve(other.curve), is_complete=False)
        for other in ctx.view.live.values()
        if other is not trial and other.kind is TrialKind.SEARCH and other.curve
    )
    return [*ctx.view.other_curves, *running]


def find_stop(
    ctx: StepContext, trial: LiveTrial, attempt: LiveAttempt, exited: e.AttemptExited
) -> Reason | None:
    """Why the attempt was stopped, when it ended because pruning asked it to, in time or by
    force; None when something else ended it.

    What a worker asked that died before the end is not in the ledger. A program that obeyed was
    asked; of one that was killed the pruner is asked again, since others kill, too.
    """
    if attempt.stop_asked is not None:
        return attempt.stop_asked if exited.exit_code != 0 else None
    named = REASONS.get(ctx.view.spec.pruning.name)
    if trial.kind is not TrialKind.SEARCH or named is None:
        return None
    if exited.cause == ExitCause.STOPPED:
        return find_verdict(ctx, trial) or named
    return find_verdict(ctx, trial) if exited.cause == ExitCause.KILLED else None
