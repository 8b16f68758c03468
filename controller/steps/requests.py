"""Records what attempts asked of the network: every request once, and of a flood the count."""

import time
from collections.abc import Sequence
from typing import Final

from controller.steps.context import StepContext
from controller.steps.view import LiveAttempt
from ledger import entries as e
from ledger.digests import json_digest
from ledger.errors import TargetUnavailable
from ledger.records import AttemptKind, Json
from ledger.states import AttemptState
from targets.protocol import NetworkRequest

KEPT: Final = 1000
"""Requests of one attempt that are recorded each; the others together, once it ended."""
_BATCH: Final = 200
_END_PATIENCE_S: Final = 10.0


def record_requests(
    ctx: StepContext, attempt: LiveAttempt, requests: Sequence[NetworkRequest], *, ended: bool
) -> None:
    # After a crash they are read from their start again; what the ledger has is skipped.
    fresh = requests[attempt.skip_requests :]
    attempt.skip_requests = max(0, attempt.skip_requests - len(requests))
    room = max(0, KEPT - attempt.requests_kept)
    for start in range(0, min(room, len(fresh)), _BATCH):
        _record(ctx, attempt, fresh[start : min(start + _BATCH, room)], keep=True)
    attempt.requests_over.extend(fresh[room:])
    if ended and attempt.requests_over:
        _record(ctx, attempt, attempt.requests_over, keep=False)


def _record(
    ctx: StepContext, attempt: LiveAttempt, requests: Sequence[NetworkRequest], *, keep: bool
) -> None:
    documents = [document_of(request) for request in requests]
    ctx.add(
        e.NetworkRequested(
            attempt_id=attempt.id,
            trial_id=attempt.trial_id,
            sequence=attempt.request_batches,
            count=len(requests),
            refused=sum(1 for request in requests if not request.allowed),
            sent_bytes=sum(request.sent_bytes for request in requests),
            received_bytes=sum(request.received_bytes for request in requests),
            digest=json_digest(documents),
            requests=tuple(documents) if keep else (),
        ),
        urgent=False,
    )
    attempt.request_batches += 1
    attempt.requests_kept += len(requests)


def document_of(request: NetworkRequest) -> dict[str, Json]:
    return {
        "at": request.at,
        "method": request.method,
        "host": request.host,
        "port": request.port,
        "allowed": request.allowed,
        "detail": request.detail,
        "sent": request.sent_bytes,
        "received": request.received_bytes,
    }


def record_last_requests(ctx: StepContext, attempt: LiveAttempt) -> None:
    """Of an attempt that is cancelled, which nobody will observe again: it is ended first, so
    that what it has open is recorded too. Does nothing where there is no network."""
    handle = attempt.handle or attempt.name
    runs = attempt.state in (AttemptState.LAUNCHING, AttemptState.RUNNING)
    if not ctx.view.spec.target.egress or not runs or not ctx.is_here(attempt):
        return
    if attempt.kind not in (AttemptKind.PREPARE, AttemptKind.TRAIN):
        return
    if ctx.lease_is_over():
        return  # it may be another worker's by now: nothing is done before the fence has said
    target, until = ctx.target_of(attempt), time.monotonic() + _END_PATIENCE_S
    try:
        target.kill(handle)
        while True:
            seen = target.observe(handle, cursor=attempt.cursor)
            attempt.cursor = seen.cursor
            over = seen.exit is not None and not seen.more
            over = over or time.monotonic() > until
            record_requests(ctx, attempt, seen.requests, ended=over)
            if over:
                return
            if not seen.more:
                target.wait({handle}, 0.5)
    except TargetUnavailable:
        return  # what it asked for stays with its target
