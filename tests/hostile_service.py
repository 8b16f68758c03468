"""A job service that signs whatever a test wants it to say."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from targets.http_job import signing
from tests.http_runs import SECRET

JSON, BYTES = "application/json", "application/octet-stream"


@dataclass
class Said:
    """One answer: a document, or bytes."""

    body: Any
    status: int = 200
    content_type: str = ""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Heard:
    method: str
    path: str
    query: dict[str, str]


Answer = Callable[[Heard], Said]


@contextmanager
def hostile_service(answer: Answer, key: bytes | None = None) -> Iterator[tuple[str, list[Heard]]]:
    """Its url, and what it was asked so far."""
    heard: list[Heard] = []
    secret = key or signing.key_of(SECRET)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            return

        def _handle(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            asked = Heard(self.command, parts.path, query)
            heard.append(asked)
            said = answer(asked)
            raw = isinstance(said.body, bytes)
            body = said.body if raw else json.dumps(said.body).encode()
            told = {"content-type": said.content_type or (BYTES if raw else JSON), **said.headers}
            told[signing.SIGNATURE] = signing.answer_signature(
                secret, self.headers.get(signing.NONCE, ""), said.status, body, told
            )
            self.send_response_only(said.status)
            for name, value in {**told, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                self.close_connection = True

        do_GET = do_PUT = do_POST = do_DELETE = _handle

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", heard
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
