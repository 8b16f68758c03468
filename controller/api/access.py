"""Who asks, and what they may: tokens with scopes, or the local user where there are none."""

from dataclasses import dataclass
from typing import Final

from fastapi import Request

from controller.api.problems import Refused
from controller.api.tokens import Scope, token_digest
from controller.wiring import Service
from ledger.tokens import Token, find_token, was_token_made

COOKIE: Final = "arl_session"
_SCHEME: Final = "bearer "


EVERYTHING: Final = frozenset(Scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks."""

    name: str
    token_id: str | None
    """None for the local user."""
    scopes: frozenset[Scope]

    @property
    def actor(self) -> str:
        """As the ledger's entries name them."""
        return f"token:{self.name} ({self.token_id})" if self.token_id else f"api:{self.name}"

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes


LOCAL: Final = Principal(name="local user", token_id=None, scopes=EVERYTHING)


@dataclass(frozen=True, slots=True)
class Allowed:
    """A dependency: the one who asks, if they have the scope. `StrictRoute` finds it, so that
    whoever may not ask is told nothing of what is wrong with a body."""

    scope: Scope

    def __call__(self, request: Request) -> Principal:
        """Raises Refused. Without `read` a token is told that nothing is there (404): that it
        exists is secret."""
        principal = principal_of(request)
        if principal.may(self.scope):
            return principal
        if not principal.may(Scope.READ):
            raise Refused("not_found", f"{request.url.path}: there is no such thing")
        raise forbidden(principal, self.scope)


def forbidden(principal: Principal, scope: Scope) -> Refused:
    """That whoever asks may look, but not this."""
    return Refused(
        "forbidden",
        f"token {principal.name} has no scope {scope}: it needs one with "
        f"`arl token create NAME --scope {scope}`",
    )


def principal_of(request: Request) -> Principal:
    """Raises Refused when nobody may ask like this."""
    service: Service = request.app.state.service
    given = _given(request)
    if given is None:
        return _nobody(service, loopback=request.app.state.options.is_loopback)
    with service.ledger.read() as session:
        token = find_token(session, token_digest(given))
        valid = token is not None and token.is_valid(session.now())
    if token is None or not valid:
        raise _unauthorized("the token is not known, has expired or was revoked")
    return _principal(token)


def _given(request: Request) -> str | None:
    header = request.headers.get("authorization")
    if header is None:
        return request.cookies.get(COOKIE)
    if not header.lower().startswith(_SCHEME):
        raise _unauthorized("Authorization: write `Bearer TOKEN`")
    return header[len(_SCHEME) :].strip()


def _nobody(service: Service, *, loopback: bool) -> Principal:
    with service.ledger.read() as session:
        if loopback and not was_token_made(session):
            return LOCAL
    raise _unauthorized("this server asks for a token: `Authorization: Bearer TOKEN`")


def _principal(token: Token) -> Principal:
    scopes = frozenset(Scope(word) for word in token.scopes if word in set(Scope))
    return Principal(name=token.name, token_id=token.id, scopes=scopes)


def _unauthorized(detail: str) -> Refused:
    return Refused("unauthorized", detail, {"WWW-Authenticate": 'Bearer realm="arl"'})
