"""Logs of a trial's attempts: which there are, and any range of one, as it grows."""

import threading
import time
from typing import Annotated, Any, Final

from fastapi import Path, Query, Request

from controller.api.models.attempts import LogOut, LogsOut
from controller.api.problems import documented
from controller.api.reading import LONGEST_NAME, Reader, TheService, TrialId, trial_named
from controller.api.routing import new_router
from controller.documents.log_text import LogReader, handle_of
from controller.documents.logs import log_document, whole_characters
from controller.wiring import Service
from ledger.attempt_reads import find_attempt
from ledger.errors import ArlError, NotFound
from ledger.records import Attempt
from ledger.states import ATTEMPT_TERMINAL, AttemptState
from targets.protocol import LogChunk

router = new_router("logs")

LOOK_EVERY_S: Final = 0.2
LONGEST_WAIT_S: Final = 20.0
WAITING: Final = threading.BoundedSemaphore(16)
"""Requests that wait for a log to grow; more of them are answered at once."""
_OVER: Final = frozenset({*ATTEMPT_TERMINAL, AttemptState.EXITED})

AttemptId = Annotated[str, Path(max_length=LONGEST_NAME, description="An attempt's id")]


@router.get("/trials/{trial}/logs", response_model=LogsOut, responses=documented(404))
def list_logs(_: Reader, service: TheService, trial: TrialId) -> dict[str, Any]:
    """Which logs a trial's attempts have on this server's machine."""
    with service.ledger.read() as session:
        detail = trial_named(session, trial)
    items = []
    for attempt in detail.attempts:
        chunk = _read(service, attempt, 0, 0)
        items.append(
            {
                "attempt": attempt.id,
                "kind": str(attempt.kind),
                "split": None if attempt.split is None else str(attempt.split),
                "state": str(attempt.state),
                "size_bytes": chunk.size,
                "is_here": chunk.size > 0,
            }
        )
    return {"trial": detail.trial.id, "items": items}


@router.get("/attempts/{attempt}/log", response_model=LogOut, responses=documented(404))
def read_log(
    request: Request,
    _: Reader,
    service: TheService,
    attempt: AttemptId,
    offset: Annotated[
        int,
        Query(ge=-(2**40), le=2**40, description="Byte to begin at; negative: from the end"),
    ] = 0,
    limit: Annotated[int, Query(ge=4, le=1024 * 1024, description="Bytes, at most")] = 64 * 1024,
    wait_s: Annotated[
        float,
        Query(
            ge=0,
            le=LONGEST_WAIT_S,
            description="To follow: wait so long for something new before answering",
        ),
    ] = 0.0,
) -> dict[str, Any]:
    """A range of what an attempt's program wrote, standard output and error together."""
    found = _attempt(service, attempt)
    size = _read(service, found, 0, 0).size
    begin = max(0, size + offset) if offset < 0 else offset
    chunk = _read(service, found, begin, limit)
    if not chunk.data and wait_s > 0 and WAITING.acquire(blocking=False):
        try:
            found, chunk = _awaited(service, found, begin, limit, wait_s)
        finally:
            WAITING.release()
    is_last = begin + len(chunk.data) >= chunk.size
    is_over = found.state in _OVER and is_last
    data = chunk.data if is_over else whole_characters(chunk.data)
    return log_document(found, data, begin, chunk.size, is_over=is_over)


def _attempt(service: Service, attempt_id: str) -> Attempt:
    with service.ledger.read() as session:
        found = None if "\0" in attempt_id else find_attempt(session, attempt_id)
    if found is None:
        raise NotFound("no attempt has that id")
    return found


def _read(service: Service, attempt: Attempt, offset: int, limit: int) -> LogChunk:
    """Nothing where the log is no longer kept, or on a machine that does not answer."""
    reader = LogReader(service.used_targets())
    try:
        return reader.read_log(handle_of(attempt), offset=offset, limit=limit)
    except (ArlError, OSError):
        return LogChunk(b"", offset, 0)


def _awaited(
    service: Service, attempt: Attempt, offset: int, limit: int, wait_s: float
) -> tuple[Attempt, LogChunk]:
    """The attempt and its log once there is more of it, it has ended, or the time is over."""
    until = time.monotonic() + wait_s
    while True:
        attempt = _attempt(service, attempt.id)
        chunk = _read(service, attempt, offset, limit)
        if chunk.data or attempt.state in _OVER or time.monotonic() >= until:
            return attempt, chunk
        time.sleep(LOOK_EVERY_S)
