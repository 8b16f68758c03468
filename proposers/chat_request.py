"""One POST with a deadline that holds whatever the server does, and that any thread can end."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import httpx

from ledger.errors import ArlError
from proposers.chat_outcomes import NoAnswer, Outcome

ERROR_BYTES = 64 * 1024
"""Of an answer that is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one request, in seconds and bytes."""

    connect_s: float
    read_s: float
    write_s: float
    total_s: float
    answer_bytes: int


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Sender:
    """Posts documents, one at a time. No redirect is followed, and nothing is taken from the
    environment: no proxy, no netrc."""

    def __init__(
        self, limits: Limits, transport: Callable[[], httpx.BaseTransport] | None = None
    ) -> None:
        self._limits = limits
        self._transport = transport
        self._lock = threading.Lock()
        self._under_way: _Exchange | None = None
        self._closed = False

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """Raises NoAnswer: no whole answer within the limits."""
        context = self._tls if url.startswith("https:") else None
        exchange = _Exchange(url, headers, body, self._limits, context, self._transport)
        with self._lock:
            if self._closed:
                raise NoAnswer(Outcome.STOPPED, "the proposer was closed")
            self._under_way = exchange
        # A thread of its own, so that nothing that blocks in it (a resolver, a drip of bytes)
        # holds the caller past the deadline.
        threading.Thread(target=exchange.run, name="arl-chat", daemon=True).start()
        if not exchange.ended.wait(self._limits.total_s):
            exchange.end(
                NoAnswer(Outcome.TIMED_OUT, f"no whole answer in {self._limits.total_s:g} s")
            )
        result = exchange.result
        if isinstance(result, HttpAnswer):
            return result
        raise result or NoAnswer(Outcome.STOPPED, "the request ended")

    def close(self) -> None:
        """End the request under way and take no other. Idempotent, from any thread."""
        with self._lock:
            self._closed = True
            exchange = self._under_way
        if exchange is not None:
            exchange.end(NoAnswer(Outcome.STOPPED, "the proposer was closed"))

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return httpx.create_ssl_context(trust_env=False)


class _Exchange:
    """A request in its thread: it ends once, by itself or by whoever is first to end it."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        limits: Limits,
        context: ssl.SSLContext | None,
        transport: Callable[[], httpx.BaseTransport] | None,
    ) -> None:
        self._url, self._headers, self._body = url, headers, body
        self._limits = limits
        self._context = context
        self._transport = transport
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._has_head = False
        self.ended = threading.Event()
        self.result: HttpAnswer | NoAnswer | None = None

    def end(self, result: HttpAnswer | NoAnswer) -> None:
        """The first one counts; what is still under way is cut."""
        with self._lock:
            if self.result is not None:
                return
            self.result = result
            open_socket = self._socket
        self.ended.set()
        if open_socket is not None:
            with contextlib.suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        try:
            self.end(self._exchange())
        except NoAnswer as none:
            self.end(none)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            self.end(NoAnswer(Outcome.UNREACHABLE, _said(error)))
        except httpx.TimeoutException as error:
            self.end(NoAnswer(Outcome.TIMED_OUT, _said(error)))
        except httpx.HTTPError as error:
            # A server that hangs up before it says anything may be one that starts up.
            outcome = Outcome.CUT_OFF if self._has_head else Outcome.UNREACHABLE
            self.end(NoAnswer(outcome, _said(error)))
        except (ArlError, httpx.InvalidURL, OSError, ValueError) as error:
            self.end(NoAnswer(Outcome.UNREACHABLE, _said(error)))
        finally:
            self.end(NoAnswer(Outcome.UNREACHABLE, "the request failed"))

    def _exchange(self) -> HttpAnswer:
        limits = self._limits
        timeout = httpx.Timeout(
            connect=limits.connect_s,
            read=limits.read_s,
            write=limits.write_s,
            pool=limits.connect_s,
        )
        with (
            httpx.Client(
                transport=None if self._transport is None else self._transport(),
                verify=self._context or False,  # without TLS there is nothing to verify
                trust_env=False,
                follow_redirects=False,
                timeout=timeout,
            ) as client,
            client.stream(
                "POST",
                self._url,
                content=self._body,
                headers={"accept-encoding": "identity", "user-agent": "arl", **self._headers},
                extensions={"trace": self._trace},
            ) as answer,
        ):
            self._has_head = True
            return HttpAnswer(
                answer.status_code,
                {name.lower(): value for name, value in answer.headers.items()},
                self._read(answer),
            )

    def _read(self, answer: httpx.Response) -> bytes:
        is_good = answer.status_code == 200
        if is_good and answer.headers.get("content-encoding", "identity") != "identity":
            raise NoAnswer(Outcome.WRONG_TYPE, "the answer is compressed, which nobody asked for")
        most = self._limits.answer_bytes if is_good else ERROR_BYTES
        pieces: list[bytes] = []
        size = 0
        for piece in answer.iter_raw():
            pieces.append(piece)
            size += len(piece)
            if size > most:
                if not is_good:
                    break
                raise NoAnswer(Outcome.TOO_LARGE, f"the answer has more than {most} bytes")
        return b"".join(pieces)[:most]

    def _trace(self, event: str, info: Mapping[str, object]) -> None:
        """Remember the socket: only shutting it down wakes a thread that reads from it."""
        if event not in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            return
        stream = info.get("return_value")
        found = getattr(stream, "get_extra_info", lambda name: None)("socket")
        with self._lock:
            self._socket = found if isinstance(found, socket.socket) else None
            is_late = self.result is not None
        if is_late and self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
