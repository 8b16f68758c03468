"""A controller's connections to the supervisor of its root, or to a daemon that takes its place
and speaks as it does; it is started when needed."""

import hashlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ledger.errors import DiskFull, InvalidInput, StaleFence, TargetUnavailable
from targets import layout
from targets.disk_errors import disk_errors

_START_PATIENCE_S: Final = 60.0
_ANSWER_PATIENCE_S: Final = 15.0
_TRIES: Final = 5
_PACKAGES: Final = str(Path(__file__).resolve().parents[1])
_START: Final = (
    "import sys; sys.path.append(sys.argv[1]); from targets.supervisor_start import main; "
    "main(sys.argv[2], int(sys.argv[3]), sys.argv[4])"
)
_SOURCES: Final = (
    *("cgroups", "client_sockets", "disk_use", "disk_walk", "egress/child", "enclosed"),
    *("layout", "linux", "program_log", "recovery", "report_watch", "spawning", "streams"),
    *("subreaper", "subreapers", "supervisor", "supervisor_start", "watchdog"),
)

Message = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """What serves a root, and how it is started."""

    what: str
    start: str
    """Python source that makes a daemon of itself; it finds this package's directory, the root,
    a descriptor to say that it is ready on, its code's digest and `arguments` in sys.argv."""
    sources: tuple[str, ...]
    """Modules of this package that it consists of."""
    flags: tuple[str, ...] = ("-I",)
    """Of its interpreter, which is ours."""
    arguments: tuple[str, ...] = ()
    inherits: tuple[str, ...] = ()
    """Variables of our environment that it gets, beside the little that every daemon does."""


class Refusal(Exception):
    """The supervisor is there and says no; `code` is one of its codes."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class Connection:
    """One socket to the supervisor, speaking JSON lines. Not thread-safe.

    Raises OSError (ConnectionError among them) when the supervisor is gone.
    """

    def __init__(self, root: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self._received = b""
        try:
            with layout.short_path(root) as path:
                self.socket.connect(f"{path}/{layout.SOCKET}")
            self.socket.settimeout(_ANSWER_PATIENCE_S)
            self.hello = self.call("hello")
        except BaseException:
            self.socket.close()
            raise

    def call(self, operation: str, name: str = "", by: float | None = None) -> Message:
        """Ask and wait for the answer. Raises Refusal."""
        request = {"op": operation, "name": name, "by": by}
        self.socket.sendall(json.dumps(request).encode() + b"\n")
        while b"\n" not in self._received:
            self._receive()
        line, _, self._received = self._received.partition(b"\n")
        answer: Message = json.loads(line)
        if not answer["ok"]:
            raise Refusal(answer["error"], answer["detail"])
        return answer

    def events(self) -> list[Message]:
        """What the supervisor told since the last call; call it when the socket is readable."""
        self._receive()
        *lines, self._received = self._received.split(b"\n")
        return [json.loads(line) for line in lines]

    def _receive(self) -> None:
        data = self.socket.recv(64 * 1024)
        if not data:
            raise ConnectionResetError("the supervisor closed the connection")
        self._received += data

    def close(self) -> None:
        self.socket.close()


def _supervisor() -> Daemon:
    return Daemon(what="supervisor", start=_START, sources=_SOURCES, flags=("-I", "-S"))


def connect(root: str, daemon: Daemon | None = None) -> Connection:
    """A connection to the supervisor of `root`, or to the daemon in its place, started if there
    is none. Raises TargetUnavailable, DiskFull."""
    chosen = daemon or _supervisor()
    what, trouble = chosen.what, ""
    for attempt in range(_TRIES):
        try:
            connection = Connection(root)
        except (FileNotFoundError, ConnectionError) as error:
            trouble = str(error)
            if attempt:
                time.sleep(0.02 * attempt)
            with disk_errors(f"starting the {what} of {root}"):
                _start(root, chosen)
        except OSError as error:
            raise TargetUnavailable(f"{what} of {root}: {error}") from error
        else:
            return _checked(connection, root, what)
    raise TargetUnavailable(f"{what} of {root} does not stay up: {trouble}")


def _checked(connection: Connection, root: str, what: str) -> Connection:
    theirs = connection.hello["protocol"]
    if theirs == layout.PROTOCOL:
        return connection
    connection.close()
    raise TargetUnavailable(
        f"the {what} of {root} (pid {connection.hello['pid']}) speaks protocol {theirs} and "
        f"this ARL speaks {layout.PROTOCOL}: let the ARL that started it finish; the {what} "
        "leaves by itself 10 s after its last attempt and controller are gone"
    )


def code_digest(daemon: Daemon | None = None) -> str:
    """Of a daemon's source, so that one started from other code can be told."""
    digest = hashlib.sha256()
    for name in (daemon or _supervisor()).sources:
        digest.update(Path(_PACKAGES, "targets", f"{name}.py").read_bytes())
    return digest.hexdigest()[:16]


