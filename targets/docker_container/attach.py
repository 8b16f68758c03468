"""What a container writes, from the engine as it comes. Standard library only."""

import os
import socket
from collections.abc import Callable
from typing import Final

_HEADER_BYTES: Final = 8
_PIECE_BYTES: Final = 64 * 1024
_HEAD_BYTES: Final = 64 * 1024
_NO_CONTAINER: Final = b"404"


class NoContainer(Exception):
    """There is none of that name (any more)."""


class LogStream:
    """The output of one container, from its first byte that is still known, into a sink."""

    def __init__(
        self,
        path: str,
        version: str,
        container: str,
        sink: Callable[[bytes], None],
        known: int | None,
        *,
        is_new: bool,
    ) -> None:
        """Listen over the engine's socket at `path`; `is_new`: the container was not started
        yet. Of one that was, so many bytes are known already, None: all that were written up to
        now. Raises OSError, NoContainer."""
        self._sink = sink
        self._skip = known or 0
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.settimeout(30.0)
            self._socket.connect(path)
            self._socket.sendall(_request(version, container, known, is_new=is_new))
            self._received = self._read_head()
            self._socket.setblocking(False)  # noqa: FBT003 - the socket's own API
        except BaseException:
            self._socket.close()
            raise
        self._deliver()

    def fileno(self) -> int:
        return self._socket.fileno()

    def pump(self) -> bool:
        """Move what is waiting to the sink; False once there is nothing more to come."""
        try:
            data = self._socket.recv(_PIECE_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._received += data
        self._deliver()
        return bool(data)

    def close(self) -> None:
        self._socket.close()

    def _read_head(self) -> bytes:
        head = b""
        while b"\r\n\r\n" not in head:
            data = self._socket.recv(_PIECE_BYTES)
            if not data or len(head) > _HEAD_BYTES:
                raise ConnectionError("the engine closed the connection")
            head += data
        status = head.split(b" ", 2)[1]
        if status == _NO_CONTAINER:
            raise NoContainer
        if status not in (b"101", b"200"):
            raise ConnectionError(f"the engine answers {os.fsdecode(status)}")
        return head.partition(b"\r\n\r\n")[2]

    def _deliver(self) -> None:
        """Take whole frames apart: a stream's number, three zeros, a length, the bytes."""
        at = 0
        while len(self._received) - at >= _HEADER_BYTES:
            length = int.from_bytes(self._received[at + 4 : at + _HEADER_BYTES], "big")
            end = at + _HEADER_BYTES + length
            if len(self._received) < end:
                break
            data = self._received[at + _HEADER_BYTES : end]
            at = end
            dropped = min(self._skip, len(data))
            self._skip -= dropped
            if dropped < len(data):
                self._sink(data[dropped:])
        self._received = self._received[at:]


def _request(version: str, container: str, known: int | None, *, is_new: bool) -> bytes:
    """To the stream itself where there is nothing before it. What was written already the engine
    has in a file, and it says some of it twice to who asks for the file and the stream at once."""
    place, streams = f"/v{version}/containers/{container}", "stdout=1&stderr=1"
    if is_new:
        return (
            f"POST {place}/attach?stream=1&{streams} HTTP/1.1\r\nHost: docker\r\n"
            "Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n"
        ).encode()
    tail = "all" if known is not None else "0"
    # By the older protocol: the answer is not cut into chunks.
    return f"GET {place}/logs?follow=1&tail={tail}&{streams} HTTP/1.0\r\n\r\n".encode()
