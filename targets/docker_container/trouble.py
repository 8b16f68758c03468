"""What a keeper has asked of its engine in vain for a while, told to controllers by a file below
the root. Standard library only."""

import json
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

PATIENCE_S: Final = 10.0
"""A trouble that is over sooner, like a restart of the engine, is nobody's business."""
LOG_BYTES: Final = 8 * 1024 * 1024
"""An engine that is away for weeks is asked, in vain, all the time."""
_FRESH_S: Final = 5.0
"""One that was not met again for so long is over."""
_FILE: Final = "trouble.json"
_NO_SPACE: Final = "no space left"


@dataclass(frozen=True, slots=True)
class Standing:
    """A trouble that lasts."""

    detail: str
    is_full: bool
    """The engine's disk is."""


def is_full(what: str) -> bool:
    """Whether an engine that said this lacks nothing but space."""
    return _NO_SPACE in what.lower()


def write_down(what: str) -> None:
    """On stderr, which is a file: one that got long begins anew. Whoever is in trouble must not
    fail because the disk is full, too."""
    line = f"{time.strftime('%FT%TZ', time.gmtime())} engine: {what}\n"
    with suppress(OSError):
        if os.fstat(2).st_size > LOG_BYTES:
            os.ftruncate(2, 0)
        os.write(2, line.encode())


class Troubles:
    """The keeper's side. Thread-safe."""

    def __init__(self, root: str) -> None:
        self._path = f"{root}/{_FILE}"
        self._lock = threading.Lock()
        self._since = self._last = float("-inf")
        self._is_told = False

    def note(self, what: str) -> bool:
        """The engine was asked in vain. True if controllers are to be woken because of it."""
        with self._lock:
            now = time.monotonic()
            if now - self._last > _FRESH_S:
                self._since, self._is_told = now, False
            self._last = now
            if not is_full(what) and now - self._since < PATIENCE_S:
                return False
            was_told, self._is_told = self._is_told, self._write(what, now)
            return self._is_told and not was_told

    def clear(self) -> None:
        """The engine answers."""
        with self._lock:
            self._since = self._last = float("-inf")
            self._is_told = False
            with suppress(OSError):  # there is none; else it is soon too old to be believed
                os.unlink(self._path)

    def _write(self, what: str, now: float) -> bool:
        text = json.dumps({"at": now, "detail": what, "full": is_full(what)})
        try:
            with open(f"{self._path}.new", "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(f"{self._path}.new", self._path)
        except OSError:  # this disk is full, too: the controller finds that by itself
            return False
        return True


def find_standing(root: str) -> Standing | None:
    """The trouble that the keeper of a root has now."""
    try:
        with open(f"{root}/{_FILE}", encoding="utf-8") as file:
            told = json.load(file)
    except (OSError, ValueError):
        return None
    if not 0.0 <= time.monotonic() - told["at"] <= _FRESH_S:
        return None
    return Standing(detail=told["detail"], is_full=told["full"])
