"""The row changes of the service chain's entries."""

from typing import Final

from sqlalchemy import bindparam, select

from ledger.database import WriteSession
from ledger.errors import Conflict, NotFound
from ledger.projection import printable
from ledger.service_entries import IncumbentSet, ServiceEntry, TokenCreated, TokenRevoked
from ledger.statements import Row, Statement, guarded_update, insert_row
from ledger.tables import Base

_TABLES: Final = Base.metadata.tables
_INCUMBENTS: Final = _TABLES["incumbents"]
_TOKENS: Final = _TABLES["tokens"]
_INSERT_INCUMBENT: Final = insert_row(_INCUMBENTS)
_LATEST_INCUMBENT: Final = Statement(
    select(_INCUMBENTS.c.seq, _INCUMBENTS.c.candidate_id, _INCUMBENTS.c.study_id)
    .where(_INCUMBENTS.c.model == bindparam("model"))
    .order_by(_INCUMBENTS.c.seq.desc())
)
_INSERT_TOKEN: Final = insert_row(_TOKENS)
_REVOKE_TOKEN: Final = guarded_update(_TOKENS, "revoked_at")


def project_service(session: WriteSession, entry: ServiceEntry, at: float) -> None:
    """Change the rows that the entry is about. Raises Conflict, NotFound."""
    if isinstance(entry, IncumbentSet):
        _insert_incumbent(session, entry, at)
    elif isinstance(entry, TokenCreated):
        _insert_token(session, entry, at)
    elif isinstance(entry, TokenRevoked):
        _revoke_token(session, entry, at)
    # A request that was made, and what is served, have no rows: the chain itself is read.


def _insert_incumbent(session: WriteSession, entry: IncumbentSet, at: float) -> None:
    """Compare and set: the new pointer is the next in its model's history, or Conflict."""
    latest = session.fetch(_LATEST_INCUMBENT, {"model": entry.model})
    present = latest[0][0] if latest else 0
    if entry.seq != present + 1:
        holder = f"candidate {latest[0][1]} of study {latest[0][2]}" if latest else "none"
        raise Conflict(
            f"model {entry.model}: its incumbent is number {present} ({holder}) now, so "
            f"{entry.candidate_id} may not become number {entry.seq}"
        )
    row: Row = {
        "model": entry.model,
        "seq": entry.seq,
        "candidate_id": entry.candidate_id,
        "study_id": entry.study_id,
        "family_id": entry.family_id,
        "comparison": entry.comparison,
        "approver": entry.approver,
        "note": printable(entry.note),
        "created_at": at,
    }
    session.run(_INSERT_INCUMBENT, [row])


def _insert_token(session: WriteSession, entry: TokenCreated, at: float) -> None:
    row: Row = {
        "id": entry.token_id,
        "name": printable(entry.name),
        "digest": entry.digest,
        "scopes": " ".join(entry.scopes),
        "created_at": at,
        "expires_at": entry.expires_at,
        "revoked_at": None,
    }
    session.run(_INSERT_TOKEN, [row])


def _revoke_token(session: WriteSession, entry: TokenRevoked, at: float) -> None:
    if session.run(_REVOKE_TOKEN, [{"by_id": entry.token_id, "revoked_at": at}]) != 1:
        raise NotFound(f"no token has the id {entry.token_id}: `arl token list` lists them")
