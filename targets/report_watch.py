"""Notices that programs report, without looking at their files all the time.

Standard library only.
"""

import os
import sys
from collections import deque
from typing import Final

from targets import layout, linux

EVERY_S: Final = 0.05
"""An attempt's reports are told of at most this often, and first watched at this age: one that
is over sooner costs nothing."""
_EVENT_BYTES: Final = 16


class ReportWatch:
    def __init__(self, attempts: str) -> None:
        self._attempts = attempts
        self._sizes: dict[str, int] = {}
        self._watches: dict[int, str] = {}
        self._waiting: deque[tuple[float, str]] = deque()
        """To be watched (again) at a time; in order, since the delay is always the same."""
        self.descriptor = linux.open_inotify()
        """Readable when `changes` has something; negative where the machine has no inotify."""

    def add(self, name: str, now: float) -> None:
        self._sizes[name] = 0
        self._waiting.append((now + EVERY_S, name))

    def remove(self, name: str) -> None:
        del self._sizes[name]

    def due_at(self) -> float | None:
        """When `look` has something to do; None when it has not."""
        while self._waiting and self._waiting[0][1] not in self._sizes:
            self._waiting.popleft()
        return self._waiting[0][0] if self._waiting else None

    def look(self, now: float) -> list[str]:
        """Watch the attempts that are due; the names of those that reported meanwhile."""
        reported = []
        while self._waiting and self._waiting[0][0] <= now:
            name = self._waiting.popleft()[1]
            if name not in self._sizes:
                continue
            watch = self._watch(self._path(name))
            if watch >= 0:
                self._watches[watch] = name
            else:  # no watches left on this machine: look at it again instead
                self._waiting.append((now + EVERY_S, name))
            if self._has_grown(name):
                reported.append(name)
        return reported

    def changes(self, now: float) -> list[str]:
        """The names of the watched attempts that reported."""
        data = os.read(self.descriptor, 64 * 1024)
        reported = []
        while data:
            watch = int.from_bytes(data[:4], sys.byteorder, signed=True)
            data = data[_EVENT_BYTES + int.from_bytes(data[12:16], sys.byteorder) :]
            name = self._watches.pop(watch, None)
            if name in self._sizes and name is not None:
                self._waiting.append((now + EVERY_S, name))
                if self._has_grown(name):
                    reported.append(name)
        return reported

    def _watch(self, path: str) -> int:
        if self.descriptor < 0:
            return -1
        watch = linux.watch_once(self.descriptor, path)
        if watch < 0 and not os.path.lexists(path):  # nothing reported yet
            try:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                os.close(os.open(path, flags, 0o600))
            except OSError:
                return -1
            watch = linux.watch_once(self.descriptor, path)
        return watch

    def _has_grown(self, name: str) -> bool:
        try:
            size = os.stat(self._path(name), follow_symlinks=False).st_size
        except OSError:
            return False
        grown = size != self._sizes[name]
        self._sizes[name] = size
        return grown

    def _path(self, name: str) -> str:
        return f"{self._attempts}/{name}/{layout.REPORTS}"
