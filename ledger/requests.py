"""Rows that others than a study's worker write: commands and idempotency keys."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete, insert, select, text

from ledger.database import ReadSession, WriteSession
from ledger.digests import canonical_json
from ledger.errors import Conflict, InvalidInput, NotFound
from ledger.records import CommandVerb, Json
from ledger.statements import Row, Statement, guarded_update
from ledger.states import StudyState
from ledger.tables import Base

_TABLES: Final = Base.metadata.tables
_COMMANDS: Final = _TABLES["commands"]
_STUDIES: Final = _TABLES["studies"]
_KEYS: Final = _TABLES["idempotency_keys"]

_INSERT_KEY: Final = Statement(
    text(
        "INSERT INTO idempotency_keys (key, request_digest, status, response, created_at) "
        "VALUES (:key, :request_digest, NULL, NULL, :created_at) ON CONFLICT (key) DO NOTHING"
    )
)
_FINISH_KEY: Final = guarded_update(_KEYS, "status", "response", key="key")


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """What an earlier request with the same key was answered; None while it still runs."""

    status: int | None
    response: str | None


def insert_command(
    session: WriteSession,
    study_id: str,
    verb: CommandVerb,
    arguments: Mapping[str, Json],
    actor: str,
) -> int:
    """Ask something of a study; its worker applies it. Returns the command's id.

    Raises:
        NotFound: there is no such study.
        Conflict: another tool ran it, and nothing drives it here.
    """
    known = select(_STUDIES.c.state).where(_STUDIES.c.id == study_id)
    state = session.connection.execute(known).scalar()
    if state is None:
        raise NotFound(f"no study has the id {study_id}: `arl studies` lists them")
    if state == StudyState.IMPORTED:
        raise Conflict(
            f"{verb}: study {study_id} was imported: it is another tool's history, which is never "
            "run, compared or promoted; `arl import … --study-file FILE` begins a study of yours"
        )
    result = session.connection.execute(
        insert(_COMMANDS)
        .values(
            study_id=study_id,
            verb=str(verb),
            arguments=canonical_json(dict(arguments)),
            actor=actor,
            state="pending",
            detail="",
            created_at=session.now(),
        )
        .returning(_COMMANDS.c.id)
    )
    return int(result.scalar_one())


def claim_idempotency_key(
    session: WriteSession, key: str, request_digest: str
) -> StoredAnswer | None:
    """Reserve a key for this request: None when it is new, else what the first one was answered.

    Raises:
        InvalidInput: the key was used for a different request.
    """
    row: Row = {"key": key, "request_digest": request_digest, "created_at": session.now()}
    if session.run(_INSERT_KEY, [row]) == 1:
        return None
    return find_idempotency_key(session, key, request_digest)


def find_idempotency_key(
    session: ReadSession, key: str, request_digest: str
) -> StoredAnswer | None:
    """What an earlier request with this key was answered; None when there was none.

    Raises:
        InvalidInput: the key was used for a different request.
    """
    query = select(_KEYS.c.request_digest, _KEYS.c.status, _KEYS.c.response)
    found = session.connection.execute(query.where(_KEYS.c.key == key)).first()
    if found is None:
        return None
    if found[0] != request_digest:
        raise InvalidInput(
            f"idempotency key {key}: it was used for another request; use a new one"
        )
    return StoredAnswer(found[1], found[2])


def forget_idempotency_keys(session: WriteSession, *, before: float) -> None:
    """Those claimed before then (seconds since the epoch): they may be used anew."""
    session.connection.execute(delete(_KEYS).where(_KEYS.c.created_at < before))


def finish_idempotency_key(session: WriteSession, key: str, status: int, response: str) -> None:
    """Keep the answer for later requests with the same key."""
    if session.run(_FINISH_KEY, [{"by_key": key, "status": status, "response": response}]) != 1:
        raise NotFound(f"idempotency key {key} was never claimed")
