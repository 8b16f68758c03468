"""The row changes of the service chain's entries."""

from typing import Final

from ledger.database import WriteSession
from ledger.errors import NotFound
from ledger.project_registry import project_registry
from ledger.projection import printable
from ledger.service_entries import RegistryEntry, ServiceEntry, TokenCreated, TokenRevoked
from ledger.statements import Row, guarded_update, insert_row
from ledger.tables import Base

_TABLES: Final = Base.metadata.tables
_TOKENS: Final = _TABLES["tokens"]
_INSERT_TOKEN: Final = insert_row(_TOKENS)
_REVOKE_TOKEN: Final = guarded_update(_TOKENS, "revoked_at")


def project_service(session: WriteSession, entry: ServiceEntry, at: float) -> None:
    """Change the rows that the entry is about. Raises Conflict, NotFound."""
    if isinstance(entry, RegistryEntry):
        project_registry(session, entry, at)
    elif isinstance(entry, TokenCreated):
        _insert_token(session, entry, at)
    elif isinstance(entry, TokenRevoked):
        _revoke_token(session, entry, at)
    # A request that was made, what is served, and campaigns have no rows: the chain is read.


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
