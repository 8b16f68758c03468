"""The daemon that starts attempts and tells controllers when they have news; one per root.

Standard library only and small on purpose: it forks for every attempt. It outlives its
controllers, keeps nothing in memory that is not on disk too, and leaves by itself once it has
neither clients nor attempts.
"""

import errno
import fcntl
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections import deque
from typing import Any, Final

from targets import layout, linux, recovery, subreaper

IDLE_S: Final = 10.0
_NEWS_EVERY_S: Final = 0.05
"""An attempt's reports are told of at most this often, and first watched at this age: one
that is over sooner costs no watch."""
_LOCK_PATIENCE_S: Final = 5.0
_LOCK_RETRY_S: Final = 0.02
_OPEN_FILES: Final = 65536
_LOW_FILES: Final = 16
"""Descriptors below this number have a fixed meaning in a subreaper, /dev/null unless set."""
_MESSAGE_BYTES: Final = 1024 * 1024
_COLLECT_EVERY: Final = 1000

Message = dict[str, Any]


class Client:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = b""
        self.subscribed = False


class Attempt:
    __slots__ = ("name", "pid", "seen_bytes", "watch")

    def __init__(self, name: str, pid: int) -> None:
        self.name = name
        self.pid = pid
        self.seen_bytes = 0
        self.watch = -1


