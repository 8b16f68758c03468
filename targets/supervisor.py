"""The daemon that starts attempts and tells controllers when they have news; one per root.

Standard library only and small on purpose: it forks. It outlives its controllers, keeps nothing
in memory that is not on disk too, and leaves by itself once it has neither clients nor attempts.
"""

import errno
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any, Final

from targets import layout, linux, recovery, subreaper
from targets.report_watch import ReportWatch
from targets.subreapers import Subreaper, Subreapers

IDLE_S: Final = 10.0
_MESSAGE_BYTES: Final = 1024 * 1024

Message = dict[str, Any]


class Client:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = b""
        self.subscribed = False


class Refused(Exception):
    """A request that cannot be met: a code the client knows, and a sentence."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class Supervisor:
    def __init__(self, root: str, listener: socket.socket, code: str) -> None:
        self._attempts = f"{root}/{layout.ATTEMPTS}"
        self._boot = layout.boot_id()
        self._code = code
        self._listener = listener
        self._clients: dict[int, Client] = {}
        self._running: dict[str, Subreaper] = {}
        self._subreapers = Subreapers(self._attempts, self._boot)
        self._watch = ReportWatch(self._attempts)
        self._idle_since = time.monotonic()
        self._signals = linux.open_signalfd({signal.SIGCHLD, signal.SIGTERM, signal.SIGINT})
        self._poll = select.epoll()
        for source in (listener.fileno(), self._signals, self._watch.descriptor):
            if source >= 0:
                self._poll.register(source, select.EPOLLIN)

    def run(self) -> None:
        """Serve until there has been nothing to serve for a while, or SIGTERM: then the
        subreapers see their channels close, end what they run and say lost."""
        while not self._is_idle():
            for descriptor, _ in self._poll.poll(self._patience_s()):
                if descriptor == self._signals:
                    if self._on_signals() & {signal.SIGTERM, signal.SIGINT}:
                        return
                else:
                    self._on_ready(descriptor)
            for name in self._watch.look(time.monotonic()):
                self._tell({"event": "news", "name": name})

    def _is_idle(self) -> bool:
        if self._clients or self._subreapers.busy:
            self._idle_since = time.monotonic()
        return time.monotonic() - self._idle_since >= IDLE_S

    def _patience_s(self) -> float:
        due = self._watch.due_at()
        if due is not None:
            return max(due - time.monotonic(), 0.0) + 0.001
        return -1.0 if self._clients or self._subreapers.busy else IDLE_S

    def _on_ready(self, descriptor: int) -> None:
        if descriptor in self._subreapers.by_channel:
            self._on_subreaper(self._subreapers.by_channel[descriptor])
        elif descriptor in self._clients:
            self._receive(self._clients[descriptor])
        elif descriptor == self._watch.descriptor:
            for name in self._watch.changes(time.monotonic()):
                self._tell({"event": "news", "name": name})
        elif descriptor == self._listener.fileno():
            self._accept()

    # attempts

    def _launch(self, name: str, by: float | None) -> Message:
        """Start it unless it was started before, which its record says, or it is too late."""
        attempt = f"{self._attempts}/{name}"
        # Judged here, not by the asker: that one may have been stopped just before it asked.
        if by is not None and time.monotonic() > by:
            if layout.read_record(attempt) is not None:
                return {"started": False}
            raise Refused("late", f"{name} was asked for after the lease of its asker was over")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        try:
            record = os.open(f"{attempt}/{layout.RECORD}", flags, 0o600)
        except FileExistsError:
            return {"started": False}
        except FileNotFoundError:
            raise Refused("unknown", "no such attempt was prepared") from None
        try:
            chosen = self._subreapers.take(name)
            layout.append_fact(record, {"boot": self._boot, "subreaper": chosen.identity})
            chosen.send(subreaper.RUN + name.encode())
        except OSError:
            os.unlink(f"{attempt}/{layout.RECORD}")
            raise
        finally:
            os.close(record)
        if chosen.is_new:
            self._poll.register(chosen.channel, select.EPOLLIN)
        self._running[name] = chosen
        self._watch.add(name, time.monotonic())
        return {"started": True}

    def _on_subreaper(self, which: Subreaper) -> None:
        message = which.receive()
        if message in (subreaper.IDLE, subreaper.LEAVING):
            self._forget(which.attempt)
            self._subreapers.give_back(which, leaves=message == subreaper.LEAVING)
        else:
            self._subreapers.hang_up(which)

    def _forget(self, name: str) -> None:
        if self._running.pop(name, None) is not None:
            self._watch.remove(name)
            self._tell({"event": "exit", "name": name})

    def _on_signals(self) -> set[int]:
        signals = linux.read_signals(self._signals)
        for pid, _, _ in linux.reap_ready():
            dead = self._subreapers.bury(pid)
            if dead is not None and dead.attempt in self._running:
                self._on_death(dead)
        return signals

    def _on_death(self, dead: Subreaper) -> None:
        """A subreaper died with an attempt; only the record knows whether that had ended."""
        attempt = f"{self._attempts}/{dead.attempt}"
        if "exit" not in (layout.read_record(attempt) or {}):
            self._subreapers.end_orphans()
            try:
                recovery.record_lost(attempt, "the process that watched it died", self._boot)
            except OSError:
                pass  # no space to say so: a client that asks hears that it does not run
        self._forget(dead.attempt)

    # clients

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # it gave up again, or there are no descriptors left: it stays in the queue
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
        *lines, client.received = (client.received + data).split(b"\n")
        if not data or len(client.received) > _MESSAGE_BYTES:
            self._drop(client)
            return
        for line in lines:
            self._send(client, self._answer(client, line))

    def _answer(self, client: Client, line: bytes) -> Message:
        try:
            request = json.loads(line)
            return {"ok": True, **self._serve(client, request)}
        except Refused as refusal:
            return {"ok": False, "error": refusal.code, "detail": str(refusal)}
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            return {"ok": False, "error": "full" if full else "system", "detail": str(error)}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            return {"ok": False, "error": "request", "detail": f"not understood: {error!r}"}

    def _serve(self, client: Client, request: Message) -> Message:
        operation, name = request["op"], request.get("name", "")
        if operation == "hello":
            return {"protocol": layout.PROTOCOL, "code": self._code, "pid": os.getpid()}
        if operation == "subscribe":
            client.subscribed = True
            return {}
        if not layout.is_name(name):
            raise Refused("request", f"{name!r} is not the name of an attempt")
        if operation == "launch":
            return self._launch(name, request.get("by"))
        if operation == "state":
            return {"running": name in self._running}
        if operation == "stop":
            return self._request_stop(name)
        if operation == "kill":
            return self._pass_on(name, subreaper.KILL)
        raise Refused("request", f"unknown operation {operation!r}")

    def _request_stop(self, name: str) -> Message:
        # Told first: when the program has seen the file, its subreaper can know why it leaves.
        self._pass_on(name, subreaper.STOP)
        if name in self._running:
            path = f"{self._attempts}/{name}/{layout.STOP}"
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return {}

    def _pass_on(self, name: str, message: bytes) -> Message:
        if name in self._running:
            try:
                self._running[name].send(message)
            except OSError:
                pass  # it died just now: its attempt is ended when that is noticed
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
