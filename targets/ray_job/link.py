"""A controller's connection to a Ray cluster, through a process that is the driver there."""

import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Protocol

from ledger.errors import InvalidInput, TargetUnavailable

_START_S: Final = 60.0
_CONNECT_S: Final = 10.0
_ANSWER_S: Final = 20.0
_PAUSE_S: Final = 2.0
"""Between two tries to reach a cluster that does not answer: a study asks again and again."""
_PACKAGES: Final = str(Path(__file__).resolve().parents[2])
_CODE: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from targets.ray_job.bridge import main; "
    "main(int(sys.argv[2]), sys.argv[3], sys.argv[4])"
)
_SETTINGS: Final = (
    "RAY_USAGE_STATS_ENABLED=0",
    "RAY_DISABLE_IMPORT_WARNING=1",
    "RAY_gcs_rpc_server_reconnect_timeout_s=20",
)


class Listener(Protocol):
    """Who hears what the driver tells of."""

    def on_event(self, kind: str, name: str, why: str) -> None:
        """`news`, `gone` or `stuck`, of the attempt called `name`."""
        ...

    def on_silence(self) -> None:
        """The connection broke: whatever happened since may have been missed."""
        ...


class RayLink:
    """Calls of one process to one cluster and namespace. Thread-safe; see `open_link`."""

    def __init__(self, address: str, namespace: str, log: Path) -> None:
        self._address = address
        self._namespace = namespace
        self._log = log
        self._starting = threading.Lock()
        self._sending = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._opening: Future[Connection] | None = None
        self._is_closed = False
        self._numbers = itertools.count()
        self._asked: dict[int, Future[Any]] = {}
        self._listeners: list[Listener] = []
        self._failed_at = -_PAUSE_S
        self._failure = ""
        self.users = 0

    def call(self, operation: str, patience_s: float = _ANSWER_S, **arguments: Any) -> Any:
        """Ask the driver. Raises TargetUnavailable: it cannot be started, the cluster does not
        answer, or it broke off."""
        connection = self._connected()
        future: Future[Any] = Future()
        number = next(self._numbers)
        self._asked[number] = future
        try:
            with self._sending:
                connection.send({"id": number, "op": operation, "with": arguments})
            answer = future.result(patience_s)
        except FutureTimeout:
            self._hang_up(connection)
            raise TargetUnavailable(
                f"the Ray cluster {self._address} did not answer within {patience_s:g} s"
            ) from None
        except OSError as error:
            self._hang_up(connection)
            raise TargetUnavailable(f"the Ray driver broke off: {error}") from error
        finally:
            self._asked.pop(number, None)
        if not answer["ok"]:
            raise TargetUnavailable(
                f"the Ray cluster {self._address}: {answer['kind']}: {answer['said']}"
            )
        return answer["value"]

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def stop_listening(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    def close(self) -> None:
        """The driver leaves by itself; what runs in the cluster goes on."""
        with self._starting:
            self._is_closed = True
            connection = self._connection
        if connection is not None:
            self._hang_up(connection)

    def _connected(self) -> Connection:
        """The connection, made now if there is none. Waits only so long for it: whoever asks
        has other studies to see to, and asks again."""
        with self._starting:
            if self._connection is not None:
                return self._connection
            if time.monotonic() - self._failed_at < _PAUSE_S:
                raise TargetUnavailable(self._failure)
            if self._opening is None:
                _check_installed()
                self._opening = Future()
                threading.Thread(
                    target=self._open, args=(self._opening,), name="arl-ray-open", daemon=True
                ).start()
            opening = self._opening
        try:
            return opening.result(_CONNECT_S)
        except FutureTimeout:
            raise TargetUnavailable(
                f"no Ray cluster at {self._address}: it has not answered for {_CONNECT_S:g} s"
            ) from None

    def _open(self, opening: "Future[Connection]") -> None:
        try:
            connection = self._start()
        except (TargetUnavailable, OSError) as error:
            with self._starting:
                self._failed_at, self._failure = time.monotonic(), str(error)
                self._opening = None
            opening.set_exception(TargetUnavailable(str(error)))
            return
        with self._starting:
            self._opening = None
            self._connection = None if self._is_closed else connection
        if self._is_closed:
            self._shut(connection)
        opening.set_result(connection)

    def _start(self) -> Connection:
        ours, theirs = socket.socketpair()
        with theirs, open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [
                    *("/usr/bin/env", *_SETTINGS, sys.executable, "-c", _CODE, _PACKAGES),
                    *(str(theirs.fileno()), self._address, self._namespace),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                cwd="/",
            )
        connection = Connection(ours.detach())
        why = self._greeting(connection)
        if why is not None:
            connection.close()
            _end(self._process)
            raise TargetUnavailable(f"no Ray cluster at {self._address}: {why}")
        threading.Thread(
            target=self._read, args=(connection, self._process), name="arl-ray-link", daemon=True
        ).start()
        return connection

    def _greeting(self, connection: Connection) -> str | None:
        """Why the driver did not connect; None when it did."""
        try:
            if not connection.poll(_START_S):
                return f"it did not answer within {_START_S:g} s"
            said = connection.recv()
        except (EOFError, OSError):
            return f"the driver ended, see {self._log}"
        return None if said["event"] == "ready" else str(said["why"])

    def _read(self, connection: Connection, process: subprocess.Popen[bytes]) -> None:
        """Pass on what the driver says, until it breaks off."""
        while True:
            try:
                message = connection.recv()
            except (EOFError, OSError):
                break
            if "id" in message:
                future = self._asked.get(message["id"])
                if future is not None and not future.done():
                    future.set_result(message)
            else:
                for listener in list(self._listeners):
                    listener.on_event(message["event"], message["name"], message.get("why", ""))
        self._hang_up(connection)
        connection.close()
        _end(process)

    def _hang_up(self, connection: Connection) -> None:
        """Forget a connection; the next call starts another. Its reader closes it."""
        with self._starting:
            if self._connection is not connection:
                return
            self._connection = None
        self._shut(connection)
        for future in list(self._asked.values()):
            if not future.done():
                future.set_exception(ConnectionResetError("the connection was given up"))
        for listener in list(self._listeners):
            listener.on_silence()

    def _shut(self, connection: Connection) -> None:
        try:
            with socket.socket(fileno=os.dup(connection.fileno())) as ours:
                ours.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it broke off already


def _end(process: subprocess.Popen[bytes]) -> None:
    """A driver leaves when its controller hangs up, unless it hangs itself."""
    try:
        process.wait(5.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _check_installed() -> None:
    from importlib.util import find_spec

    if find_spec("ray") is None:
        raise InvalidInput("target.name 'ray': Ray is not installed; pip install 'arl[ray]'")


_links: Final[dict[tuple[int, str, str], RayLink]] = {}
_linking: Final = threading.Lock()


def open_link(address: str, namespace: str, log: Path) -> RayLink:
    """The connection of this process to that cluster and namespace, shared by all its users."""
    with _linking:
        key = (os.getpid(), address, namespace)  # a forked process needs one of its own
        link = _links.setdefault(key, RayLink(address, namespace, log))
        link.users += 1
        return link


def close_link(link: RayLink) -> None:
    """Of the last of its users: the driver leaves."""
    with _linking:
        link.users -= 1
        if link.users > 0:
            return
        for key in [key for key, known in _links.items() if known is link]:
            del _links[key]
    link.close()
