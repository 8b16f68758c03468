"""Every request of an attempt that may reach hosts, written down by its proxy as it goes.

Standard library only. One JSON object a line. An allowed request has a line when it begins, on
disk before its first byte leaves, and one when it ends; a refused one has the latter only. Past
MAX_REQUESTS there is a count instead.
"""

import json
import os
import threading
from datetime import UTC, datetime
from typing import Any, Final

from targets import layout

SETTINGS: Final = "egress.json"
SOCKET: Final = "egress.sock"
FILE: Final = "requests.jsonl"
MAX_REQUESTS: Final = 10_000
"""Of one attempt; every further one is refused and only counted."""
MAX_COUNTED: Final = 1000
"""Of those; then nothing is listened to any more, so that a flood costs this machine nothing."""

Line = dict[str, Any]


class Recorder:
    """Appends to one attempt's file. Thread-safe. Raises OSError when it cannot."""

    def __init__(self, directory: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(f"{directory}/{FILE}", flags, 0o600)
        self._lock = threading.Lock()
        self._number = 0
        self._more = 0

    def take_number(self) -> int | None:
        """The next request's; None when it is one too many, which is counted."""
        with self._lock:
            if self._number < MAX_REQUESTS:
                self._number += 1
                return self._number
            self._more += 1
            if self._more & (self._more - 1) == 0:  # so that the count outlives a kill, about
                self._write_count()
            return None

    def begin(self, number: int, what: Line) -> None:
        """Before anything of an allowed request leaves."""
        self._write({"number": number, **what, "allowed": True})
        os.fdatasync(self._descriptor)

    def end(self, number: int, what: Line) -> None:
        self._write({"number": number, **what, "ended": True})

    @property
    def is_flooded(self) -> bool:
        return self._more >= MAX_COUNTED

    def close(self) -> None:
        with self._lock:
            if self._more:
                self._write_count()
            os.fdatasync(self._descriptor)

    def _write_count(self) -> None:
        self._write({"more": self._more, "at": now()})

    def _write(self, line: Line) -> None:
        """In one piece, and a line of its own whatever a full disk cut off before."""
        layout.write_whole(self._descriptor, f"\n{json.dumps(line)}\n".encode())


def described(at: str, method: str, host: str, port: int) -> Line:
    """The part of a line that says what was asked for, bounded."""
    return {
        "at": at,
        "method": layout.one_line(method)[:16],
        "host": layout.one_line(host)[:255],
        "port": port,
    }


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
