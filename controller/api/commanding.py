"""Asks something of a study for a client, and waits for the answer as long as it wants."""

import threading
import time
from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import Query

from controller.api.mutations import Mutation
from controller.api.strict_json import StrictResponse
from controller.wiring import Service
from ledger import reads, summaries, writes
from ledger.database import WriteSession
from ledger.errors import Conflict
from ledger.records import CommandVerb, Json

POLL_S: Final = 0.05
LONGEST_WAIT_S: Final = 30.0
WAITING: Final = threading.BoundedSemaphore(16)
"""Requests that wait for a worker; more of them are answered at once: waiting holds a thread."""

Wait = Annotated[
    float,
    Query(
        ge=0,
        le=LONGEST_WAIT_S,
        description="Seconds to wait for the worker's answer; a refusal is a 409 then.",
    ),
]


def ask(
    change: Mutation,
    study_id: str,
    verb: CommandVerb,
    arguments: Mapping[str, Json],
    *,
    wait_s: float,
) -> StrictResponse:
    """202 with how the request stands. Raises NotFound; Conflict when it was refused in time."""

    def act(session: WriteSession) -> dict[str, Json]:
        actor = change.principal.actor
        return {"command": writes.insert_command(session, study_id, verb, arguments, actor)}

    done = change.run(act, status=202)
    command_id = int(done.document["command"])
    may_wait = wait_s > 0 and WAITING.acquire(blocking=False)
    try:
        until = time.monotonic() + (wait_s if may_wait else 0.0)
        document = _answered(change.service, study_id, verb, command_id, until)
    finally:
        if may_wait:
            WAITING.release()
    if document["answer"] == "refused" and wait_s:
        raise Conflict(document["detail"])
    headers = {"Idempotency-Replayed": "true"} if done.replayed else None
    return StrictResponse(document, 202, headers=headers)


def _answered(
    service: Service, study_id: str, verb: CommandVerb, command_id: int, until: float
) -> dict[str, Any]:
    while True:
        with service.ledger.read() as session:
            answer = summaries.command_answers(session, [command_id])[command_id]
            study = reads.get_study(session, study_id)
        if answer.state != "pending" or time.monotonic() >= until:
            return {
                "command": command_id,
                "study": study_id,
                "verb": str(verb),
                "answer": answer.state,
                "detail": answer.detail,
                "state": str(study.state),
                "reason": None if study.reason is None else str(study.reason),
            }
        time.sleep(POLL_S)
