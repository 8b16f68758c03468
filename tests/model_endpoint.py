"""An OpenAI-compatible server on loopback that answers by a script, well or in every bad way."""

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

LAST_MESSAGE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request that came."""

    number: int
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    at: float
    """Monotonic."""

    @property
    def system(self) -> str:
        return str(self.body["messages"][0]["content"])

    @property
    def prompt(self) -> str:
        """The first question."""
        return str(self.body["messages"][1]["content"])

    @property
    def last(self) -> str:
        """The last message: a correction, or the question."""
        return str(self.body["messages"][LAST_MESSAGE]["content"])

    @property
    def rounds(self) -> int:
        """0 for a first question, 1 for the first correction, …"""
        return (len(self.body["messages"]) - 2) // 2


Behaviour: TypeAlias = Callable[[BaseHTTPRequestHandler], None]
"""What is done with one request."""
Script: TypeAlias = Callable[[Asked], Behaviour]


def says(
    text: str | None,
    *,
    tokens: tuple[object, object] | None = (100, 20),
    finish: str = "stop",
    refusal: str | None = None,
) -> Behaviour:
    """A good answer; `tokens` None: without usage."""
    document: dict[str, object] = {
        "id": "chat-1",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": refusal},
                "finish_reason": finish,
            }
        ],
    }
    if tokens is not None:
        document["usage"] = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
    return sends(200, json.dumps(document))


def proposes(*params: Mapping[str, object], **how: Any) -> Behaviour:
    """Sets of parameters, as `llm` wants them."""
    items = [{"rationale": f"try {p}", "params": p} for p in params]
    return says(json.dumps({"proposals": items}), **how)


def sends(
    status: int,
    body: str | bytes = "",
    *,
    content_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
    length: int | None = None,
) -> Behaviour:
    """Any answer; `length` is a content-length that may lie."""
    data = body.encode() if isinstance(body, str) else body

    def behave(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("content-type", content_type)
        handler.send_header("content-length", str(len(data) if length is None else length))
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)

    return behave


def html_page() -> Behaviour:
    return sends(200, "<html><body>Please log in</body></html>", content_type="text/html")


def cut_off() -> Behaviour:
    """Half a body, then a reset."""

    def behave(handler: BaseHTTPRequestHandler) -> None:
        sends(200, '{"choices": [{"mess', length=5000)(handler)
        _reset(handler)

    return behave


def resets() -> Behaviour:
    """Nothing, then a reset."""
    return _reset


def half_json() -> Behaviour:
    """A whole HTTP answer with half a document."""
    return sends(200, '{"choices": [{"message": {"content": "par')


def huge(size: int = 10 * 1024 * 1024) -> Behaviour:
    """A valid answer of 10 MB."""
    return says("x" * size)


def drips(byte_s: float = 0.05, *, in_head: bool = False) -> Behaviour:
    """One byte at a time, for ever: no single read takes long."""

    def behave(handler: BaseHTTPRequestHandler) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
        handler.wfile.write(head)
        if not in_head:
            handler.wfile.write(b"content-length: 100000\r\n\r\n")
        for number in range(10_000):
            handler.wfile.write(b"x-a: b\r\n"[number % 8 : number % 8 + 1] if in_head else b" ")
            handler.wfile.flush()
            time.sleep(byte_s)

    return behave


def silent(for_s: float = 60.0) -> Behaviour:
    """Takes the request and says nothing until the other side hangs up."""

    def behave(handler: BaseHTTPRequestHandler) -> None:
        handler.connection.settimeout(for_s)
        with contextlib.suppress(OSError):
            handler.connection.recv(1)

    return behave


def slowly(for_s: float, behaviour: Behaviour) -> Behaviour:
    def behave(handler: BaseHTTPRequestHandler) -> None:
        time.sleep(for_s)
        behaviour(handler)

    return behave


def _reset(handler: BaseHTTPRequestHandler) -> None:
    """Close with a reset instead of an end."""
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    # shutdown_request of the server would end the connection in good order first.
    socket.socket(fileno=handler.connection.detach()).close()


def in_turn(*behaviours: Behaviour) -> Script:
    """One after the other, then always the last one."""
    return lambda asked: behaviours[min(asked.number, len(behaviours) - 1)]


class ModelEndpoint:
    """The server. `asked` holds every request, in their order."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[Asked] = []
        self._lock = threading.Lock()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                endpoint._handle(self)
                self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                pass

            def finish(self) -> None:
                with contextlib.suppress(OSError, ValueError):
                    super().finish()

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("content-length", "0"))
        body = json.loads(handler.rfile.read(length))
        with self._lock:
            asked = Asked(
                number=len(self.asked),
                path=handler.path,
                headers={name.lower(): value for name, value in handler.headers.items()},
                body=body,
                at=time.monotonic(),
            )
            self.asked.append(asked)
        with contextlib.suppress(OSError):
            self.script(asked)(handler)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that hang up are what these tests are about."""

    def shutdown_request(self, request: Any) -> None:
        with contextlib.suppress(OSError):
            super().shutdown_request(request)


@contextlib.contextmanager
def model_endpoint(script: Script) -> Iterator[ModelEndpoint]:
    endpoint = ModelEndpoint(script)
    try:
        yield endpoint
    finally:
        endpoint.close()
