"""Facts of the service chain, which belong to no one study: pointers, tokens, requests."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class IncumbentSet:
    """A model's pointer moved (promotion or roll back)."""

    kind: ClassVar[str] = "incumbent_set"
    model: str
    seq: int
    candidate_id: str
    study_id: str
    family_id: str | None
    comparison: str
    approver: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCreated:
    """An access token was given out. The token itself is written nowhere."""

    kind: ClassVar[str] = "token_created"
    token_id: str
    name: str
    digest: str
    """sha256 of the token."""
    scopes: tuple[str, ...]
    expires_at: float | None
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRevoked:
    kind: ClassVar[str] = "token_revoked"
    token_id: str
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMade:
    """A request through the API changed something: who asked for what, and the answer."""

    kind: ClassVar[str] = "request_made"
    method: str
    route: str
    """The route's template below /api/v1, like `/studies/{study}/pause`."""
    subject: str
    """What the route's parameters named, like `study=s1a2b3c4d5`; empty without any."""
    body_digest: str
    """sha256 of the body as it came; empty without one."""
    status: int
    actor: str


ServiceEntry: TypeAlias = IncumbentSet | TokenCreated | TokenRevoked | RequestMade
