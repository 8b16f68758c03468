"""The squid through which one attempt's proxy sends what it allows. Standard library only.

The proxy gives it addresses, never names: what was checked is what is connected to, whatever a
name server says a moment later. Squid checks the ranges and ports once more by rules of its own.
"""

import ctypes
import glob
import os
import pwd
import secrets
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Collection, Sequence
from typing import Final

from targets import layout
from targets.egress.names import REFUSED

CONFIG: Final = "squid.conf"
LOG: Final = "squid.log"
CONNECT_S: Final = 15
_START_PATIENCE_S: Final = 10.0
_RETRY_S: Final = 0.005
_PORT_TRIES: Final = 5
_ANSWER_BYTES: Final = 16 * 1024
_USERS: Final = ("proxy", "squid", "nobody")
"""Who it may run as when root runs ARL: the first one there is."""
_DEATH_SIGNAL: Final = 1
_MEMORY: Final = "/dev/shm"
_KEY: Final = "X-Arl-Key"

_CONFIG: Final = """\
http_port 127.0.0.1:{port}
visible_hostname arl
pid_filename none
access_log none
cache_log /dev/null
cache_store_log none
cache deny all
cache_mem 0
memory_pools off
max_filedescriptors 1024
coredump_dir none
pinger_enable off
icp_port 0
snmp_port 0
htcp_port 0
hosts_file none
dns_nameservers 127.0.0.1
shutdown_lifetime 0 seconds
connect_timeout {connect_s} seconds
read_timeout 1 hour
client_lifetime 7 days
half_closed_clients off
forwarded_for delete
via off
acl key req_header {header} ^{key}$
acl tunnel method CONNECT
acl listed port {ports}
{opened}acl refused dst {refused}
http_access deny !key
http_access deny !tunnel
http_access deny !listed
{allow_opened}http_access deny refused
http_access allow tunnel
http_access deny all
"""

_libc = ctypes.CDLL(None)


class Unreachable(Exception):
    """Squid could not connect, or would not; one line says why."""


