"""Numbered fault points, found by instrumenting the code rather than by listing places.

`install(at)` wraps every commit and every system call that changes the world (files, sockets,
signals) in this process. Each wrapped call is two points, before and after it; the process
kills itself with SIGKILL when it reaches point number `at`. Without `at` it only records, so
that an unfaulted run tells which points exist. A point's identity is what it does, before or
after, and the lines of our own code that led there.
"""

import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from sqlalchemy.engine.default import DefaultDialect

OURS: Final = ("controller", "ledger", "targets", "evaluator", "proposers")
ROOT: Final = Path(__file__).resolve().parents[2]

FILE_EFFECTS: Final = (
    "replace",
    "rename",
    "link",
    "symlink",
    "unlink",
    "mkdir",
    "rmdir",
    "fsync",
    "fdatasync",
    "write",
    "kill",
    "mkfifo",
)


class FaultPoints:
    """Counts the points of one process and kills it at one of them."""

    def __init__(self, at: int | None, journal: Path) -> None:
        self._at = at
        self._journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._write = os.write
        self._kill = os.kill
        self._pid = os.getpid()
        self._count = 0

    def reach(self, what: str) -> None:
        if os.getpid() != self._pid:
            return  # a process forked from this one: the supervisor has faults of its own
        self._write(self._journal, f"{self._count}\t{what}\t{_our_stack()}\n".encode())
        if self._count == self._at:
            self._kill(self._pid, signal.SIGKILL)
        self._count += 1


def _our_stack() -> str:
    """The lines of our code that led here, innermost first."""
    frame = sys._getframe(2)
    found: list[str] = []
    while frame is not None:  # type: ignore[redundant-expr]  # f_back is None at the top
        path = frame.f_code.co_filename
        if path.startswith(str(ROOT)):
            relative = path[len(str(ROOT)) + 1 :]
            if relative.startswith(OURS):
                found.append(f"{relative}:{frame.f_lineno}")
        frame = frame.f_back  # type: ignore[assignment]
    return ">".join(found)


def install(at: int | None, journal: Path) -> FaultPoints:
    """Instrument this process; `journal` gets one line a point, before the kill."""
    points = FaultPoints(at, journal)
    for name in FILE_EFFECTS:
        setattr(os, name, _wrapped(points, name, getattr(os, name)))
    os.open = _wrapped_open(points, os.open)  # type: ignore[assignment]
    for name in ("send", "sendall", "connect"):
        setattr(socket.socket, name, _wrapped(points, name, getattr(socket.socket, name)))
    shutil.rmtree = _wrapped(points, "rmtree", shutil.rmtree)  # type: ignore[assignment]
    commit = DefaultDialect.do_commit
    DefaultDialect.do_commit = _wrapped(points, "commit", commit)  # type: ignore[method-assign]
    return points


def _wrapped(points: FaultPoints, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def instrumented(*args: Any, **kwargs: Any) -> Any:
        if not _is_ours():
            return call(*args, **kwargs)
        points.reach(f"before {name}")
        result = call(*args, **kwargs)
        points.reach(f"after {name}")
        return result

    return instrumented


def _wrapped_open(points: FaultPoints, call: Callable[..., int]) -> Callable[..., int]:
    def instrumented(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if not flags & os.O_CREAT or not _is_ours():
            return call(path, flags, *args, **kwargs)
        points.reach("before create")
        result = call(path, flags, *args, **kwargs)
        points.reach("after create")
        return result

    return instrumented


def _is_ours() -> bool:
    """Whether our code (not pytest's or the interpreter's own) is doing this."""
    frame = sys._getframe(2)
    for _ in range(40):
        path = frame.f_code.co_filename
        if path.startswith(str(ROOT)) and path[len(str(ROOT)) + 1 :].startswith(OURS):
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False
