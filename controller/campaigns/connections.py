"""An HTTP server that holds a bounded number of connections, each of which has a thread."""

import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, TypeAlias

CONNECTIONS: Final = 256
"""At once. For one more the one that has been idle longest is closed, as any server may close an
idle one; where none is idle the new one is told to come again."""
Request: TypeAlias = socket.socket | tuple[bytes, socket.socket]
"""As socketserver has it; a stream server's is a socket."""
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
    b"Connection: close\r\n\r\n"
)


class BoundedServer(ThreadingHTTPServer):
    """Its handlers are BoundedHandlers."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type["BoundedHandler"]) -> None:
        self._lock = threading.Lock()
        self._open: set[Request] = set()
        self._idle: dict[Request, float] = {}
        """Since when each waits for a request."""
        super().__init__(address, handler)

    def process_request(self, request: Request, client_address: object) -> None:
        if self._make_room():
            with self._lock:
                self._open.add(request)
                self._idle[request] = time.monotonic()
            super().process_request(request, client_address)
            return
        if isinstance(request, socket.socket):
            with suppress(OSError):  # it went away by itself
                request.settimeout(0)
                request.sendall(_FULL)
        self.shutdown_request(request)

    def shutdown_request(self, request: Request) -> None:
        """When its thread is done."""
        self._forget(request)
        super().shutdown_request(request)

    def note(self, request: Request, *, is_idle: bool) -> None:
        with self._lock:
            self._idle.pop(request, None)
            if is_idle and request in self._open:
                self._idle[request] = time.monotonic()

    def _make_room(self) -> bool:
        with self._lock:
            if len(self._open) < CONNECTIONS:
                return True
            longest = min(self._idle, key=self._idle.__getitem__, default=None)
        if not isinstance(longest, socket.socket):
            return False
        self._forget(longest)
        with suppress(OSError):  # it went away by itself
            longest.shutdown(socket.SHUT_RDWR)  # its thread sees its end and closes it
        return True

    def _forget(self, request: Request) -> None:
        with self._lock:
            self._open.discard(request)
            self._idle.pop(request, None)


class BoundedHandler(BaseHTTPRequestHandler):
    """Call `busy` once there is a request to answer."""

    server: BoundedServer

    def handle_one_request(self) -> None:
        self.server.note(self.connection, is_idle=True)
        super().handle_one_request()

    def busy(self) -> None:
        self.server.note(self.connection, is_idle=False)
