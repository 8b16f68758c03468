"""Around every request: whose name it is for, where it came from, how long it may be."""

import asyncio
import logging
import re
import secrets
import time
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.api.metrics import UNMATCHED, Metrics
from controller.api.options import ApiOptions
from controller.api.problems import problem_response
from ledger.errors import ArlError

log = logging.getLogger("arl.api.requests")

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
SECRET_NAMES: Final = frozenset({"token", "access_token", "api_key", "apikey", "authorization"})
UPLOADS: Final = re.compile(r"/api/v1/blobs/[0-9a-f]{64}\Z")
CSP: Final = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'"
)
HEADERS: Final = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class TooLarge(ArlError):
    """The body went on past its limit."""

    code = "too_large"


class TooSlow(ArlError):
    """The body did not come in time."""

    code = "too_slow"


class Guard:
    """An ASGI layer. Refuses before a route sees anything; logs no query, no header, no body."""

    def __init__(self, app: ASGIApp, options: ApiOptions, metrics: Metrics) -> None:
        self._app = app
        self._options = options
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        began, answer = time.monotonic(), _Answer(send, request_id)
        try:
            refusal = self._refusal(scope)
            if refusal is not None:
                await problem_response(scope["path"], *refusal)(scope, receive, answer)
            else:
                await self._guarded(scope, receive, answer)
        except Exception:
            answer.status = answer.status or 500  # which is answered outside of this
            raise
        finally:
            self._note(scope, answer, began, request_id)

    def _note(self, scope: Scope, answer: "_Answer", began: float, request_id: str) -> None:
        seconds = time.monotonic() - began
        route = getattr(scope.get("route"), "path", UNMATCHED)
        self._metrics.answered(scope["method"], route, answer.status, seconds)
        log.info(
            "%s %s %d %.1f ms %s",
            scope["method"],
            scope["path"],
            answer.status,
            seconds * 1000,
            request_id,
            extra={
                "request": request_id,
                "method": scope["method"],
                "path": scope["path"],
                "status": answer.status,
                "ms": round(seconds * 1000, 1),
            },
        )

    async def _guarded(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        body = _Body(receive, self._limit(scope), self._options.body_s)
        await self._app(scope, body, answer)

    def _limit(self, scope: Scope) -> int:
        is_upload = scope["method"] == "PUT" and UPLOADS.match(scope["path"])
        return self._options.piece_bytes if is_upload else self._options.body_bytes

    def _refusal(self, scope: Scope) -> tuple[int, str, str] | None:
        """Status, code and detail of what is wrong with the request's head; None if nothing."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._options.is_known(_name(host)):
            return 421, "wrong_host", f"Host: {host[:200]!r} is not a name of this server"
        if names := _secrets_in(scope["query_string"]):
            return 400, "malformed", f"{names}: a secret never goes into an address; use a header"
        if scope["method"] not in SAFE and (foreign := _foreign_origin(headers, host)):
            return 403, "forbidden", f"Origin: {foreign[:200]!r} is not this server"
        length = headers.get("content-length", "0")
        limit = self._limit(scope)
        if not (length.isascii() and length.isdigit()):
            return 400, "malformed", f"Content-Length: {length[:50]!r} is no number"
        return (413, "too_large", _too_large(limit)) if int(length[:20]) > limit else None


class _Body:
    """Passes on what the client sends, up to a length and a time. Raises TooLarge, TooSlow."""

    def __init__(self, receive: Receive, limit: int, limit_s: float) -> None:
        self._receive = receive
        self._limit = limit
        self._limit_s = limit_s
        self._due = asyncio.get_running_loop().time() + limit_s
        self._seen = 0
        self._whole = False

    async def __call__(self) -> Message:
        if self._whole:  # what comes now is that the client left, whenever that is
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._due):
                message = await self._receive()
        except TimeoutError as error:
            raise TooSlow(f"the body did not arrive within {self._limit_s:g} seconds") from error
        self._whole = not message.get("more_body", False)
        self._seen += len(message.get("body", b""))
        if self._seen > self._limit:
            raise TooLarge(_too_large(self._limit))
        return message


class _Answer:
    """Sends on, with the headers that every answer has, and notes the status."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._request_id = request_id
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers["X-Request-Id"] = self._request_id
        await self._send(message)


def _too_large(limit: int) -> str:
    return f"the body is larger than {limit} bytes"


def _place(origin: str) -> str:
    """Host and port of an Origin header; empty for one that names none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _name(host: str) -> str:
    """The host name of a Host header: no port, no brackets."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _secrets_in(query: bytes) -> str:
    if not query:
        return ""
    names = {name.lower() for name, _ in parse_qsl(query.decode("latin-1"), max_num_fields=None)}
    return ", ".join(sorted(names & SECRET_NAMES))


def _foreign_origin(headers: Headers, host: str) -> str:
    """The page another site served that made a browser ask this; empty for our own and for
    programs, which name none."""
    origin = headers.get("origin")
    if origin is not None and _place(origin) != host:
        return origin or "(empty)"
    site = headers.get("sec-fetch-site", "same-origin")
    return "" if site in ("same-origin", "none") else f"Sec-Fetch-Site: {site}"
