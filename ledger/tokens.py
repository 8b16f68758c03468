"""Access tokens as the ledger knows them: by the sha256 of each, never the token itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from ledger.database import ReadSession
from ledger.rows import TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    id: str
    name: str
    scopes: tuple[str, ...]
    created_at: float
    expires_at: float | None
    revoked_at: float | None

    def is_valid(self, now: float) -> bool:
        """Whether it opens anything at `now`, seconds on the database's clock."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def find_token(session: ReadSession, digest: str) -> Token | None:
    """The token with this sha256, valid or not."""
    row = session.connection.execute(select(TOKENS).where(TOKENS.c.digest == digest)).first()
    return None if row is None else _token(row)


def list_tokens(session: ReadSession) -> Sequence[Token]:
    """Every token that was ever given out, the newest first."""
    query = select(TOKENS).order_by(TOKENS.c.created_at.desc(), TOKENS.c.id)
    return [_token(row) for row in session.connection.execute(query)]


def was_token_made(session: ReadSession) -> bool:
    """Whether there ever was a token: one that expired or was revoked opens nothing again."""
    return session.connection.execute(select(TOKENS.c.id).limit(1)).first() is not None


def has_tokens(session: ReadSession) -> bool:
    """Whether any token is valid now."""
    now = session.now()
    alive = TOKENS.c.expires_at.is_(None) | (TOKENS.c.expires_at > now)
    query = select(TOKENS.c.id).where(TOKENS.c.revoked_at.is_(None), alive).limit(1)
    return session.connection.execute(query).first() is not None


def _token(row: Any) -> Token:
    return Token(
        id=row.id,
        name=row.name,
        scopes=tuple(row.scopes.split()),
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )
