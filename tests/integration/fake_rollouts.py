"""A server that answers as a test says, in the place of vLLM's."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, object]


class Handler(BaseHTTPRequestHandler):
    answers: dict[str, Callable[[Any], Answer]]

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: Any) -> None:
        status, said = self.answers[self.path](body)
        content = said if isinstance(said, bytes) else json.dumps(said).encode()
        with suppress(OSError):  # whoever asked may have given up
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        pass


class Fake:
    """Answers by path; `/health` is well unless told otherwise."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[Any], Answer]] = {
            "/health": lambda _: (200, ""),
            "/v1/models": lambda _: (200, {"data": [{"max_model_len": 64}]}),
        }
        handler = type("Bound", (Handler,), {"answers": self.answers})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
