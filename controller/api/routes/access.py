"""Tokens, signing in, who one is, and who changed what."""

from typing import Annotated, Any

from fastapi import Depends, Path, Request, Response

from controller.api.access import COOKIE, Allowed, Principal, principal_of
from controller.api.models.access import (
    Audited,
    SignIn,
    TokenGiven,
    TokenList,
    TokenOut,
    TokenWanted,
    Who,
)
from controller.api.models.wire import Page
from controller.api.mutations import Mutation, mutation
from controller.api.problems import documented
from controller.api.reading import LONGEST_NAME, Cursor, Limit, Order, place_of
from controller.api.routing import new_router, service_of
from controller.api.tokens import Scope, give_token
from controller.documents.times import iso
from controller.wiring import Service
from ledger import tokens, writes
from ledger.audit import list_requests
from ledger.database import WriteSession
from ledger.records import Json
from ledger.service_entries import TokenRevoked

router = new_router("access")

Admin = Annotated[Principal, Depends(Allowed(Scope.ADMIN))]
Change = Annotated[Mutation, Depends(mutation(Scope.ADMIN))]
TheService = Annotated[Service, Depends(service_of)]


@router.get("/whoami", response_model=Who)
def whoami(principal: Annotated[Principal, Depends(principal_of)]) -> dict[str, Json]:
    """Whom the server takes this client for."""
    return _who(principal)


@router.post("/session", response_model=Who)
def sign_in(request: Request, response: Response, body: SignIn) -> dict[str, Json]:
    """Keep a token in a cookie that scripts cannot read, for the dashboard."""
    headers = [(b"authorization", f"Bearer {body.token}".encode("latin-1", "replace"))]
    principal = principal_of(Request({**request.scope, "headers": headers}))
    response.set_cookie(
        COOKIE,
        body.token,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
        path="/",
    )
    return _who(principal)


@router.delete("/session", status_code=204)
def sign_out(response: Response) -> None:
    """Forget the cookie."""
    response.delete_cookie(COOKIE, path="/")


def _who(principal: Principal) -> dict[str, Json]:
    scopes: list[Json] = [str(scope) for scope in Scope if principal.may(scope)]
    return {"name": principal.name, "token": principal.token_id, "scopes": scopes}


@router.get("/tokens", response_model=TokenList)
def list_tokens(_: Admin, service: TheService) -> dict[str, Any]:
    """Every token that was ever given out, the newest first."""
    with service.ledger.read() as session:
        now = session.now()
        return {"items": [_listed(token, now) for token in tokens.list_tokens(session)]}


def _listed(token: tokens.Token, now: float) -> TokenOut:
    return TokenOut.model_validate(
        {
            "id": token.id,
            "name": token.name,
            "scopes": token.scopes,
            "created_at": iso(token.created_at),
            "expires_at": iso(token.expires_at),
            "revoked_at": iso(token.revoked_at),
            "is_valid": token.is_valid(now),
        }
    )


@router.post("/tokens", response_model=TokenGiven, status_code=201, responses=documented(409))
def create_token(change: Change, body: TokenWanted) -> Any:
    """Make a token. Only this answer shows it: repeated with its key, the answer lacks it."""
    made: dict[str, str] = {}

    def act(session: WriteSession) -> dict[str, Json]:
        entry, made["token"] = give_token(
            session,
            name=body.name,
            scopes=[Scope(name) for name in body.scopes],
            expires_in_s=body.expires_in_s,
            actor=change.principal.actor,
        )
        return {
            "id": entry.token_id,
            "name": entry.name,
            "scopes": list(entry.scopes),
            "token": "",  # what is stored for repetitions
            "expires_at": iso(entry.expires_at),
        }

    done = change.run(act, status=201)
    done = type(done)(done.status, {**done.document, **made}, done.replayed)
    return done.response()


@router.delete("/tokens/{token}", status_code=204, responses=documented(404))
def revoke_token(
    change: Change,
    token: Annotated[str, Path(max_length=LONGEST_NAME, description="The token's id")],
) -> None:
    """From now on the token opens nothing. Revoking twice is harmless."""

    def act(session: WriteSession) -> dict[str, Json]:
        entry = TokenRevoked(token_id=token, actor=change.principal.actor)
        writes.append_service(session, [entry])
        return {}

    change.run(act, status=204)


@router.get("/audit", response_model=Page[Audited])
def audit(
    _: Admin,
    service: TheService,
    order: Order = "asc",
    cursor: Cursor = None,
    limit: Limit = 100,
) -> dict[str, Any]:
    """Requests that changed something, in their order, or with `order=desc` the newest first."""
    with service.ledger.read() as session:
        found = list_requests(
            session, after=place_of(cursor), limit=limit + 1, descending=order == "desc"
        )
    page = found[:limit]
    items = [
        Audited(
            seq=one.seq,
            at=iso(one.at) or "",
            actor=one.request.actor,
            method=one.request.method,
            route=one.request.route,
            subject=one.request.subject,
            status=one.request.status,
        )
        for one in page
    ]
    return {"items": items, "next_cursor": str(page[-1].seq) if len(found) > limit else None}
