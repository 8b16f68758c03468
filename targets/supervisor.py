"""The daemon that starts attempts and tells controllers when they have news; one per root.

Standard library only and small on purpose: it forks. It outlives its controllers, keeps nothing
in memory that is not on disk too, and leaves by itself once it has neither clients nor attempts.
"""

import os
import select
import signal
import socket
import time
from typing import Final

from targets import layout, linux, recovery, subreaper
from targets.client_sockets import Clients, Message, Refused
from targets.report_watch import ReportWatch
from targets.subreapers import Subreaper, Subreapers

IDLE_S: Final = 10.0


class Supervisor:
    def __init__(self, root: str, listener: socket.socket, code: str) -> None:
        self._attempts = f"{root}/{layout.ATTEMPTS}"
        self._boot = layout.boot_id()
        self._code = code
        self._running: dict[str, Subreaper] = {}
        self._subreapers = Subreapers(self._attempts, self._boot)
        self._watch = ReportWatch(self._attempts)
        self._idle_since = time.monotonic()
        self._signals = linux.open_signalfd({signal.SIGCHLD, signal.SIGTERM, signal.SIGINT})
        self._poll = select.epoll()
        self._clients = Clients(listener, self._poll, self._serve)
        for source in (self._signals, self._watch.descriptor):
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
                self._clients.tell({"event": "news", "name": name})

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
        elif descriptor == self._watch.descriptor:
            for name in self._watch.changes(time.monotonic()):
                self._clients.tell({"event": "news", "name": name})
        else:
            self._clients.on_ready(descriptor)

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
        chosen: Subreaper | None = None
        try:
            chosen = self._subreapers.take(name)
            layout.append_fact(record, {"boot": self._boot, "subreaper": chosen.identity})
            chosen.send(subreaper.RUN + name.encode())
        except OSError:
            os.unlink(f"{attempt}/{layout.RECORD}")
            if chosen is not None:
                self._subreapers.hang_up(chosen)  # it leaves
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
            self._clients.tell({"event": "exit", "name": name})

    def _on_signals(self) -> set[int]:
        signals = linux.read_signals(self._signals)
        for pid, _, _ in linux.reap_ready():
            dead = self._subreapers.bury(pid)
            if dead is not None and self._running.get(dead.attempt) is dead:
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

    def _serve(self, request: Message) -> Message:
        operation, name = request["op"], request.get("name", "")
        if operation == "hello":
            return {"protocol": layout.PROTOCOL, "code": self._code, "pid": os.getpid()}
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
