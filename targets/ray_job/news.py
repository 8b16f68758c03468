"""Waiting for attempts on a cluster to have news, as its driver tells of them."""

import threading
import time
from collections.abc import Callable, Collection


class RayNews:
    """See targets.protocol.Target.wait. Thread-safe. `watch` makes the driver tell of a name."""

    def __init__(self, watch: Callable[[str], None]) -> None:
        self._watch = watch
        self._changed = threading.Condition()
        self._interrupted = False
        self._known: set[str] = set()
        self._fresh: set[str] = set()
        self._ended: set[str] = set()
        self._why: dict[str, str] = {}

    def wait(self, names: Collection[str], timeout_s: float) -> set[str]:
        until = time.monotonic() + timeout_s
        for name in names:
            self._meet(name)
        with self._changed:
            while True:
                found = {n for n in names if n in self._fresh or n in self._ended}
                self._fresh -= found
                left_s = until - time.monotonic()
                if found or self._interrupted or left_s <= 0:
                    self._interrupted = False
                    return found
                if any(n not in self._known for n in names):  # the connection broke
                    return set(names)
                self._changed.wait(left_s)

    def interrupt(self) -> None:
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def expect(self, name: str) -> None:
        """It was launched just now: nothing about it can have been missed."""
        with self._changed:
            is_new = name not in self._known
            self._known.add(name)
        if is_new:
            self._watch(name)

    def end(self, name: str) -> None:
        """Its end can be observed, now and later."""
        with self._changed:
            self._known.add(name)
            self._ended.add(name)
            self._changed.notify_all()

    def freshen(self, name: str) -> None:
        with self._changed:
            self._fresh.add(name)
            self._changed.notify_all()

    def hold(self, name: str) -> None:
        """No news until `end` or `freshen`: something about it is under way."""
        with self._changed:
            self._known.add(name)
            self._ended.discard(name)
            self._fresh.discard(name)

    def forget(self, name: str) -> None:
        with self._changed:
            for names in (self._known, self._fresh, self._ended):
                names.discard(name)
            self._why.pop(name, None)

    def why(self, name: str) -> str:
        """What the driver said last of its end, or of why it waits."""
        with self._changed:
            return self._why.get(name, "")

    def on_event(self, kind: str, name: str, why: str) -> None:
        with self._changed:
            if name not in self._known:
                return
            if why:
                self._why[name] = why
            self._fresh.add(name)
            self._changed.notify_all()

    def on_silence(self) -> None:
        with self._changed:
            self._known.clear()
            self._changed.notify_all()

    def _meet(self, name: str) -> None:
        """One that another process launched, or the driver before this one: anything may have
        happened to it."""
        with self._changed:
            if name in self._known or name in self._ended:
                return
            self._known.add(name)
            self._fresh.add(name)
        try:
            self._watch(name)
        except BaseException:
            with self._changed:
                self._known.discard(name)
            raise
