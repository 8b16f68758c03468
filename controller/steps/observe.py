"""Observed: reads what running attempts reported and how they ended; asks doomed ones to stop."""

from typing import Final

from controller.steps.context import StepContext
from controller.steps.prune import ask_to_stop
from controller.steps.requests import record_requests
from controller.steps.view import LiveAttempt, LiveTrial
from evaluator.pruning import bounded_curve
from ledger import entries as e
from ledger.digests import sha256_hex, values_json
from ledger.records import AttemptKind, IntermediateValue
from ledger.states import AttemptState
from targets.protocol import Exit, NetworkRequest

MAX_READS: Final = 64
"""Observations of one attempt in one tick: a flood of reports must not hold up the others."""


def run(ctx: StepContext) -> None:
    for attempt in ctx.view.attempts():
        handle = attempt.handle
        if attempt.state is not AttemptState.RUNNING or handle is None:
            continue
        if handle in ctx.news and ctx.is_here(attempt):
            ctx.news.discard(handle)
            _observe(ctx, attempt, handle)


def _observe(ctx: StepContext, attempt: LiveAttempt, handle: str) -> None:
    trial = ctx.view.live.get(attempt.trial_id or "")
    values: list[IntermediateValue] = []
    requests: list[NetworkRequest] = []
    ended: Exit | None = None
    for _ in range(MAX_READS):
        seen = ctx.target_of(attempt).observe(handle, cursor=attempt.cursor)
        attempt.cursor = seen.cursor
        values.extend(seen.values)
        requests.extend(seen.requests)
        ended = seen.exit
        if not seen.more:
            break
    else:
        ctx.news.add(handle)
        ended = None
    record_requests(ctx, attempt, requests, ended=ended is not None)
    if trial is not None and attempt.kind is AttemptKind.TRAIN:
        _record_values(ctx, attempt, trial, values)
        if ended is None:
            ask_to_stop(ctx, attempt, trial, handle)
    if ended is not None:
        ctx.add(
            e.AttemptExited(
                attempt_id=attempt.id,
                exit_code=ended.code,
                cause=str(ended.cause),
                detail=ended.detail[:2000],
                wall_s=round(ended.wall_s, 6),
                cpu_s=round(ended.cpu_s, 6),
                max_rss_bytes=ended.max_rss_bytes,
                gpu_s=round(ended.wall_s * ctx.view.spec.resources.gpus, 6)
                if attempt.kind is not AttemptKind.PREPARE
                else 0.0,
            )
        )


def _record_values(
    ctx: StepContext, attempt: LiveAttempt, trial: LiveTrial, values: list[IntermediateValue]
) -> None:
    # After a crash the reports are read from their start again; what the ledger has is skipped.
    fresh = values[attempt.skip_values :]
    attempt.skip_values = max(0, attempt.skip_values - len(values))
    if not fresh:
        return
    _follow(ctx, trial, fresh)
    ctx.add(
        e.ValuesReported(
            attempt_id=attempt.id,
            trial_id=trial.id,
            sequence=attempt.value_batches,
            count=len(fresh),
            digest=sha256_hex(values_json(fresh).encode()),
            values=tuple(fresh),
        ),
        urgent=False,
    )
    attempt.value_batches += 1


def _follow(ctx: StepContext, trial: LiveTrial, values: list[IntermediateValue]) -> None:
    """Keep the curve pruning reads and the last reported objective, both bounded in size."""
    spec = ctx.view.spec
    pruned_by = spec.pruning.metric or spec.objective.metric
    for value in values:
        if value.metric == spec.objective.metric:
            trial.last_reported = value.value
        if value.metric == pruned_by:
            trial.curve = bounded_curve([*trial.curve, (value.step, value.value)])
