"""A proposer in a process of its own: the worker never imports what it needs, and its random
state and its memory are its own.

The process is started by the first call, ends by itself when it was not needed for long, and may
be killed at any moment: what a proposer keeps is in its state and its history, so the call is made
again with a fresh one. A history is sent once: later calls send what is new.
"""

import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ledger.errors import ProposerFailed
from ledger.records import Params
from ledger.search import FinishedTrial, History, Proposals
from proposers.hosted_messages import Answered, Build, Call
from proposers.hosted_process import HostedProcess, Lost

log = logging.getLogger("arl.proposers")

RETRIES_AFTER_S: Final = (0.5, 3.0, 20.0)
"""A call whose process was lost is made again after so many seconds, and then given up."""
MEMORY_BYTES: Final = 2 * 1024**3
"""A process that has more after a call is ended: the next call starts a small one."""


class Hosted:
    """See proposers.protocol; `proposers.registry` builds it for what is `is_hosted`."""

    def __init__(
        self,
        build: Build,
        *,
        is_valid: Callable[[Params], bool],
        call_s: float,
        retries_after_s: Sequence[float] = RETRIES_AFTER_S,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._build = build
        self._is_valid = is_valid
        self._call_s = call_s
        self._retries_after_s = retries_after_s
        self._memory_bytes = memory_bytes
        self._told = _Told()
        self._calling = threading.Lock()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._process: HostedProcess | None = None
        self._unused: weakref.finalize[[], Hosted] | None = None

    def propose(
        self, history: History, *, count: int, seed: int, state: bytes | None
    ) -> Proposals:
        """Raises ProposerFailed: the proposer raised, or its process was lost again and again."""
        history = replace(history, sources=None)  # a callable stays where it is
        with self._calling:
            losses, why = 0, ""
            for wait_s in (*self._retries_after_s, None):
                try:
                    return self._ask(history, count, seed, state)
                except Lost as lost:
                    why, losses = str(lost), losses + 1
                if wait_s is None or self._closed.is_set():
                    break
                log.warning("proposer %s is asked again: its process %s", self._build.name, why)
                self._closed.wait(wait_s)
            if self._closed.is_set():
                raise ProposerFailed("its process was ended: the proposer was closed")
            tried = f"; tried {losses} times" if losses > 1 else ""
            raise ProposerFailed(f"its process {why}{tried}")

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            process = self._process
        if process is not None:
            process.end()

    def _ask(self, history: History, count: int, seed: int, state: bytes | None) -> Proposals:
        try:
            return self._ask_once(history, count, seed, state)
        except Lost as lost:
            if not lost.was_idle:
                raise
        return self._ask_once(history, count, seed, state)

    def _ask_once(self, history: History, count: int, seed: int, state: bytes | None) -> Proposals:
        process = self._running()
        news = self._told.news(history, state)
        call = Call(
            history=replace(history, finished=(), proposed=frozenset()),
            starts_over=news.starts_over,
            finished=news.finished,
            proposed=news.proposed,
            count=count,
            seed=seed,
            state=None if news.has_state else state,
            has_state=news.has_state,
        )
        answer = process.ask(call, limit_s=self._call_s)
        self._told.take(history, news)
        if not isinstance(answer, Answered):
            raise ProposerFailed(answer.why)
        self._told.state = answer.proposals.state
        if answer.memory_bytes > self._memory_bytes:
            process.end()
        return answer.proposals

    def _running(self) -> HostedProcess:
        """The process; a fresh one knows nothing."""
        with self._lock:
            if self._closed.is_set():
                raise ProposerFailed("the proposer was closed")
            if self._process is None or not self._process.is_running:
                self._told = _Told()
                self._process = HostedProcess(self._build, self._is_valid)
                if self._unused is not None:
                    self._unused.detach()
                self._unused = weakref.finalize(self, self._process.end)
            return self._process


@dataclass(frozen=True, slots=True, kw_only=True)
class _News:
    """What of a call the process does not know."""

    starts_over: bool
    finished: tuple[FinishedTrial, ...]
    proposed: tuple[str, ...]
    has_state: bool


class _Told:
    """What the process knows."""

    def __init__(self) -> None:
        self.state: bytes | None = None
        self._finished: tuple[FinishedTrial, ...] = ()
        self._proposed: set[str] = set()

    def news(self, history: History, state: bytes | None) -> _News:
        """Quick for the history that goes on: its trials are the same objects as before."""
        known = len(self._finished)
        new = history.proposed - self._proposed
        continues = (
            len(new) + len(self._proposed) == len(history.proposed)
            and tuple(history.finished[:known]) == self._finished
        )
        return _News(
            starts_over=not continues,
            finished=tuple(history.finished[known:] if continues else history.finished),
            proposed=tuple(new if continues else history.proposed),
            has_state=state is not None and state == self.state,
        )

    def take(self, history: History, news: _News) -> None:
        if news.starts_over:
            self._proposed = set()
        self._finished = tuple(history.finished)
        self._proposed.update(news.proposed)
