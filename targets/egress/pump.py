"""Moves bytes between a program's connection and the host's. Standard library only."""

import errno
import select
import socket
import time
from collections.abc import Callable
from typing import Final

_PIECE_BYTES: Final = 256 * 1024
IDLE_S: Final = 600.0
"""Without a byte either way for so long, a connection is ended."""
_TICK_S: Final = 30.0


class Way:
    """One direction: what came from `source` and is not at `sink` yet."""

    def __init__(self, source: socket.socket, sink: socket.socket, left: int | None) -> None:
        self.source = source
        self.sink = sink
        self.waiting = b""
        self.moved = 0
        self.left = left
        """How much more may come; None: any amount."""
        self.is_open = True

    def wants_more(self) -> bool:
        return self.is_open and not self.waiting and self.left != 0

    def move(self) -> bool:
        """Whether anything moved, now that the kernel says that it can."""
        try:
            if self.waiting:
                self._push()
            elif self.wants_more():
                self._pull()
            else:
                return False
        except BlockingIOError:
            return False
        return True

    def _pull(self) -> None:
        size = _PIECE_BYTES if self.left is None else min(self.left, _PIECE_BYTES)
        data = self.source.recv(size)
        self.is_open = bool(data)
        self.waiting = data
        if self.left is not None:
            self.left -= len(data)

    def _push(self) -> None:
        sent = self.sink.send(self.waiting)
        self.waiting = self.waiting[sent:]
        self.moved += sent


class Pump:
    """Both directions, until the host is done, the program hangs up, or nothing moves."""

    def __init__(
        self, program: socket.socket, host: socket.socket, *, body_bytes: int | None
    ) -> None:
        """`body_bytes`: the program may send no more than that, and need not stay to send it;
        None: it is a tunnel."""
        self._program = program
        self._host = host
        self.up = Way(program, host, body_bytes)
        self.down = Way(host, program, None)
        self._is_tunnel = body_bytes is None

    def run(self, may_go_on: Callable[[int, int], str | None]) -> str:
        """How it ended; empty when as it should. `may_go_on` is asked as it goes, with the bytes
        sent and received, and says why not."""
        for end in (self._program, self._host):
            end.settimeout(0)
        moved_at = time.monotonic()
        while not self._is_done():
            why = may_go_on(self.up.moved, self.down.moved)
            if why is not None:
                return why
            try:
                moved = self._turn()
            except ConnectionError as error:
                return error.strerror.lower() if error.strerror else "the connection broke"
            except OSError as error:
                return str(error)
            now = time.monotonic()
            if moved:
                moved_at = now
            elif now - moved_at > IDLE_S:
                return f"nothing moved for {IDLE_S:g} s"
        return ""

    def _is_done(self) -> bool:
        """A side that has no more to say ends a tunnel once what it said has arrived."""
        if not self.down.is_open and not self.down.waiting:
            return True
        return not self.up.is_open and not self.up.waiting and self._is_tunnel

    def _turn(self) -> bool:
        """Wait for what can be moved and move it; whether anything was."""
        wanted = self._wanted()
        poll = select.poll()
        for end, events in wanted.items():
            if events:  # else the kernel would go on telling that it is gone
                poll.register(end, events)
        ready = dict(poll.poll(_TICK_S * 1000))
        if ready.get(self._program.fileno(), 0) & select.POLLRDHUP:
            raise ConnectionResetError(errno.ECONNRESET, "the program hung up")
        moved = False
        for way in (self.up, self.down):
            if ready.get((way.sink if way.waiting else way.source).fileno()):
                moved = way.move() or moved
        return moved

    def _wanted(self) -> dict[socket.socket, int]:
        wanted = {self._program: 0, self._host: 0}
        for way in (self.up, self.down):
            if way.waiting:
                wanted[way.sink] |= select.POLLOUT
            elif way.wants_more():
                wanted[way.source] |= select.POLLIN
        if self.up.left == 0 and not self.up.waiting:  # it only waits for an answer
            wanted[self._program] |= select.POLLRDHUP
        return wanted
