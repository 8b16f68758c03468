"""Waits for what outside workers tell, through a directory that every process can watch."""

import os
import select
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from targets import linux

LOOK_EVERY_S: Final = 1.0
"""Deadlines and leases are looked at so often; where there is no inotify, for news as well."""


class News:
    """One listener. Thread-safe, though only one thread waits at a time."""

    def __init__(self, directory: Path) -> None:
        """A file that is touched there is news of the attempt of that name."""
        self._inotify = linux.open_inotify()
        if self._inotify >= 0:
            linux.watch_directory(self._inotify, str(directory))
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._told: set[str] = set()
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def wait(
        self, handles: Collection[str], timeout_s: float, is_over: Callable[[str], bool]
    ) -> set[str]:
        """Those of `handles` with news; `is_over` says of one whether it ended by itself. One
        that is waited for the first time has news: it may have come before."""
        deadline = time.monotonic() + timeout_s
        wanted = set(handles)
        while True:
            found = self._take(wanted)
            left_s = deadline - time.monotonic()
            if not found and left_s > 0:
                interrupted = self._sleep(min(left_s, LOOK_EVERY_S))
                found = self._take(wanted) | {name for name in wanted if is_over(name)}
                if interrupted:
                    return found
            if found or left_s <= 0:
                return found

    def _take(self, wanted: set[str]) -> set[str]:
        with self._lock:
            if self._inotify >= 0:
                self._told |= linux.read_names(self._inotify)
            fresh = wanted - self._known
            self._known = wanted | (self._known & wanted)
            found = (self._told & wanted) | fresh
            self._told -= found
            # News of attempts that somebody else waits for is theirs; ours come with launch.
            if len(self._told) > 10_000:
                self._told.clear()
            return found

    def _sleep(self, seconds: float) -> bool:
        """Until something happened; True when it was `interrupt`."""
        watched = [self._reader] if self._inotify < 0 else [self._reader, self._inotify]
        ready, _, _ = select.select(watched, [], [], seconds)
        if self._reader not in ready:
            return False
        os.read(self._reader, 4096)
        return True

    def interrupt(self) -> None:
        try:
            os.write(self._writer, b"\0")
        except BlockingIOError:
            return  # it is full of interrupts already

    def close(self) -> None:
        for descriptor in (self._inotify, self._reader, self._writer):
            if descriptor >= 0:
                os.close(descriptor)
