"""A small HTTP server in front of a served model: passes requests on, and records who agreed."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import httpx

from controller.campaigns.connections import BoundedHandler, BoundedServer
from controller.campaigns.recording import CHAT, COMPLETIONS, Exchange, Recorder, consent_of
from controller.documents.plain_text import plain
from ledger.errors import ArlError, Conflict

CONSENT: Final = "x-arl-consent"
"""Header: who agrees that this request and its answer are learned from."""
SOURCE: Final = "x-arl-source"
READ_PATHS: Final = frozenset({"/v1/models", "/health"})
"""Besides the two that ask the model. Nothing that changes the server is passed on."""
ASKED_BYTES: Final = 4 * 1024 * 1024
_DIGITS: Final = len(str(ASKED_BYTES))
KEPT_BYTES: Final = 4 * 1024 * 1024
"""Of an answer; a longer one is passed on and not recorded."""
AT_ONCE: Final = 64
ANSWER_S: Final = 600.0
IDLE_S: Final = 60.0
BODY_S: Final = 60.0
"""In which a request is sent: one that comes a byte at a time would keep its place for ever."""
PASSED_ON: Final = ("authorization", "content-type", "accept")
Say = Callable[[str], None]


class RecordingProxy:
    """One server in front of another. Clients notice nothing but the header."""

    def __init__(
        self,
        url: str,
        transport: httpx.BaseTransport,
        recorder: Recorder,
        *,
        model: str,
        policy_of: Callable[[], str],
        say: Say,
    ) -> None:
        """`policy_of`: what has the model's name just now, as the record says it."""
        self.url = url.rstrip("/").removesuffix("/v1")
        self.recorder, self.model, self.policy_of, self.say = recorder, model, policy_of, say
        self.client = httpx.Client(
            transport=transport, trust_env=False, follow_redirects=False, timeout=ANSWER_S
        )
        self._places = threading.Semaphore(AT_ONCE)

    @contextmanager
    def listening(self, host: str, port: int) -> Iterator[str]:
        """At which address. Raises Conflict: it cannot be listened on."""

        class Handler(_Handler):
            proxy = self

        try:
            server = BoundedServer((host, port), Handler)
        except OSError as error:
            raise Conflict(
                f"--port {port}: {plain(host)} cannot be listened on there: {error.strerror}; end "
                "what uses it, or name another"
            ) from error
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            shown = f"[{host}]" if ":" in host else host
            yield f"http://{shown}:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            self.client.close()

    def is_free(self) -> bool:
        """Take one of the places for requests at once; give it back with `leave`."""
        return self._places.acquire(blocking=False)

    def leave(self) -> None:
        self._places.release()

    def record(self, request: "Asked", answered: bytes, *, is_stream: bool, policy: str) -> None:
        """What came back whole, if it is about the campaign's model and somebody agreed."""
        if request.model not in (self.model, policy):
            return
        try:
            if request.consent_by is None:
                self.recorder.refuse()
                return
            self.recorder.keep(
                Exchange(
                    path=request.path,
                    asked=request.document,
                    answered=answered,
                    is_stream=is_stream,
                    consent_by=request.consent_by,
                    at=datetime.now(UTC).isoformat(),
                    source=request.source,
                    policy=policy,
                )
            )
        except (ArlError, OSError) as error:
            self.say(f"an answer could not be recorded: {error}")


