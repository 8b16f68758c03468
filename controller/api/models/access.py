"""Tokens, and who one is."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from controller.api.models.wire import ISO, Iso, Out, example

ScopeName = Literal["read", "submit", "promote", "admin"]


class Who(Out):
    """Whom the server takes this client for."""

    model_config = example({"name": "ci", "token": "t3f9a0c1b2", "scopes": ["read", "submit"]})
    name: str
    token: str | None = Field(description="The token's id; null for the local user.")
    scopes: list[ScopeName]


class TokenOut(Out):
    """An access token, without itself."""

    model_config = example(
        {
            "id": "t3f9a0c1b2",
            "name": "ci",
            "scopes": ["read", "submit"],
            "created_at": ISO,
            "expires_at": None,
            "revoked_at": None,
            "is_valid": True,
        }
    )
    id: str
    name: str
    scopes: list[ScopeName]
    created_at: Iso
    expires_at: Iso | None
    revoked_at: Iso | None
    is_valid: bool


class TokenList(Out):
    """Tokens, the newest first."""

    model_config = example({"items": []})
    items: list[TokenOut]


class TokenWanted(BaseModel):
    """A token to be made."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [{"name": "ci", "scopes": ["read", "submit"], "expires_in_s": 2592000}]
        },
    )
    name: str = Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")
    scopes: list[ScopeName] = Field(min_length=1, max_length=4)
    expires_in_s: float | None = Field(default=None, gt=0, le=10 * 366 * 86400)


class TokenGiven(Out):
    """A new token: it is shown here once, and stored nowhere."""

    model_config = example(
        {
            "id": "t3f9a0c1b2",
            "name": "ci",
            "scopes": ["read"],
            "token": "arl_…",
            "expires_at": None,
        }
    )
    id: str
    name: str
    scopes: list[ScopeName]
    token: str
    expires_at: Iso | None


class SignIn(BaseModel):
    """The token with which a browser signs in."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"token": "arl_…"}]})
    token: str = Field(min_length=1, max_length=200)


class Audited(Out):
    """A request that changed something."""

    model_config = example(
        {
            "seq": 7,
            "at": ISO,
            "actor": "token:ci (t3f9a0c1b2)",
            "method": "POST",
            "route": "/studies/{study}/pause",
            "subject": "study=s1a2b3c4d5",
            "status": 202,
        }
    )
    seq: int
    at: Iso
    actor: str
    method: str
    route: str
    subject: str
    status: int
