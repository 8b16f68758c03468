"""The process of one hosted proposer: builds it and answers calls until nobody asks any more.

    python -m proposers.hosted_child DESCRIPTOR

DESCRIPTOR is a socket to whoever started it, and standard input a pipe that nobody writes to: the
kernel ends this process once the other end is gone, whatever it is doing.
"""

import faulthandler
import fcntl
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from ledger.errors import ArlError, ProposerFailed
from ledger.records import Params
from ledger.search import FinishedTrial, History
from proposers.host import ask
from proposers.hosted_messages import (
    IDLE_EXIT,
    MEMORY_EXIT,
    Answered,
    Build,
    Call,
    Failed,
    Question,
    receive_pickled,
    send_answer,
    send_question,
)
from proposers.protocol import Proposer

_FIRST_TO_GO: Final = "500"
"""When memory runs out the kernel should end this process, not the worker: it is replaced."""


class _Known:
    """The study as it was told so far."""

    def __init__(self) -> None:
        self._finished: list[FinishedTrial] = []
        self._proposed: set[str] = set()
        self._state: bytes | None = None

    def told(self, call: Call) -> tuple[History, bytes | None]:
        if call.starts_over:
            self._finished, self._proposed = [], set()
        self._finished += call.finished
        self._proposed.update(call.proposed)
        history = replace(call.history, finished=self._finished, proposed=self._proposed)
        return history, self._state if call.has_state else call.state

    def remember(self, state: bytes | None) -> None:
        self._state = state


def main(arguments: list[str]) -> int:
    faulthandler.enable()
    _end_with_the_other_end(sys.stdin.fileno())
    _go_first_when_memory_runs_out()
    channel = socket.socket(fileno=int(arguments[0]))
    try:
        build = receive_pickled(channel)
        if not isinstance(build, Build):
            raise TypeError("the first message says what to build")
        return _serve(channel, build)
    except (EOFError, ConnectionError):
        return 0


def _serve(channel: socket.socket, build: Build) -> int:
    proposer: Proposer | None = None
    known = _Known()
    while select.select([channel], [], [], build.idle_s)[0]:
        call = receive_pickled(channel)
        if not isinstance(call, Call):
            raise TypeError("after the first message there are only calls")
        history, state = known.told(call)  # whatever comes of the call: it is not told again
        try:
            if proposer is None:
                proposer = _built(build, partial(_ask_back, channel))
            given = ask(
                proposer,
                history,
                space=build.space,
                count=call.count,
                seed=call.seed,
                state=state,
            )
        except ArlError as error:
            if isinstance(error.__cause__, MemoryError):
                return MEMORY_EXIT
            send_answer(channel, Failed(why=str(error)))
        else:
            known.remember(given.state)
            send_answer(channel, Answered(proposals=given, memory_bytes=_memory_bytes()))
    return IDLE_EXIT


def _ask_back(channel: socket.socket, params: Params) -> bool:
    """What the worker says of a point."""
    send_question(channel, Question(params=params))
    verdict = receive_pickled(channel)
    if not isinstance(verdict, bool):
        raise TypeError("a question is answered with yes or no")
    return verdict


def _built(build: Build, is_valid: Callable[[Params], bool]) -> Proposer:
    try:
        return build.make(is_valid)
    except (ArlError, MemoryError):
        raise
    # A proposer is someone else's code: it may raise anything, even ask the process to exit.
    except (Exception, SystemExit) as error:
        raise ProposerFailed(f"it raised {type(error).__name__}: {error}") from error


def _end_with_the_other_end(lifeline: int) -> None:
    """SIGIO ends a process that does not handle it. A pipe that nobody writes to has news only
    when it is closed."""
    signal.signal(signal.SIGIO, signal.SIG_DFL)  # whatever the worker does with it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGIO})
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:  # closed before we listened
        sys.exit(0)


def _go_first_when_memory_runs_out() -> None:
    try:
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO, encoding="ascii")
    except OSError:  # a system without it
        return


def _memory_bytes() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    # No clean-up of libraries: whatever is worth keeping was sent.
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)
