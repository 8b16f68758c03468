"""Making access tokens: what each may do, and what of it is kept."""

import hashlib
import secrets
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from ledger.database import Ledger, WriteSession
from ledger.service_entries import TokenCreated, TokenRevoked
from ledger.writes import append_service

PREFIX: Final = "arl_"
SECRET_BYTES: Final = 32


class Scope(StrEnum):
    """What a token may. `admin` may everything; no worker and no proposer holds `promote`."""

    READ = "read"
    SUBMIT = "submit"
    PROMOTE = "promote"
    ADMIN = "admin"


def new_token() -> str:
    """256 random bits with a prefix that secret scanners can look for."""
    return PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def token_digest(token: str) -> str:
    """What of a token is stored: its sha256. 256 random bits need no slow hash."""
    return hashlib.sha256(token.encode()).hexdigest()


def give_token(
    session: WriteSession,
    *,
    name: str,
    scopes: Sequence[Scope],
    expires_in_s: float | None,
    actor: str,
) -> tuple[TokenCreated, str]:
    """Make a token: what is recorded of it, and the token itself, told this once."""
    token = new_token()
    entry = TokenCreated(
        token_id=f"t{secrets.token_hex(5)}",
        name=name,
        digest=token_digest(token),
        scopes=tuple(str(scope) for scope in Scope if scope in scopes),
        expires_at=None if expires_in_s is None else session.now() + expires_in_s,
        actor=actor,
    )
    append_service(session, [entry])
    return entry, token


def give_token_of(
    ledger: Ledger,
    *,
    name: str,
    scopes: Sequence[Scope],
    expires_in_s: float | None,
    actor: str,
) -> tuple[TokenCreated, str]:
    """The same in a transaction of its own."""
    with ledger.write() as session:
        return give_token(
            session, name=name, scopes=scopes, expires_in_s=expires_in_s, actor=actor
        )


def revoke_token_of(ledger: Ledger, token_id: str, *, actor: str) -> None:
    """From now on the token opens nothing. Raises NotFound."""
    with ledger.write() as session:
        append_service(session, [TokenRevoked(token_id=token_id, actor=actor)])
