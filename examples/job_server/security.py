"""Lets through only what is signed with the secret, once, in time; signs every answer."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from targets.http_job import signing
from targets.http_job.documents import Problem

MAX_BODY_BYTES = 8 * 1024 * 1024
BODY_S = 60.0
MAX_NONCES = 1_000_000

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Signed:
    """Around the application: it never sees a request that is not signed, whole and new."""

    def __init__(self, app: App, key: bytes, heard: Callable[[str], None]) -> None:
        """`heard` is told the path of every request that was let through."""
        self._app = app
        self._key = key
        self._heard = heard
        self._session = secrets.token_hex(16)
        self._nonces: dict[str, float] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Captured()
        headers = {
            name.decode().lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        nonce = headers.get(signing.NONCE, "")
        try:
            body = await asyncio.wait_for(_body(receive), BODY_S)
        except (TimeoutError, _TooLarge):
            await _refuse(answer, Problem(status=413, code="too_large", detail="the body"))
        else:
            problem = self._judge(scope, headers, body)
            if problem is not None:
                await _refuse(answer, problem)
                if problem.code == "signature":
                    await answer.pass_on(send, {})
                    return
            else:
                self._heard(scope["path"])
                await self._app(scope, _replay(body), answer.send)
        covered = {name.decode(): value.decode("latin-1") for name, value in answer.headers}
        signature = signing.answer_signature(self._key, nonce, answer.status, answer.body, covered)
        await answer.pass_on(send, {signing.SIGNATURE: signature})

    def _judge(self, scope: Scope, headers: dict[str, str], body: bytes) -> Problem | None:
        """Why it is not let through. Only a sender who has the secret learns more than that."""
        target = scope["raw_path"].decode("latin-1")
        if scope["query_string"]:
            target += f"?{scope['query_string'].decode('latin-1')}"
        expected = signing.request_signature(self._key, scope["method"], target, body, headers)
        if not signing.is_same(headers.get(signing.SIGNATURE, ""), expected):
            return Problem(status=401, code="signature", detail="the signature is not right")
        now = time.time()
        if headers.get(signing.SESSION, "") != self._session:
            return self._renewal("session", now)
        try:
            sent_at = float(headers[signing.TIME])
        except (KeyError, ValueError):
            sent_at = float("nan")
        if not abs(now - sent_at) <= signing.WINDOW_S:
            return self._renewal("clock", now)
        nonce = headers.get(signing.NONCE, "")
        self._forget_old_nonces(now)
        if len(nonce) < 32 or nonce in self._nonces or len(self._nonces) >= MAX_NONCES:
            return Problem(status=401, code="signature", detail="the nonce was used before")
        self._nonces[nonce] = now
        return None

    def _renewal(self, code: str, now: float) -> Problem:
        detail = "sign again for this session, with this time"
        return Problem(status=401, code=code, detail=detail, session=self._session, time=now)

    def _forget_old_nonces(self, now: float) -> None:
        """In the order in which they came; a signature older than this is refused by its time."""
        while self._nonces:
            nonce = next(iter(self._nonces))
            if now - self._nonces[nonce] <= 2 * signing.WINDOW_S:
                return
            del self._nonces[nonce]


class _TooLarge(Exception):
    pass


class _Captured:
    """An answer of the application, held back until it is signed."""

    def __init__(self) -> None:
        self.status = 500
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = list(message.get("headers", []))
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")

    async def pass_on(self, send: Send, more: dict[str, str]) -> None:
        headers = self.headers + [(k.encode(), v.encode()) for k, v in more.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


async def _body(receive: Receive) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise _TooLarge  # the client went away; nobody reads the answer
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > MAX_BODY_BYTES:
            raise _TooLarge
        if not message.get("more_body"):
            return b"".join(pieces)


def _replay(body: bytes) -> Receive:
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive


async def _refuse(answer: _Captured, problem: Problem) -> None:
    body = problem.model_dump_json().encode()
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await answer.send(
        {"type": "http.response.start", "status": problem.status, "headers": headers}
    )
    await answer.send({"type": "http.response.body", "body": body})