def _start(root: str, daemon: Daemon) -> None:
    ready, ready_in = os.pipe()
    log = os.open(
        f"{root}/{layout.SUPERVISOR_LOG}",
        os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
        0o600,
    )
    try:
        # A name of its own above the low numbers, which the supervisor uses for others.
        process = subprocess.run(
            [
                *(sys.executable, *daemon.flags, "-c", daemon.start),
                *(_PACKAGES, root, str(ready_in), code_digest(daemon), *daemon.arguments),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            pass_fds=(ready_in,),
            start_new_session=True,
            cwd="/",
            env=_environment(daemon),
            check=False,
        )
        os.close(ready_in)
        ready_in = -1
        if process.returncode != 0 or not _said_ready(ready):
            raise TargetUnavailable(
                f"no {daemon.what} could be started: see {root}/{layout.SUPERVISOR_LOG}"
            )
    finally:
        for descriptor in (ready, ready_in, log):
            if descriptor >= 0:
                os.close(descriptor)


def _environment(daemon: Daemon) -> dict[str, str]:
    """Nothing of the controller's, but what its interpreter may need to start at all, and what
    the daemon asks for."""
    names = ("LD_LIBRARY_PATH", *daemon.inherits)
    kept = {name: os.environ.get(name, "") for name in names}
    return {"PATH": layout.CLEAN_PATH, "LANG": "C.UTF-8", **{k: v for k, v in kept.items() if v}}


def _said_ready(ready: int) -> bool:
    poll = select.poll()
    poll.register(ready, select.POLLIN)
    return bool(poll.poll(_START_PATIENCE_S * 1000)) and os.read(ready, 16) in (b"ready", b"other")


class CommandLink:
    """Calls to the daemon of a root over one shared connection. Thread-safe."""

    def __init__(self, root: str, daemon: Daemon | None = None) -> None:
        self._root = root
        self._daemon = daemon
        self._lock = threading.Lock()
        self._connection: Connection | None = None

    def call(self, operation: str, name: str, by: float | None = None) -> Message:
        """Ask the daemon; asked again of a new one if it goes away before it answered, since
        every operation is idempotent. Raises Refusal, TargetUnavailable, DiskFull, StaleFence."""
        with self._lock:
            for _ in range(_TRIES):
                if self._connection is None:
                    self._connection = connect(self._root, self._daemon)
                try:
                    return self._connection.call(operation, name, by)
                except OSError:
                    self._connection.close()
                    self._connection = None
                except Refusal as refusal:
                    raise _translated(refusal) from None
        what = (self._daemon or _supervisor()).what
        raise TargetUnavailable(f"{what} of {self._root} went away {_TRIES} times in a row")

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def _translated(refusal: Refusal) -> Exception:
    if refusal.code == "full":
        return DiskFull(f"no space for the attempt's record: {refusal}")
    if refusal.code == "system":
        return TargetUnavailable(f"it cannot be started: {refusal}")
    if refusal.code == "late":
        return StaleFence(str(refusal))
    if refusal.code == "request":
        return InvalidInput(str(refusal))
    return refusal
