"""Requests to hosts that a study names: addresses checked, no redirects, bounded in all ways.

A host is resolved once per connection, and the address that was checked is the one that is
connected to. TLS is always verified against the host's name; without TLS only hosts that the
operator vouches for are spoken to. Nothing is taken from the environment: no proxy, no netrc.
"""

import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final

import certifi
import httpcore
import httpx

from ledger.errors import ArlError, InvalidInput
from targets.outbound_addresses import AddressPolicy, AddressRefused, Resolver, resolve_by_system
from targets.outbound_connections import CONNECT_S, DEADLINE, GuardedBackend

__all__ = [
    "AddressPolicy",
    "AddressRefused",
    "Answer",
    "GuardedTransport",
    "Outbound",
    "Unanswered",
    "verifying",
]

MAX_CONNECTIONS: Final = 32
KEEP_ALIVE_S: Final = 20.0


class Unanswered(ArlError):
    """No whole answer came: not reached, cut off, too late, too large, or no HTTP."""

    code = "unanswered"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def content_type(self) -> str:
        """Without parameters, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class GuardedTransport(httpx.BaseTransport):
    """For any httpx client: connects only to addresses that the policy lets through."""

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        resolver: Resolver = resolve_by_system,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._backend = GuardedBackend(policy, resolver)
        self._pool = httpcore.ConnectionPool(
            ssl_context=ssl_context or verifying(),
            max_connections=MAX_CONNECTIONS,
            keepalive_expiry=KEEP_ALIVE_S,
            network_backend=self._backend,
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Raises AddressRefused, InvalidInput, and httpx.TransportError."""
        url = request.url
        if url.scheme not in ("http", "https"):
            raise InvalidInput(f"url {str(url)!r}: write https://host or http://host")
        self._backend.plain_text = url.scheme == "http"
        if not isinstance(request.stream, httpx.SyncByteStream):
            raise TypeError("only synchronous requests are sent")
        asked = httpcore.Request(
            method=request.method,
            url=httpcore.URL(
                scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _as_httpx_errors():
            answer = self._pool.handle_request(asked)
        if not isinstance(answer.stream, Iterable):
            raise TypeError("a synchronous pool answers synchronously")
        return httpx.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=_Body(answer.stream),
            extensions=answer.extensions,
        )

    def abort(self) -> None:
        """Cut every connection, for good: whoever waits for an answer gets an error at once."""
        self._backend.abort()

    def close(self) -> None:
        self._pool.close()
        self._backend.close()


class Outbound:
    """Requests with a deadline and a size each. Thread-safe."""

    def __init__(self, transport: GuardedTransport) -> None:
        self._transport = transport
        self._client = httpx.Client(
            transport=transport, trust_env=False, follow_redirects=False, timeout=CONNECT_S
        )

    def request(
        self,
        method: str,
        url: str,
        *,
        timeout_s: float,
        max_bytes: int,
        body_s: float | None = None,
        content: bytes = b"",
        headers: Mapping[str, str] | None = None,
        head_only: bool = False,
    ) -> Answer:
        """The answer, whatever its status; a redirect is one like any other.

        `timeout_s` bounds all of it: resolving, connecting, sending, and the last byte; `body_s`
        what comes after the head of the answer. With `head_only` nothing after it is read.

        Raises:
            Unanswered: there is no whole answer within `timeout_s` and `max_bytes`.
            AddressRefused, InvalidInput: the url may not be asked.
        """
        until = time.monotonic() + timeout_s
        token = DEADLINE.set(until)
        try:
            sent = {"accept-encoding": "identity", "user-agent": "arl", **(headers or {})}
            with self._client.stream(
                method, url, content=content, headers=sent, timeout=timeout_s
            ) as answer:
                if head_only:
                    return Answer(answer.status_code, _names(answer), b"")
                if body_s is not None:
                    until = min(until, time.monotonic() + body_s)
                    DEADLINE.set(until)
                return _whole(answer, max_bytes, until)
        except httpx.InvalidURL as error:
            raise InvalidInput(f"url {url!r}: {error}; write https://host") from error
        except httpx.HTTPError as error:
            raise Unanswered(f"{_shown(url)}: {str(error) or type(error).__name__}") from error
        finally:
            DEADLINE.reset(token)

    def abort(self) -> None:
        self._transport.abort()

    def close(self) -> None:
        self._client.close()


def verifying() -> ssl.SSLContext:
    """The authorities of this system and those that certifi brings."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def _whole(answer: httpx.Response, max_bytes: int, until: float) -> Answer:
    where = _shown(str(answer.request.url))
    if "content-encoding" in answer.headers:
        raise Unanswered(f"{where}: the answer is compressed, which was not asked for")
    pieces: list[bytes] = []
    size = 0
    for piece in answer.iter_raw():
        size += len(piece)
        if size > max_bytes:
            raise Unanswered(f"{where}: the answer is larger than {max_bytes} bytes")
        if time.monotonic() > until:
            raise Unanswered(f"{where}: the answer came too slowly")
        pieces.append(piece)
    return Answer(answer.status_code, _names(answer), b"".join(pieces))


def _names(answer: httpx.Response) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}


def _shown(url: str) -> str:
    return url.partition("?")[0][:200]


class _Body(httpx.SyncByteStream):
    def __init__(self, stream: Iterable[bytes]) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        with _as_httpx_errors():
            yield from self._stream

    def close(self) -> None:
        close = getattr(self._stream, "close", None)
        if close is not None:
            close()


class _as_httpx_errors:
    """httpcore's errors by the names that httpx has for them."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None and kind.__module__.startswith("httpcore"):
            named = getattr(httpx, kind.__name__, httpx.TransportError)
            raise named(str(error) or kind.__name__) from error