class Squid:
    """One squid process, ours alone: it listens on loopback and wants a key. Only the thread
    that made it may start and end it; it dies with that thread's process, whose environment, the
    attempt's mark included, it has."""

    def __init__(
        self,
        directory: str,
        executable: str,
        *,
        ports: Collection[int],
        open_ranges: Sequence[str],
    ) -> None:
        self._directory = directory
        self._executable = executable
        self._ports = ports
        self._open_ranges = open_ranges
        self._key = secrets.token_hex(16)
        self._service = f"arl{os.getpid()}n{layout.process_start(os.getpid())}"
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._serving = threading.Event()

    def start(self) -> int:
        """A descriptor that is readable once it ended. Raises Unreachable when it does not
        start."""
        _sweep_memory()
        for _ in range(_PORT_TRIES):
            self._port = _free_port()
            self._launch()
            if self._is_serving():
                _remove_memory(self._service)
                ended = os.pidfd_open(self._pid())
                self._serving.set()
                return ended
            self.end()
        raise Unreachable(f"squid does not start: {self._last_words()}")

    def end(self) -> None:
        """Also after it ended by itself: connections then wait for the next start."""
        self._serving.clear()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            _remove_memory(self._service)

    def connect(self, address: str, port: int) -> socket.socket:
        """A connection to that address through it. Raises Unreachable."""
        shown = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        asked = f"CONNECT {shown} HTTP/1.1\r\nHost: {shown}\r\n{_KEY}: {self._key}\r\n\r\n"
        if not self._serving.wait(_START_PATIENCE_S):
            raise Unreachable("squid does not run")
        connection = socket.socket()
        try:
            connection.settimeout(CONNECT_S + 5)
            connection.connect(("127.0.0.1", self._port))
            connection.sendall(asked.encode())
            status, trouble = _read_answer(connection)
            if status != 200:
                raise Unreachable(trouble)
        except OSError as error:
            connection.close()
            raise Unreachable(f"squid: {error}") from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _launch(self) -> None:
        user = _other_user()
        path = f"{self._directory}/{CONFIG}"
        with open(path, "w", encoding="ascii") as file:
            file.write(self._config())
        # Another user may not pass through the directory: it gets the open file.
        config = os.open(path, os.O_RDONLY)
        os.fchmod(config, 0o644)
        log = os.open(f"{self._directory}/{LOG}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._process = subprocess.Popen(
                [
                    *(self._executable, "-N", "-n", self._service, "-d", "1"),
                    *("-f", f"/proc/self/fd/{config}"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(config,),
                cwd="/",
                preexec_fn=_die_with_parent,
                user=None if user is None else user.pw_uid,
                group=None if user is None else user.pw_gid,
                extra_groups=None if user is None else [],
            )
        except OSError as error:
            raise Unreachable(f"squid cannot be run: {error}") from error
        finally:
            os.close(config)
            os.close(log)

    def _config(self) -> str:
        opened = " ".join(self._open_ranges)
        return _CONFIG.format(
            port=self._port,
            connect_s=CONNECT_S,
            header=_KEY,
            key=self._key,
            ports=" ".join(map(str, sorted(self._ports))),
            opened=f"acl opened dst {opened}\n" if opened else "",
            allow_opened="http_access allow opened\n" if opened else "",
            refused=" ".join(REFUSED),
        )

    def _is_serving(self) -> bool:
        until = time.monotonic() + _START_PATIENCE_S
        while time.monotonic() < until:
            if self._process is None or self._process.poll() is not None:
                return False
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return self._process.poll() is None
            time.sleep(_RETRY_S)
        return False

    def _pid(self) -> int:
        if self._process is None:
            raise Unreachable("squid is gone")
        return self._process.pid

    def _last_words(self) -> str:
        try:
            with open(f"{self._directory}/{LOG}", "rb") as file:
                lines = file.read()[-4096:].decode("utf-8", "replace").splitlines()
        except OSError:
            return "it left no log"
        telling = [line for line in lines if "FATAL" in line or "ERROR" in line] or lines
        return layout.one_line(" ".join(telling[-2:])) or "it said nothing"


def _other_user() -> pwd.struct_passwd | None:
    """Whom squid runs as, which refuses to be root; None: as whoever this is."""
    if os.geteuid() != 0:
        return None
    for name in _USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise Unreachable(f"squid must not run as root and there is no user {' or '.join(_USERS)}")


def _die_with_parent() -> None:
    _libc.prctl(_DEATH_SIGNAL, signal.SIGKILL)


def _remove_memory(service: str) -> None:
    """The names of its shared memory, which it has open: it leaves them when it is killed."""
    for path in glob.glob(f"{_MEMORY}/{service}-*.shm"):
        try:
            os.unlink(path)
        except OSError:
            continue  # another one was faster, or it is another user's


def _sweep_memory() -> None:
    """The same of those whose proxy was killed before it came to that."""
    for path in glob.glob(f"{_MEMORY}/arl[0-9]*n[0-9]*-cf__metadata.shm"):
        service = os.path.basename(path).partition("-")[0]
        pid, _, start = service.removeprefix("arl").partition("n")
        if str(layout.process_start(pid)) != start:
            _remove_memory(service)


def _free_port() -> int:
    """Of loopback. Another process may take it first: squid then ends, and is tried again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _read_answer(connection: socket.socket) -> tuple[int, str]:
    """The status squid answered with and what it means, leaving what follows unread."""
    until = time.monotonic() + CONNECT_S
    end = -1
    while end < 0:
        seen = connection.recv(_ANSWER_BYTES, socket.MSG_PEEK)
        end = seen.find(b"\r\n\r\n")
        if end < 0 and (not seen or len(seen) == _ANSWER_BYTES or time.monotonic() > until):
            raise Unreachable("squid gave no answer")
        if end < 0:
            time.sleep(_RETRY_S)
    head = connection.recv(end + 4).decode("latin-1")
    status = int(head[9:12]) if head[9:12].isdecimal() else 0
    for line in head.split("\r\n"):
        name, _, value = line.partition(":")
        if name.lower() == "x-squid-error":
            return status, _meaning(value.strip())
    return status, f"squid answered {status}"


def _meaning(error: str) -> str:
    name, _, number = error.partition(" ")
    if name == "ERR_ACCESS_DENIED":
        return "refused by squid's own rules"
    if number.isdecimal() and int(number):
        return os.strerror(int(number)).lower()
    return {"ERR_CONNECT_FAIL": "no connection within the time"}.get(name, layout.one_line(error))
