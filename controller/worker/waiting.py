"""Waiting for news of several targets at once, each in its own way."""

import logging
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ledger.errors import ArlError, TargetUnavailable
from targets.protocol import Target

log = logging.getLogger("arl.worker")

Waited = tuple[Target, Collection[str]]
"""A target and the handles to wait for there."""


class News(NamedTuple):
    handles: set[str]
    away: bool
    """Whether a target did not answer. Its handles are among the news: observing them tells
    each study what is wrong."""


def wait_for_any(waited: Sequence[Waited], timeout_s: float) -> News:
    """Block until one of the targets has news, is interrupted, or the time is over. A single
    target is waited for right here; several get a thread each for the length of the wait."""
    if len(waited) == 1:
        target, handles = waited[0]
        return _wait(target, handles, timeout_s)
    turn = _Turn(waited, timeout_s)
    return turn.take()


def _wait(target: Target, handles: Collection[str], timeout_s: float) -> News:
    try:
        return News(target.wait(handles, timeout_s), away=False)
    except TargetUnavailable as error:
        log.warning("target %s does not answer: %s", target.name, error)
        return News(set(handles), away=True)


@dataclass(slots=True)
class _Turn:
    """One wait for several targets: the first to return wakes the others."""

    waited: Sequence[Waited]
    timeout_s: float
    _found: dict[int, News] = field(default_factory=dict)
    _failed: list[Exception] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self) -> News:
        threads = [
            threading.Thread(target=self._run, args=(index,), name=f"arl-wait-{target.name}")
            for index, (target, _) in enumerate(self.waited)
        ]
        for thread in threads:
            thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._found)
            late = [t for i, (t, _) in enumerate(self.waited) if i not in self._found]
        for target in late:  # at worst one that returns just now wakes once for nothing
            target.interrupt()
        for thread in threads:
            thread.join()
        if self._failed:
            raise self._failed[0]
        handles = set().union(*(news.handles for news in self._found.values()))
        return News(handles, away=any(news.away for news in self._found.values()))

    def _run(self, index: int) -> None:
        target, handles = self.waited[index]
        news = News(set(), away=False)
        try:
            news = _wait(target, handles, self.timeout_s)
        except (ArlError, OSError) as error:
            self._failed.append(error)  # raised where it would be with a single target
        finally:
            with self._changed:
                self._found[index] = news
                self._changed.notify()
