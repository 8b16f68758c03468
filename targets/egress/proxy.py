"""The proxy of one attempt: a process of this machine that accepts from inside the attempt's
network, passes on what its study allows, and writes every request down.

Standard library only: it starts with each attempt that may reach hosts.
"""

import json
import os
import select
import signal
import socket
import threading
import time
from typing import Final

from targets.egress.names import Allowed, parse_ranges
from targets.egress.passage import Passage, Rules, Wires
from targets.egress.record import SETTINGS, SOCKET, Recorder
from targets.egress.squid import Squid, Unreachable

LOG: Final = "proxy.log"
_CONNECTIONS: Final = 64
"""At once; further ones wait."""
_SQUID_STARTS: Final = 10
_ARRIVAL_PATIENCE_S: Final = 120.0
_END_PATIENCE_S: Final = 2.0


def main(directory: str) -> None:
    """Serve until SIGTERM or until the process that started this ends."""
    wake = _wake_on_signals()
    parent = os.pidfd_open(os.getppid())
    os.chdir(directory)
    log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 2)
    with open(SETTINGS, encoding="utf-8") as file:
        settings = json.load(file)
    proxy = Proxy(settings)
    try:
        proxy.run(parent, wake)
    finally:
        proxy.close()
    os._exit(0)  # a thread that waits for a name server must not hold this up


def _wake_on_signals() -> int:
    """A descriptor that is readable once this was asked to end."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(writer)
    return reader


class Proxy:
    """In its own directory, which is the current one."""

    def __init__(self, settings: dict[str, object]) -> None:
        self._settings = settings
        hosts, ranges = _texts(settings["hosts"]), _texts(settings["open_ranges"])
        allowed = Allowed(hosts)
        self._recorder = Recorder(".")
        self._wires = Wires()
        self._squid = Squid(
            ".",
            str(settings["squid"]),
            ports=allowed.ports,
            open_ranges=ranges,
        )
        self._rules = Rules(allowed=allowed, open_ranges=parse_ranges(ranges))
        self._poll = select.poll()
        self._squid_ended = -1
        self._starts_left = _SQUID_STARTS
        self._trouble = ""
        self._listener: socket.socket | None = None
        self._served: dict[threading.Thread, Passage] = {}
        self._room = threading.Semaphore(_CONNECTIONS)

    def run(self, parent: int, wake: int) -> None:
        with self._receive_at() as door:
            self._start_squid()
            for source in (parent, wake, door.fileno()):
                self._poll.register(source, select.POLLIN)
            until = time.monotonic() + _ARRIVAL_PATIENCE_S
            while self._listener is not None or time.monotonic() < until:
                patience_s = -1.0 if self._listener is not None else _ARRIVAL_PATIENCE_S
                for descriptor, _ in self._poll.poll(patience_s * 1000):
                    if descriptor in (parent, wake):
                        return
                    if descriptor == door.fileno():
                        self._receive_listener(door)
                    elif descriptor == self._squid_ended:
                        self._on_squid_end()
                    else:
                        self._accept()

    def _receive_at(self) -> socket.socket:
        door = socket.socket(socket.AF_UNIX)
        door.bind(SOCKET)
        door.listen(4)
        return door

    def _receive_listener(self, door: socket.socket) -> None:
        """Whoever made the attempt's network hands over the socket in it; there is one."""
        visitor, _ = door.accept()
        with visitor:
            visitor.settimeout(5.0)
            try:
                _, descriptors, _, _ = socket.recv_fds(visitor, 64, 1)
                if self._trouble or not descriptors:
                    visitor.sendall(self._trouble.encode() or b"no socket came")
                    return
                listener = socket.socket(fileno=descriptors[0])
                listener.settimeout(0)
                visitor.sendall(b"ready")
            except OSError:
                return
        self._listener = listener
        self._poll.register(listener, select.POLLIN)
        self._poll.unregister(door)
        os.unlink(SOCKET)

    def _accept(self) -> None:
        listener = self._listener
        if listener is None:
            return
        if self._recorder.is_flooded:
            self._poll.unregister(listener)
            listener.close()
            return
        if not self._room.acquire(timeout=0.1):
            return
        try:
            program, _ = listener.accept()
        except OSError:
            self._room.release()
            return
        passage = Passage(program, self._rules, self._squid, self._recorder, self._wires)
        thread = threading.Thread(target=self._serve, args=(passage,), daemon=True)
        self._served[thread] = passage
        thread.start()

    def _serve(self, passage: Passage) -> None:
        try:
            passage.run()
        finally:
            self._served.pop(threading.current_thread())
            self._room.release()

    def _start_squid(self) -> None:
        self._starts_left -= 1
        try:
            self._squid_ended = self._squid.start()
            self._poll.register(self._squid_ended, select.POLLIN)
        except Unreachable as trouble:
            self._trouble = str(trouble)

    def _on_squid_end(self) -> None:
        """It is started again: the program only sees its open connections break."""
        self._poll.unregister(self._squid_ended)
        os.close(self._squid_ended)
        self._squid_ended = -1
        self._squid.end()
        if self._starts_left:
            self._start_squid()

    def close(self) -> None:
        """Break what is open and have it recorded, then end squid."""
        if self._listener is not None:
            self._listener.close()
        self._wires.cut()
        until = time.monotonic() + _END_PATIENCE_S
        for thread in list(self._served):
            thread.join(max(until - time.monotonic(), 0.0))
        for passage in list(self._served.values()):
            passage.give_up()
        self._squid.end()
        self._recorder.close()


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
