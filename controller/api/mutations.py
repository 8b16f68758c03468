"""Requests that change something: once per key, in one transaction with their answer and trace."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, Header, Request

from controller.api.access import Allowed, Principal
from controller.api.strict_json import StrictResponse
from controller.api.tokens import Scope
from controller.wiring import Service
from ledger import writes
from ledger.database import WriteSession
from ledger.digests import sha256_hex
from ledger.errors import InvalidInput
from ledger.records import Json
from ledger.service_entries import RequestMade

KEY_CHARS: Final = 128
REPLAYED: Final = "Idempotency-Replayed"

Act = Callable[[WriteSession], Mapping[str, Json]]
"""Does it and gives the answer's document; raises what refuses it, and nothing is written."""

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=KEY_CHARS,
        pattern=r"^[\x21-\x7e]+$",
        description="The same key with the same request is answered as the first one was, and "
        "nothing happens twice; with another request it is refused (422).",
        examples=["submit-nightly-2026-05-04"],
    ),
]


@dataclass(frozen=True, slots=True)
class Done:
    """What a request came to."""

    status: int
    document: Mapping[str, Any]
    replayed: bool
    """Whether an earlier request with the same key did it."""

    def response(self) -> StrictResponse:
        headers = {REPLAYED: "true"} if self.replayed else None
        return StrictResponse(self.document, self.status, headers=headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One request that changes something, and who asks."""

    service: Service
    principal: Principal
    key: str | None
    method: str
    route: str
    subject: str
    body_digest: str

    def run(self, act: Act, *, status: int = 200) -> Done:
        """Do it, or answer as it was answered before.

        Raises:
            InvalidInput: the key belongs to another request.
        """
        with self.service.ledger.write() as session:
            return self.within(session, act, status=status)

    def within(self, session: WriteSession, act: Act, *, status: int = 200) -> Done:
        """The same in a transaction that the caller opened."""
        earlier = self._claim(session)
        if earlier is not None:
            return earlier
        document = act(session)
        writes.append_service(session, [self._trace(status)])
        if self.key is not None:
            text = json.dumps(document, allow_nan=False)
            writes.finish_idempotency_key(session, self._stored_key(), status, text)
        return Done(status, document, replayed=False)

    def earlier(self) -> Done | None:
        """What the key was answered before; None when it is new. For a request whose work is
        too long for a transaction: `run` asks again. Raises InvalidInput."""
        if self.key is None:
            return None
        with self.service.ledger.read() as session:
            found = writes.find_idempotency_key(session, self._stored_key(), self._digest())
        return None if found is None else _stored(found)

    def remember(self) -> None:
        """That the key is this request's, where the work needs no answer kept."""
        if self.key is None:
            return
        with self.service.ledger.write() as session, suppress(InvalidInput):
            if self._claim(session) is None:
                writes.finish_idempotency_key(session, self._stored_key(), 200, "{}")

    def _claim(self, session: WriteSession) -> Done | None:
        if self.key is None:
            return None
        found = writes.claim_idempotency_key(session, self._stored_key(), self._digest())
        return None if found is None else _stored(found)

    def _stored_key(self) -> str:
        """A key is its owner's: two tokens may use the same word."""
        return f"{self.principal.token_id or 'local'}:{self.key}"

    def _digest(self) -> str:
        return sha256_hex(f"{self.method} {self.route} {self.subject} {self.body_digest}".encode())

    def _trace(self, status: int) -> RequestMade:
        return RequestMade(
            method=self.method,
            route=self.route,
            subject=self.subject,
            body_digest=self.body_digest,
            status=status,
            actor=self.principal.actor,
        )


def _stored(found: writes.StoredAnswer) -> Done:
    return Done(found.status or 200, json.loads(found.response or "{}"), replayed=True)


def mutation(scope: Scope) -> Callable[..., Any]:
    """A dependency: the request as a Mutation, if who asks has the scope."""

    def make(
        request: Request,
        principal: Annotated[Principal, Depends(Allowed(scope))],
        idempotency_key: IdempotencyKey = None,
    ) -> Mutation:
        return _mutation(request, principal, idempotency_key)

    return make


def _mutation(request: Request, principal: Principal, key: str | None) -> Mutation:
    body: bytes = getattr(request.state, "body", b"")
    named = ", ".join(f"{name}={value}" for name, value in request.path_params.items())
    return Mutation(
        service=request.app.state.service,
        principal=principal,
        key=key,
        method=request.method,
        route=request.scope["route"].path,
        subject=named[:400],
        body_digest=sha256_hex(body) if body else "",
    )


@contextmanager
def repeated(request: Request, principal: Principal, key: str | None) -> Iterator[None]:
    """What `repeatable` does, inside a route that takes no thread for a dependency."""
    change = _mutation(request, principal, key)
    change.earlier()
    yield
    change.remember()


def repeatable(scope: Scope) -> Callable[..., Any]:
    """A dependency for what comes to the same however often it is done: who asks, if they have
    the scope. A key of theirs is done again with the same request, and refused (422) with another.
    """

    def check(
        change: Annotated[Mutation, Depends(mutation(scope))],
    ) -> Iterator[Principal]:
        change.earlier()
        yield change.principal
        change.remember()

    return check
