"""Numbered fault points, found by instrumenting the code rather than by listing places.

`install` wraps every commit that changes the database and every call that changes the world
(files, sockets, processes, signals) in this process. Each wrapped call is two points, before
and after it. A point's identity is what is done and the lines of our own code that led there;
points of one identity are counted from 0. The process kills itself with SIGKILL when it reaches
the chosen one; without a choice it only records, so that an unfaulted run tells which points
exist. An audit hook, which the interpreter itself calls, notes every change that was not
wrapped: the list of wrapped calls cannot silently fall behind the code.
"""

import builtins
import io
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

OURS: Final = ("controller", "ledger", "targets", "evaluator", "proposers")
ROOT: Final = Path(__file__).resolve().parents[2]
_PREFIXES: Final = tuple(f"{ROOT}/{package}/" for package in OURS)

OS_CALLS: Final = (
    *("chmod", "chown", "fchmod", "fchown", "lchown", "utime", "setxattr", "removexattr"),
    *("link", "symlink", "mkdir", "mkfifo", "mknod", "rename", "replace", "rmdir", "unlink"),
    *("remove", "truncate", "ftruncate", "fsync", "fdatasync", "sync", "write", "writev"),
    *("pwrite", "sendfile", "copy_file_range", "kill", "killpg", "posix_spawn"),
)
SOCKET_CALLS: Final = ("bind", "connect", "send", "sendall", "sendmsg", "sendto")
AUDITED: Final = frozenset(
    {
        *("os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir"),
        *("os.symlink", "os.truncate", "os.utime", "os.setxattr", "os.removexattr", "os.kill"),
        *("os.killpg", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.system"),
        *("subprocess.Popen", "socket.bind", "socket.connect", "sqlite3.connect"),
    }
)


@dataclass(frozen=True, slots=True)
class Point:
    """One moment of a run: the `occurrence`-th time that `identity` was reached, from 0."""

    identity: str
    occurrence: int


Where = Point | int | Callable[[str], bool] | None
"""Which point: that one, at so many whichever they are, or the first whose identity fits."""


class Depth(threading.local):
    """Of wrapped calls inside wrapped calls, of each thread for itself."""

    value = 0


class FaultPoints:
    """Counts the points of one process and kills it at one of them."""

    def __init__(self, at: Where, journal: Path) -> None:
        self._at = at
        self._reached = 0
        self._journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._write = os.write
        self._kill = os.kill
        self._pid = os.getpid()
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._inside = Depth()
        """Above 0 inside a wrapped call: what it does in turn is part of it."""

    def reach(self, what: str) -> None:
        identity = f"{what} @ {our_lines()}"
        with self._lock:
            occurrence = self._seen[identity]
            self._seen[identity] += 1
            self._write(self._journal, f"{occurrence}\t{identity}\n".encode())
            self._reached += 1
            if self._is_the_one(Point(identity, occurrence)):
                self._kill(self._pid, signal.SIGKILL)

    def _is_the_one(self, point: Point) -> bool:
        if callable(self._at):
            return self._at(point.identity)
        return self._at in (point, self._reached)

    def call(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call with a point before and one after, unless this is no change of our own."""
        if self._inside.value or os.getpid() != self._pid or not is_ours():
            return function(*args, **kwargs)
        self.reach(f"before {name}")
        self._inside.value += 1
        try:
            result = function(*args, **kwargs)
        finally:
            self._inside.value -= 1
        self.reach(f"after {name}")
        return result

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        """The interpreter's own account of changes: one that no wrapper saw is written down."""
        if self._inside.value or os.getpid() != self._pid:
            return
        changes = event in AUDITED or (event == "open" and _creates(args))
        if changes and is_ours():
            self._write(self._journal, f"-1\tmissed {event} @ {our_lines()}\n".encode())


def _creates(args: tuple[Any, ...]) -> bool:
    flags = args[2] if len(args) > 2 and isinstance(args[2], int) else 0
    # One without a name is told of by its directory; the call that makes it is seen itself.
    return bool(flags & (os.O_CREAT | os.O_TRUNC)) and not os.path.isdir(args[0])


def our_lines() -> str:
    """The lines of our code that led here, innermost first."""
    frame = sys._getframe(1)
    found: list[str] = []
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(_PREFIXES):
            found.append(f"{path[len(str(ROOT)) + 1 :]}:{frame.f_lineno}")
        frame = frame.f_back  # type: ignore[assignment]
    return " < ".join(found)


def is_ours() -> bool:
    """Whether our code, not the test's or the interpreter's own, is doing this."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PREFIXES):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def install(at: Where, journal: Path) -> FaultPoints:
    """Instrument this process for good; `journal` gets one line a point, before the kill. With a
    number it dies at that many points, whichever they are."""
    points = FaultPoints(at, journal)
    for name in OS_CALLS:
        setattr(os, name, _wrapped(points, name, getattr(os, name)))
    for name in SOCKET_CALLS:
        setattr(socket.socket, name, _wrapped(points, name, getattr(socket.socket, name)))
    shutil.rmtree = _wrapped(points, "rmtree", shutil.rmtree)  # type: ignore[assignment]
    popen = _wrapped(points, "spawn", subprocess.Popen.__init__)
    subprocess.Popen.__init__ = popen  # type: ignore[method-assign]
    os.open = _wrapped_open(points, os.open)  # type: ignore[assignment]
    io.open = builtins.open = _wrapped_file(points, open)  # type: ignore[assignment]
    _instrument_sqlite(points)
    _instrument_postgres(points)
    sys.addaudithook(points.audit)
    return points


def _wrapped(points: FaultPoints, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def instrumented(*args: Any, **kwargs: Any) -> Any:
        return points.call(name, function, *args, **kwargs)

    return instrumented


def _wrapped_open(points: FaultPoints, function: Callable[..., int]) -> Callable[..., int]:
    def instrumented(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if not flags & (os.O_CREAT | os.O_TRUNC):
            return function(path, flags, *args, **kwargs)
        opened: int = points.call("create", function, path, flags, *args, **kwargs)
        return opened

    return instrumented


def _wrapped_file(points: FaultPoints, function: Callable[..., Any]) -> Callable[..., Any]:
    """`open` for writing gives a file whose every write to the system is a point."""

    class PointFile(io.FileIO):
        def write(self, data: Any) -> int:
            written: int = points.call("file write", super().write, data)
            return written

    def instrumented(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if not set(mode) & set("wax+") or isinstance(file, int) or not is_ours():
            return function(file, mode, *args, **kwargs)
        if kwargs.get("opener") is not None:  # a file without a name: what makes it is a point
            return function(file, mode, *args, **kwargs)
        buffering, *text = (*args, *(-1, None, None, None)[len(args) :])
        text[0] = kwargs.pop("encoding", text[0])
        known = not kwargs and buffering == -1
        assert known, f"open({mode!r}, {args}, {kwargs}) is not instrumented"
        raw = points.call("create", PointFile, file, mode.replace("b", "").replace("t", ""))
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *text)

    return instrumented


def _instrument_sqlite(points: FaultPoints) -> None:
    """SQLAlchemy commits through the driver's `commit`; what runs outside a transaction (a
    PRAGMA that changes the file) is its own commit. A commit of nothing is no change."""

    class PointConnection(CountedConnection):
        POINTS = points

    connect = sqlite3.connect

    def instrumented(*args: Any, **kwargs: Any) -> Any:
        return points.call("open database", connect, *args, factory=PointConnection, **kwargs)

    sqlite3.dbapi2.connect = sqlite3.connect = instrumented  # type: ignore[assignment, attr-defined]
    dialect = sys.modules.get("sqlalchemy.dialects.sqlite.pysqlite")
    own = vars(dialect.SQLiteDialect_pysqlite) if dialect is not None else ()
    assert "do_commit" not in own, "it commits in a way of its own now"


def _instrument_postgres(points: FaultPoints) -> None:
    """Of PostgreSQL's driver only the commits are calls of ours: it sends by itself, in C."""
    psycopg = sys.modules.get("psycopg")
    if psycopg is None:
        return
    commit = psycopg.Connection.commit

    def instrumented(connection: Any) -> None:
        if connection.read_only:
            commit(connection)
        else:
            points.call("commit", commit, connection)

    psycopg.Connection.commit = instrumented


class CountedCursor(sqlite3.Cursor):
    def execute(self, sql: str, *args: Any) -> Any:
        connection: Any = self.connection
        if is_change(sql):
            if not connection.in_transaction:
                return connection.POINTS.call("execute", super().execute, sql, *args)
            connection.changed = True
        return super().execute(sql, *args)

    def executemany(self, sql: str, *args: Any) -> Any:
        connection: Any = self.connection
        connection.changed = True
        return super().executemany(sql, *args)


class CountedConnection(sqlite3.Connection):
    POINTS: FaultPoints
    changed = False

    def cursor(self, factory: Any = CountedCursor) -> Any:
        return super().cursor(factory)

    def execute(self, *args: Any) -> Any:
        return self.cursor().execute(*args)

    def commit(self) -> None:
        if not self.changed:
            super().commit()
            return
        self.changed = False
        self.POINTS.call("commit", super().commit)

    def rollback(self) -> None:
        self.changed = False
        super().rollback()


def is_change(sql: str) -> bool:
    """Whether a statement may change the database; a PRAGMA that only asks has no `=`."""
    word = sql.lstrip()[:6].upper()
    return "=" in sql if word == "PRAGMA" else word not in ("SELECT", "BEGIN", "BEGIN ")


def read_journal(path: Path) -> tuple[list[Point], list[str]]:
    """Every point reached, in order, and the changes that no wrapper saw."""
    points: list[Point] = []
    missed: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        occurrence, _, identity = line.partition("\t")
        if occurrence == "-1":
            missed.append(identity)
        else:
            points.append(Point(identity, int(occurrence)))
    return points, missed
