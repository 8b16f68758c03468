"""The clients of a daemon that serves a root: JSON lines over a Unix socket, with events told to
those that subscribed.

Standard library only.
"""

import errno
import json
import os
import select
import socket
import sys
from collections.abc import Callable
from typing import Any, Final

_MESSAGE_BYTES: Final = 1024 * 1024

Message = dict[str, Any]


class Refused(Exception):
    """A request that cannot be met: a code that targets.supervisor_link knows, and a sentence."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class _Client:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = b""
        self.subscribed = False


class Clients:
    """Everyone connected to `listener`. Not thread-safe."""

    def __init__(
        self,
        listener: socket.socket,
        poll: select.epoll,
        serve: Callable[[Message], Message],
    ) -> None:
        """`serve` answers a request, or raises Refused or OSError."""
        self._listener = listener
        self._poll = poll
        self._serve = serve
        self._clients: dict[int, _Client] = {}
        poll.register(listener.fileno(), select.EPOLLIN)

    def __len__(self) -> int:
        return len(self._clients)

    def on_ready(self, descriptor: int) -> None:
        """To be called when the listener or a client's socket is readable."""
        if descriptor == self._listener.fileno():
            self._accept()
        elif descriptor in self._clients:
            self._receive(self._clients[descriptor])

    def tell(self, event: Message) -> None:
        for client in list(self._clients.values()):
            if client.subscribed:
                self._send(client, event)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # it gave up again, or there are no descriptors left: it stays in the queue
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        if int.from_bytes(credentials[4:8], sys.byteorder) not in (os.getuid(), 0):
            connection.close()
            return
        connection.settimeout(0)
        self._clients[connection.fileno()] = _Client(connection)
        self._poll.register(connection.fileno(), select.EPOLLIN)

    def _receive(self, client: _Client) -> None:
        try:
            data = client.connection.recv(64 * 1024)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, client.received = (client.received + data).split(b"\n")
        if not data or len(client.received) > _MESSAGE_BYTES:
            self._drop(client)
            return
        for line in lines:
            self._send(client, self._answer(client, line))

    def _answer(self, client: _Client, line: bytes) -> Message:
        try:
            request = json.loads(line)
            if request["op"] == "subscribe":
                client.subscribed = True
                return {"ok": True}
            return {"ok": True, **self._serve(request)}
        except Refused as refusal:
            return {"ok": False, "error": refusal.code, "detail": str(refusal)}
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            return {"ok": False, "error": "full" if full else "system", "detail": str(error)}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            return {"ok": False, "error": "request", "detail": f"not understood: {error!r}"}

    def _send(self, client: _Client, message: Message) -> None:
        """Send, or drop a client that does not read: it connects again and looks for itself."""
        try:
            data = json.dumps(message).encode() + b"\n"
            if client.connection.send(data) == len(data):
                return
        except OSError:
            pass  # it is gone or full: dropped below
        self._drop(client)

    def _drop(self, client: _Client) -> None:
        if self._clients.pop(client.connection.fileno(), None) is not None:
            client.connection.close()
