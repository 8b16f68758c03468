"""Asks a candidate's program for answers, for evaluators in `answers` mode. Standard library only.

The candidate runs in a sandbox of its own, without labels, bundle or network; all there is
between it and the evaluator are two pipes. One batch is asked at a time, one JSON line each way:

    evaluator:  {"batch": 0, "inputs": ["sort 312", "sort 21"]}
    candidate:  {"answers": ["123", "12"]}

so that a whole candidate program is, in Python,

    for line in sys.stdin:
        inputs = json.loads(line)["inputs"]
        print(json.dumps({"answers": [answer(i) for i in inputs]}), flush=True)

What the candidate sends is text to be scored and nothing else. A batch that is late, too long or
malformed has no answers, and neither has any after it, since the pipes may hold the rest of it.
"""

import json
import os
import select
import time
from collections.abc import Sequence

_ASK_FD = "ARL_ASK_FD"
_ANSWER_FD = "ARL_ANSWER_FD"
_READ_BYTES = 65536
# Of JSON around the answers: each may be escaped to six times its length.
_ESCAPE_FACTOR = 6
_OVERHEAD_BYTES = 1024


class Answers:
    """The candidate's side of an evaluation.

    Args:
        answer_timeout_s: allowed per answer; a batch gets the sum.
        answer_chars: a longer answer makes its batch unusable.
        start_timeout_s: allowed besides for the first batch, in which the candidate loads.
        ask_fd, answer_fd: default: the descriptors the target names in the environment.

    Raises:
        KeyError: not started in `answers` mode.
    """

    def __init__(
        self,
        *,
        answer_timeout_s: float = 30.0,
        answer_chars: int = 16_384,
        start_timeout_s: float = 300.0,
        ask_fd: int | None = None,
        answer_fd: int | None = None,
    ) -> None:
        self._ask_fd = int(os.environ[_ASK_FD]) if ask_fd is None else ask_fd
        self._answer_fd = int(os.environ[_ANSWER_FD]) if answer_fd is None else answer_fd
        self._answer_timeout_s = answer_timeout_s
        self._answer_chars = answer_chars
        self._start_s = start_timeout_s
        self._batch = 0
        self.failure: str | None = None
        """Why there are no answers any more, one sentence; None while there are."""
        os.set_blocking(self._ask_fd, False)
        os.set_blocking(self._answer_fd, False)

    def ask(self, inputs: Sequence[object]) -> list[str | None]:
        """The answers to one batch, in order; None for each that the candidate did not give.

        `inputs` are any JSON values without their labels. Never raises for anything the
        candidate does.
        """
        nothing: list[str | None] = [None] * len(inputs)
        if self.failure is not None or not inputs:
            return nothing
        line = json.dumps({"batch": self._batch, "inputs": list(inputs)}).encode() + b"\n"
        deadline = time.monotonic() + self._start_s + self._answer_timeout_s * len(inputs)
        try:
            self._send(line, deadline)
            answers = self._read(self._receive(len(inputs), deadline), len(inputs))
        except _FailedError as failed:
            self.failure = f"batch {self._batch}: {failed}"
            return nothing
        self._batch += 1
        self._start_s = 0.0
        return list(answers)

    def _send(self, line: bytes, deadline: float) -> None:
        left = memoryview(line)
        while left:
            _wait(self._ask_fd, select.POLLOUT, deadline)
            try:
                left = left[os.write(self._ask_fd, left) :]
            except BlockingIOError:
                continue
            except OSError:
                raise _FailedError("the candidate has left") from None

    def _receive(self, count: int, deadline: float) -> bytes:
        allowed = count * (self._answer_chars * _ESCAPE_FACTOR + 4) + _OVERHEAD_BYTES
        received = bytearray()
        while b"\n" not in received[-_READ_BYTES:]:
            _wait(self._answer_fd, select.POLLIN, deadline)
            try:
                data = os.read(self._answer_fd, _READ_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if not data:
                raise _FailedError("the candidate has left")
            received += data
            if len(received) > allowed:
                raise _FailedError(f"the answers are longer than {allowed} bytes")
        line, _, rest = bytes(received).partition(b"\n")
        if rest:
            raise _FailedError("the candidate wrote more than one line for one batch")
        return line

    def _read(self, line: bytes, count: int) -> list[str]:
        try:
            document = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            raise _FailedError("the answers are not one line of JSON") from None
        answers = document.get("answers") if isinstance(document, dict) else None
        if not isinstance(answers, list) or len(answers) != count:
            raise _FailedError(f'expected {{"answers": [...]}} with {count} answers')
        for answer in answers:
            if not isinstance(answer, str):
                raise _FailedError("an answer is not a string")
            if len(answer) > self._answer_chars:
                raise _FailedError(f"an answer is longer than {self._answer_chars} characters")
            if any("\ud800" <= c <= "\udfff" for c in answer):
                # Half a character would make scoring it raise, which must not be in its power.
                raise _FailedError("an answer is not valid Unicode")
        return answers


class _FailedError(Exception):
    """The candidate can give no answers any more."""


def _wait(fd: int, event: int, deadline: float) -> None:
    poller = select.poll()
    poller.register(fd, event)
    left_s = deadline - time.monotonic()
    if left_s <= 0 or not poller.poll(left_s * 1000):
        raise _FailedError("the candidate did not answer in time")