class Refused(Exception):
    """A request that cannot be met: a code the client knows, and a sentence."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class Supervisor:
    def __init__(self, root: str, listener: socket.socket, events: int, code: str) -> None:
        self._root = root
        self._pid = os.getpid()
        self._boot = layout.boot_id()
        self._listener = listener
        self._events = events
        self._code = code
        self._clients: dict[int, Client] = {}
        self._attempts: dict[str, Attempt] = {}
        self._by_pid: dict[int, Attempt] = {}
        self._by_watch: dict[int, Attempt] = {}
        self._to_watch: deque[tuple[float, Attempt]] = deque()
        self._launches = 0
        self._idle_since = time.monotonic()
        self._signals = linux.open_signalfd({signal.SIGCHLD, signal.SIGTERM, signal.SIGINT})
        self._inotify = linux.open_inotify()
        self._poll = select.epoll()
        for source in (listener.fileno(), events, self._signals, self._inotify):
            if source >= 0:
                self._poll.register(source, select.EPOLLIN)

    def run(self) -> None:
        """Serve until there is nothing to serve."""
        while not self._is_idle():
            for descriptor, _ in self._poll.poll(self._patience_s()):
                self._on_ready(descriptor)
            self._watch_reports()

    def _is_idle(self) -> bool:
        if self._clients or self._by_pid:
            self._idle_since = time.monotonic()
        return time.monotonic() - self._idle_since >= IDLE_S

    def _patience_s(self) -> float:
        if self._to_watch:
            return max(self._to_watch[0][0] - time.monotonic(), 0.0) + 0.001
        return -1.0 if self._clients or self._by_pid else IDLE_S

    def _on_ready(self, descriptor: int) -> None:
        if descriptor == self._events:
            self._on_exits()
        elif descriptor == self._signals:
            self._on_signals()
        elif descriptor == self._inotify:
            self._on_changes()
        elif descriptor == self._listener.fileno():
            self._accept()
        elif descriptor in self._clients:
            self._receive(self._clients[descriptor])

    # attempts

    def _launch(self, name: str) -> Message:
        if name in self._attempts:
            return {"started": False}
        attempt = f"{self._root}/{layout.ATTEMPTS}/{name}"
        facts = layout.read_record(attempt)
        if facts and "subreaper" in facts:
            return {"started": False}
        launch = self._read_launch(attempt)
        if facts is not None:
            os.unlink(f"{attempt}/{layout.RECORD}")  # claimed, and its supervisor died there
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        record = os.open(f"{attempt}/{layout.RECORD}", flags, 0o600)
        try:
            layout.append_fact(record, {"boot": self._boot})
            pid = self._fork(attempt, launch, record)
        except OSError:
            os.unlink(f"{attempt}/{layout.RECORD}")
            raise
        finally:
            os.close(record)
        started = Attempt(name, pid)
        self._attempts[name] = self._by_pid[pid] = started
        self._to_watch.append((time.monotonic() + _NEWS_EVERY_S, started))
        return {"started": True}

    def _read_launch(self, attempt: str) -> subreaper.Launch:
        try:
            with open(f"{attempt}/{layout.LAUNCH}", "rb", buffering=0) as file:
                launch: subreaper.Launch = json.loads(file.read())
        except FileNotFoundError:
            raise Refused("unknown", "no such attempt was prepared") from None
        except ValueError:
            raise Refused("stale", "its launch file is damaged") from None
        if launch["boot"] != self._boot:
            raise Refused("stale", "it was prepared before the machine restarted")
        return launch

    def _fork(self, attempt: str, launch: subreaper.Launch, record: int) -> int:
        pid = os.fork()
        if pid == 0:
            os.dup2(record, subreaper.RECORD_FD, inheritable=False)
            os.closerange(subreaper.RECORD_FD + 1, _OPEN_FILES)
            subreaper.become_subreaper(attempt, launch, self._boot, self._pid)
        self._launches += 1
        if self._launches % _COLLECT_EVERY == 0:
            gc.collect()
        return pid

    def _on_exits(self) -> None:
        """Subreapers that recorded an end wrote their attempt's name."""
        for name in os.read(self._events, _MESSAGE_BYTES).decode().split():
            self._forget(name)

    def _forget(self, name: str) -> None:
        attempt = self._attempts.pop(name, None)
        if attempt is not None:
            self._by_watch.pop(attempt.watch, None)
            self._tell({"event": "exit", "name": name})

    def _on_signals(self) -> None:
        if linux.read_signals(self._signals) & {signal.SIGTERM, signal.SIGINT}:
            os._exit(0)  # its subreapers are told by the kernel, end their trees and say lost
        try:
            while True:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                self._on_child_end(pid)
        except ChildProcessError:
            pass

    def _on_child_end(self, pid: int) -> None:
        attempt = self._by_pid.pop(pid, None)
        if attempt is None or attempt.name not in self._attempts:
            return
        # It may have told its exit a moment ago; only the record knows.
        directory = f"{self._root}/{layout.ATTEMPTS}/{attempt.name}"
        if "exit" not in (layout.read_record(directory) or {}):
            self._end_orphans()
            recovery.record_lost(directory, "the process that watched it died", self._boot)
        self._forget(attempt.name)

    def _end_orphans(self) -> None:
        """Kill the descendants of dead subreapers: every child that is not a subreaper."""
        for _ in range(100):
            orphans = [pid for pid in linux.children_of(self._pid) if pid not in self._by_pid]
            if not orphans:
                return
            for pid in orphans:
                linux.signal_process(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    # reports

    def _watch_reports(self) -> None:
        now = time.monotonic()
        while self._to_watch and self._to_watch[0][0] <= now:
            attempt = self._to_watch.popleft()[1]
            if attempt.name in self._attempts:
                self._watch(attempt, now)

    def _watch(self, attempt: Attempt, now: float) -> None:
        path = f"{self._root}/{layout.ATTEMPTS}/{attempt.name}/{layout.REPORTS}"
        attempt.watch = linux.watch_once(self._inotify, path) if self._inotify >= 0 else -1
        if attempt.watch < 0:  # no watches left on this machine: look at it again instead
            self._to_watch.append((now + _NEWS_EVERY_S, attempt))
        else:
            self._by_watch[attempt.watch] = attempt
        self._check_reports(attempt, path)

    def _check_reports(self, attempt: Attempt, path: str) -> None:
        try:
            size = os.stat(path, follow_symlinks=False).st_size
        except OSError:
            return
        if size != attempt.seen_bytes:
            attempt.seen_bytes = size
            self._tell({"event": "news", "name": attempt.name})

    def _on_changes(self) -> None:
        data = os.read(self._inotify, 64 * 1024)
        due = time.monotonic() + _NEWS_EVERY_S
        while data:
            watch = int.from_bytes(data[:4], sys.byteorder, signed=True)
            data = data[16 + int.from_bytes(data[12:16], sys.byteorder) :]
            attempt = self._by_watch.pop(watch, None)
            if attempt is not None and attempt.name in self._attempts:
                path = f"{self._root}/{layout.ATTEMPTS}/{attempt.name}/{layout.REPORTS}"
                self._check_reports(attempt, path)
                self._to_watch.append((due, attempt))

    # clients

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        if int.from_bytes(credentials[4:8], sys.byteorder) not in (os.getuid(), 0):
            connection.close()
            return
        connection.settimeout(0)
        self._clients[connection.fileno()] = Client(connection)
        self._poll.register(connection.fileno(), select.EPOLLIN)

    def _receive(self, client: Client) -> None:
        try:
            data = client.connection.recv(64 * 1024)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        client.received += data
        *lines, client.received = client.received.split(b"\n")
        if not data or len(client.received) > _MESSAGE_BYTES:
            self._drop(client)
            return
        for line in lines:
            self._send(client, self._answer(client, line))

    def _answer(self, client: Client, line: bytes) -> Message:
        try:
            request = json.loads(line)
            return {"ok": True, **self._serve(client, request["op"], request.get("name", ""))}
        except Refused as refusal:
            return {"ok": False, "error": refusal.code, "detail": str(refusal)}
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            return {"ok": False, "error": "full" if full else "system", "detail": str(error)}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return {"ok": False, "error": "request", "detail": f"not understood: {error!r}"}

    def _serve(self, client: Client, operation: str, name: str) -> Message:
        if operation == "hello":
            return {"protocol": layout.PROTOCOL, "code": self._code, "pid": self._pid}
        if operation == "subscribe":
            client.subscribed = True
            return {}
        if not layout.is_name(name):
            raise Refused("request", f"{name!r} is not the name of an attempt")
        if operation == "launch":
            return self._launch(name)
        if operation == "state":
            return {"running": name in self._attempts}
        if operation == "stop":
            return self._request_stop(name)
        if operation == "kill":
            return self._signal(name, subreaper.KILL_SIGNAL)
        raise Refused("request", f"unknown operation {operation!r}")

    def _request_stop(self, name: str) -> Message:
        if name in self._attempts:
            path = f"{self._root}/{layout.ATTEMPTS}/{name}/{layout.STOP}"
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return self._signal(name, subreaper.STOP_SIGNAL)

    def _signal(self, name: str, number: int) -> Message:
        attempt = self._attempts.get(name)
        # While it is in _by_pid it is not reaped, so its pid is not anybody else's.
        if attempt is not None and attempt.pid in self._by_pid:
            linux.signal_process(attempt.pid, number)
        return {}

    def _tell(self, event: Message) -> None:
        for client in list(self._clients.values()):
            if client.subscribed:
                self._send(client, event)

    def _send(self, client: Client, message: Message) -> None:
        """Send, or drop a client that does not read: it connects again and looks for itself."""
        try:
            data = json.dumps(message).encode() + b"\n"
            if client.connection.send(data) == len(data):
                return
        except OSError:
            pass  # it is gone or full: dropped below
        self._drop(client)

    def _drop(self, client: Client) -> None:
        if self._clients.pop(client.connection.fileno(), None) is not None:
            client.connection.close()


def serve(root: str, ready: int, code: str) -> None:
    """Become the supervisor of `root`, say so on `ready`, and serve until idle.

    Writes `other` instead, and returns, when a live supervisor answers already.
    """
    lock = os.open(f"{root}/{layout.LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    _place(lock, subreaper.LOCK_FD)
    if not _take_lock(root):
        os.write(ready, b"other")
        return
    events, events_in = os.pipe()
    _place(events_in, subreaper.EVENT_FD)
    recovery.end_unfinished(root, layout.boot_id())
    recovery.sweep_trash(root)
    supervisor = Supervisor(root, _listen(root), events, code)
    os.write(ready, b"ok")
    os.close(ready)
    gc.collect()
    gc.freeze()  # what is here now is shared with every fork and never garbage
    gc.disable()
    supervisor.run()
    os.unlink(f"{root}/{layout.SOCKET}")


def _place(descriptor: int, number: int) -> None:
    """Give a descriptor the number under which subreapers keep it."""
    os.dup2(descriptor, number, inheritable=False)
    os.close(descriptor)


def _take_lock(root: str) -> bool:
    """Wait until no earlier supervisor nor any of its subreapers lives, each of which holds the
    lock; False when one is alive and listening."""
    impatient_at = time.monotonic() + _LOCK_PATIENCE_S
    while True:
        try:
            fcntl.flock(subreaper.LOCK_FD, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if _answers(root):
                return False
        if time.monotonic() > impatient_at:
            recovery.kill_stuck_subreapers(root)
        time.sleep(_LOCK_RETRY_S)


def _answers(root: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe, layout.short_path(root) as path:
        return probe.connect_ex(f"{path}/{layout.SOCKET}") == 0


def _listen(root: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    with layout.short_path(root) as path:
        try:
            os.unlink(f"{path}/{layout.SOCKET}")
        except FileNotFoundError:
            pass  # the last one left in order
        listener.bind(f"{path}/{layout.SOCKET}")
    listener.listen(128)
    listener.settimeout(0)
    return listener


def main(root: str, ready: int, code: str) -> None:
    """Detach from whoever started this, then serve `root`."""
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")
    os.umask(0o022)
    signal.pthread_sigmask(signal.SIG_BLOCK, subreaper.BLOCKED_SIGNALS)
    linux.adopt_orphans()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    files = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], _OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    kept = fcntl.fcntl(ready, fcntl.F_DUPFD_CLOEXEC, _LOW_FILES)
    os.closerange(subreaper.LOCK_FD, _LOW_FILES)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in range(null + 1, _LOW_FILES):
        os.dup2(null, number, inheritable=False)
    serve(root, kept, code)
