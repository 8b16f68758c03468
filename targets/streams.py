"""What a program writes, taken from its pipes as it comes. Standard library only."""

import os
import select
from collections.abc import Callable
from typing import Final

from inner_trials.contract import SCORE_BYTES

_PIECE_BYTES: Final = 64 * 1024
_DRAIN_PIECES: Final = 32
"""More than a pipe can hold."""


class Streams:
    """Pipes whose content goes to a sink each. A program never waits for a sink that is full:
    what a sink does not want it drops."""

    def __init__(self, poll: select.poll) -> None:
        self._poll = poll
        self._sinks: dict[int, Callable[[bytes], None]] = {}

    def add(self, sink: Callable[[bytes], None], given: list[int]) -> int:
        """The writing end of a new pipe into `sink`, also added to `given`."""
        reader, writer = os.pipe()
        given.append(writer)
        os.set_blocking(reader, False)
        self._sinks[reader] = sink
        self._poll.register(reader, select.POLLIN)
        return writer

    def pump(self, descriptor: int) -> bool:
        """Move what is waiting to its sink; False once there is nothing (more)."""
        try:
            data = os.read(descriptor, _PIECE_BYTES)
        except BlockingIOError:
            return False
        if data:
            self._sinks[descriptor](data)
            return True
        self._close(descriptor)
        return False

    def drain(self) -> None:
        """Take what is left and close, once nobody of the attempt can write any more."""
        for descriptor in list(self._sinks):
            for _ in range(_DRAIN_PIECES):
                if not self.pump(descriptor):
                    break
            if descriptor in self._sinks:  # a stranger was handed the writing end
                self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        os.close(descriptor)
        del self._sinks[descriptor]


class ScoreWriter:
    """Keeps the first SCORE_BYTES + 1 bytes of the score channel in a file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1
        self._bytes = 0
        self.trouble = ""
        """Why it could not be stored; empty when it was."""

    def write(self, data: bytes) -> None:
        data = data[: SCORE_BYTES + 1 - self._bytes]
        try:
            if data and self._descriptor < 0:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
                self._descriptor = os.open(self._path, flags, 0o600)
            while data:
                written = os.write(self._descriptor, data)
                self._bytes += written
                data = data[written:]
        except OSError as error:
            self.trouble = f"its score could not be stored: {error.strerror}"

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
