"""A proxy between a job target and its service that does to answers what networks do."""

import http.client
import random
import socket
import struct
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import urlsplit

HTML = b"<!doctype html><title>Sign in to the hotel network</title><p>Welcome!"
FAULTS: Final = (
    *("error_500", "error_502", "busy", "busy_for_a_second", "html", "redirect"),
    *("reset_before", "reset_after", "reset_in_body", "truncated", "tampered", "large"),
    *("drip", "silence", "twice", "other_answer", "no_head"),
)


class FlappingProxy:
    """Passes requests on to `url`, or does one of FAULTS, by a seeded plan."""

    def __init__(self, url: str, *, seed: int, rate: float, faults: tuple[str, ...] = FAULTS):
        self._upstream = urlsplit(url).netloc
        self._random = random.Random(seed)
        self._rate = rate
        self._faults = faults
        self._lock = threading.Lock()
        self._last = b"{}"
        self.done: Counter[str] = Counter()
        """How often each was done; `none` for requests that were passed on as they are."""
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except OSError:
                    self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                return

            def _handle(self) -> None:
                proxy.handle(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        serving = self._server.serve_forever
        self._thread = threading.Thread(target=serving, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def calm(self) -> None:
        """Pass everything on from now."""
        self._rate = 0.0

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("content-length", 0)))
        with self._lock:
            faulty = self._random.random() < self._rate
            fault = self._random.choice(self._faults) if faulty else "none"
            self.done[fault] += 1
        getattr(self, f"_{fault}")(request, body)

    # --- passing on --------------------------------------------------------------------------

    def _ask(
        self, request: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self._upstream, timeout=40)
        try:
            headers = {k: v for k, v in request.headers.items() if k.lower() != "host"}
            connection.request(request.command, request.path, body=body, headers=headers)
            answer = connection.getresponse()
            data = answer.read()
            kept = {k.lower(): v for k, v in answer.getheaders()}
            kept.pop("transfer-encoding", None)
            return answer.status, kept, data
        except OSError:
            return 502, {"content-type": "text/plain"}, b"no answer from upstream"
        finally:
            connection.close()

    def _give(
        self, request: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes
    ) -> None:
        request.send_response_only(status)
        for name, value in {**headers, "content-length": str(len(body))}.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body)

    def _none(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        answer = self._ask(request, body)
        self._last = answer[2]
        self._give(request, *answer)

    # --- faults ------------------------------------------------------------------------------

    def _error_500(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        self._give(request, 500, {"content-type": "application/json"}, b'{"error": "oops"}')

    def _error_502(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        self._ask(request, body)  # it was done, but nobody is told
        self._give(request, 502, {"content-type": "text/html"}, HTML)

    def _busy(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        self._give(request, 429, {}, b"")

    def _busy_for_a_second(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        self._give(request, 429, {"retry-after": "1"}, b"slow down")

    def _html(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        self._give(request, 200, {"content-type": "text/html"}, HTML)

    def _redirect(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        self._give(request, 307, {"location": "http://127.0.0.1:1/elsewhere"}, b"")

    def _reset_before(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        _reset(request)

    def _reset_after(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        self._ask(request, body)
        _reset(request)

    def _reset_in_body(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        status, headers, data = self._ask(request, body)
        request.send_response_only(status)
        for name, value in {**headers, "content-length": str(len(data) + 10)}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(data[: len(data) // 2])
        request.wfile.flush()
        _reset(request)

    def _truncated(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        status, headers, data = self._ask(request, body)
        self._give(request, status, headers, data[: len(data) // 2])

    def _tampered(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        status, headers, data = self._ask(request, body)
        self._give(request, status, headers, data.replace(b"running", b"ended") + b" ")

    def _large(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        self._give(request, 200, {"content-type": "application/json"}, b"[" * 10_000_000)

    def _drip(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        request.send_response_only(200)
        request.send_header("content-length", "1000")
        request.end_headers()
        for _ in range(200):
            request.wfile.write(b" ")
            request.wfile.flush()
            time.sleep(0.1)

    def _silence(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        time.sleep(5)
        _reset(request)

    def _twice(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        """The same signed request again: the service must not do it twice."""
        first = self._ask(request, body)
        self._ask(request, body)
        self._give(request, *first)

    def _other_answer(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        """A signed answer, but of another request."""
        status, headers, _ = self._ask(request, body)
        self._give(request, status, headers, self._last)

    def _no_head(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        request.wfile.write(b"\x00\x01\x02 no http \r\n\r\n")
        request.wfile.flush()
        request.close_connection = True


def _reset(request: BaseHTTPRequestHandler) -> None:
    """End the connection with a RST."""
    request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.close_connection = True
    request.connection.close()