class Asked:
    """A request that asks the model."""

    def __init__(self, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Raises ValueError: it is no JSON object."""
        found = json.loads(body.decode("utf-8"))
        if not isinstance(found, dict):
            raise ValueError("it is no object")
        self.path, self.body = path, body
        self.document: Mapping[str, Any] = found
        self.model = found.get("model")
        self.consent_by = consent_of(headers.get(CONSENT))
        self.source = (headers.get(SOURCE) or "proxy")[:200]
        self.headers = _passed_on(headers)


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    """What the model server is told of a request's headers."""
    named = {name: headers[name] for name in PASSED_ON if headers.get(name)}
    return {**named, "accept-encoding": "identity"}


class _Refused(Exception):
    """The request is not passed on; a status, and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Handler(BoundedHandler):
    proxy: RecordingProxy
    protocol_version = "HTTP/1.1"
    timeout = IDLE_S

    def do_GET(self) -> None:
        self._answer(self._read)

    def do_POST(self) -> None:
        self._answer(self._ask)

    def _read(self) -> None:
        if self.path not in READ_PATHS:
            raise _Refused(404, f"only {', '.join(sorted(READ_PATHS))} can be read here")
        sent = _passed_on(self._named())
        answer = self.proxy.client.get(self.proxy.url + self.path, headers=sent)
        self._head(answer.status_code, answer.headers, len(answer.content))
        self.wfile.write(answer.content)

    def _ask(self) -> None:
        request = self._asked()
        policy = self.proxy.policy_of()
        kept = bytearray()
        where = self.proxy.url + request.path
        with self.proxy.client.stream(
            "POST", where, content=request.body, headers=request.headers
        ) as answer:
            self._head(answer.status_code, answer.headers, None)
            for piece in answer.iter_raw():
                self.wfile.write(piece)
                if len(kept) <= KEPT_BYTES:
                    kept += piece
        if answer.status_code == 200 and len(kept) <= KEPT_BYTES:
            kind = answer.headers.get("content-type", "")
            is_stream = kind.startswith("text/event-stream")
            self.proxy.record(request, bytes(kept), is_stream=is_stream, policy=policy)

    def log_message(self, *_: object) -> None:
        """What people ask is in no log."""

    def _asked(self) -> Asked:
        self.close_connection = True  # what is left unread of a refused body goes with it
        if self.path not in (COMPLETIONS, CHAT):
            raise _Refused(404, f"only {COMPLETIONS} and {CHAT} are passed on")
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":  # what a web page of another site can send is none
            raise _Refused(415, "write content-type: application/json")
        length = self.headers.get("content-length", "")
        if not (length.isascii() and length.isdecimal()):
            raise _Refused(411, "a request says how long it is (content-length)")
        if len(length) > _DIGITS or int(length) > ASKED_BYTES:
            raise _Refused(413, f"a request has at most {ASKED_BYTES} bytes")
        try:
            return Asked(self.path, self._body(int(length)), self._named())
        except (ValueError, RecursionError):
            raise _Refused(400, "the request is no JSON object") from None

    def _body(self, length: int) -> bytes:
        pieces, left, until = [], length, time.monotonic() + BODY_S
        while left and (piece := self.rfile.read1(left)):
            pieces.append(piece)
            left -= len(piece)
            if left and time.monotonic() > until:
                raise _Refused(408, f"a request is sent within {BODY_S:g} s")
        return b"".join(pieces)

    def _named(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def _answer(self, act: Callable[[], None]) -> None:
        """Whatever happens, the client is told, if nothing was sent yet."""
        self.busy()
        self._has_begun = False
        if not self.proxy.is_free():
            self.close_connection = True
            self._tell(503, "too many requests at once; ask again")
            return
        try:
            act()
        except _Refused as refused:
            self._tell(refused.status, str(refused))
        except (httpx.HTTPError, ArlError) as error:
            self.close_connection = True
            if not self._has_begun:
                self._tell(502, f"the model server does not answer: {type(error).__name__}")
        except OSError:
            self.close_connection = True  # the client is gone, and so is the record
        finally:
            self.proxy.leave()

    def _head(self, status: int, headers: Mapping[str, str], length: int | None) -> None:
        """Without a length the end of the connection ends the answer, as it comes."""
        self._has_begun = True
        self.send_response(status)
        self.send_header("content-type", headers.get("content-type", "application/json"))
        if headers.get("content-encoding"):
            self.send_header("content-encoding", headers["content-encoding"])
        if length is None:
            self.send_header("connection", "close")
            self.close_connection = True
        else:
            self.send_header("content-length", str(length))
        self.end_headers()

    def _tell(self, status: int, why: str) -> None:
        body = json.dumps({"error": {"message": why, "code": status}}).encode()
        try:
            self._head(status, {}, len(body))
            self.wfile.write(body)
        except OSError:
            self.close_connection = True
