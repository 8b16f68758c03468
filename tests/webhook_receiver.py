"""A webhook's receiver on loopback that takes what it is sent, or behaves in every bad way."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Got:
    """One request that came."""

    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    at: float
    """Monotonic."""

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def document(self) -> Any:
        return json.loads(self.body, parse_constant=_refuse)

    @property
    def event(self) -> str:
        return str(self.document["type"])


def _refuse(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


Behaviour: TypeAlias = Callable[[BaseHTTPRequestHandler], None]


def answers(status: int, **headers: str) -> Behaviour:
    def behave(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.send_header("content-length", "0")
        request.end_headers()

    return behave


def sends_much(request: BaseHTTPRequestHandler) -> None:
    """200 and 10 MB that nobody asked for."""
    request.send_response(200)
    request.send_header("content-length", str(10_000_000))
    request.end_headers()
    for _ in range(100):
        request.wfile.write(b"x" * 100_000)


def drips(request: BaseHTTPRequestHandler) -> None:
    """The head of an answer, a byte now and then."""
    for byte in b"HTTP/1.1 200 OK\r\nx-slow: " + b"x" * 1000:
        request.wfile.write(bytes([byte]))
        request.wfile.flush()
        time.sleep(0.1)


def drips_its_body(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("content-length", "1000")
    request.end_headers()
    for _ in range(1000):
        request.wfile.write(b"x")
        request.wfile.flush()
        time.sleep(0.1)


def hangs(request: BaseHTTPRequestHandler) -> None:
    time.sleep(60)


def resets(request: BaseHTTPRequestHandler) -> None:
    request.connection.close()


TAKES = answers(204)


class Receiver:
    """`script` says what is done with the first, second, … request; the last one goes on."""

    def __init__(self, script: Sequence[Behaviour] = (TAKES,), port: int = 0) -> None:
        self.got: list[Got] = []
        self.connections = 0
        self._script = list(script)
        self._changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                receiver.connections += 1
                super().setup()

            def handle_one_request(self) -> None:
                with contextlib.suppress(OSError, ValueError):
                    super().handle_one_request()
                self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                return

            def do_POST(self) -> None:
                receiver.take(self)

        ThreadingHTTPServer.allow_reuse_address = True
        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"
        serving = self._server.serve_forever
        self._thread = threading.Thread(target=serving, args=(0.02,), daemon=True)
        self._thread.start()

    def take(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in request.headers.items()}
        got = Got(path=request.path, headers=headers, body=body, at=time.monotonic())
        with self._changed:
            self.got.append(got)
            behave = self._script.pop(0) if len(self._script) > 1 else self._script[0]
            self._changed.notify_all()
        behave(request)

    def events(self) -> list[str]:
        return [got.event for got in self.got]

    def wait_for(self, count: int, patience_s: float = PATIENCE_S) -> list[Got]:
        """Until so many requests came."""
        with self._changed:
            arrived = self._changed.wait_for(lambda: len(self.got) >= count, patience_s)
        assert arrived, f"{len(self.got)} of {count} requests came: {self.events()}"
        return list(self.got)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@contextlib.contextmanager
def receiving(*script: Behaviour, port: int = 0) -> Iterator[Receiver]:
    receiver = Receiver(script or (TAKES,), port)
    try:
        yield receiver
    finally:
        receiver.close()
