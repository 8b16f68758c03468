"""One line out, one line in, with a process that may do anything: time and bytes are bounded."""

import contextlib
import json
import os
import select
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final

from inner_trials.verifiers.isolation import start

MAX_LINE_BYTES: Final = 1024 * 1024


class ConversationError(Exception):
    """The process did not answer as agreed: `time-out`, `ended`, `too much output`, `no JSON`."""


class Conversation:
    """A process started for one verdict; leaving the block ends it."""

    def __init__(self, argv: Sequence[str], script: str, *, deadline: float) -> None:
        self._process = start(argv, script)
        self.deadline = deadline
        """Of everything that is said or awaited."""
        self._unread = b""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)

    def __enter__(self) -> "Conversation":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Outside bubblewrap there is no other process; inside, all end with the first.
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def tell(self, message: Mapping[str, Any]) -> None:
        """Raises ConversationError."""
        try:
            data = json.dumps(message).encode()
        except RecursionError:  # the answer of another process, passed on
            raise ConversationError("no JSON") from None
        self._send(data + b"\n")

    def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Raises ConversationError."""
        self.tell(message)
        try:
            answer = json.loads(self._line())
        except (ValueError, RecursionError):
            raise ConversationError("no JSON") from None
        if not isinstance(answer, dict):
            raise ConversationError("no JSON")
        return answer

    def _send(self, data: bytes) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        view = memoryview(data)
        while view:
            self._wait(pipe.fileno(), select.POLLOUT)
            try:
                view = view[os.write(pipe.fileno(), view) :]
            except BlockingIOError:
                continue
            except OSError:
                raise ConversationError("ended") from None

    def _line(self) -> bytes:
        pipe = self._process.stdout
        assert pipe is not None
        while b"\n" not in self._unread:
            if len(self._unread) > MAX_LINE_BYTES:
                raise ConversationError("too much output")
            self._wait(pipe.fileno(), select.POLLIN)
            try:
                read = os.read(pipe.fileno(), 65536)
            except BlockingIOError:
                continue
            if not read:
                raise ConversationError("ended")
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _wait(self, descriptor: int, event: int) -> None:
        left = self.deadline - time.monotonic()
        poll = select.poll()
        poll.register(descriptor, event)
        if left <= 0 or not poll.poll(left * 1000):
            raise ConversationError("time-out")
