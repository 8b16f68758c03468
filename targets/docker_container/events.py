"""Listens to what the engine tells of a root's containers, and to whether there is an engine."""

import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from targets import layout
from targets.docker_container.address import silence_of, socket_of
from targets.docker_container.body import ATTEMPT_LABEL
from targets.docker_container.calls import Answer, EngineCalls, Refusal, Trouble
from targets.docker_container.turns import EVENT

_SOONEST_S: Final = 0.05
_LATEST_S: Final = 1.0
"""Between two tries to reach an engine that is away."""
_PING_PATIENCE_S: Final = 2.0
_BACK_S: Final = 1
"""Told again from so long ago: between the answer and the engine's ear there is a gap."""
_CREDENTIALS: Final = struct.Struct("iII")
_INIT: Final = 1
_PID_FILE: Final = "/run/docker.pid"
"""Where the engine that a service manager runs writes its own."""

Event = tuple[str, str, str]
"""The attempt's name, what happened (with EVENT before it), the container's name."""


class Events(threading.Thread):
    """Calls `on_event` for each event, `on_return` when the engine is back, or first there, and
    `on_trouble` whenever it was not reached."""

    def __init__(
        self,
        calls: EngineCalls,
        label: str,
        on_event: Callable[[Event], None],
        on_return: Callable[[], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        super().__init__(name="events", daemon=True)
        self._calls = calls
        self._label = label
        self._on_event = on_event
        self._on_return = on_return
        self._on_trouble = on_trouble
        self._problem = "it was not reached yet"
        self._info: Answer | None = None
        self._conversation = 0
        self._reached = threading.Event()
        self._nudge = threading.Event()
        self.was_tried = threading.Event()
        """Set once the engine was reached, or not, for the first time."""

    def run(self) -> None:
        since, delay_s = int(time.time()) - _BACK_S, _SOONEST_S
        while True:
            try:
                self._info = self._calls.info()
                stream = self._calls.events(self._label, since)
                self._problem, delay_s = "", _SOONEST_S
                self._conversation += 1
                self._reached.set()
                self.was_tried.set()
                self._on_return()
                for event in stream:
                    since = self._tell(event)
                self._problem = "it went away"
            except (Trouble, Refusal, ValueError) as trouble:
                self._problem = str(trouble)
            self._reached.clear()
            self.was_tried.set()
            self._on_trouble(self._problem)
            self._nudge.wait(delay_s)
            self._nudge.clear()
            delay_s = min(2 * delay_s, _LATEST_S)

    def _tell(self, event: dict[str, Any]) -> int:
        about = event.get("Actor", {}).get("Attributes", {})
        action = str(event.get("Action", ""))
        self._on_event((about.get(ATTEMPT_LABEL, ""), f"{EVENT}{action}", about.get("name", "")))
        return int(event.get("time", time.time())) - _BACK_S

    def find_info(self) -> Answer:
        """What the engine said of itself when it was last reached. Raises Trouble if never."""
        if self._info is None:
            raise Trouble(self._problem)
        return self._info

    def find_identity(self) -> layout.Fact:
        """Of the engine: another one means that it was restarted."""
        process = find_engine_process(socket_of(self._calls.address))
        return process or {"keeper": os.getpid(), "conversation": self._conversation}

    def find_problem(self) -> str:
        """Why the engine cannot be used now; empty when it answers, which it is asked."""
        silence = silence_of(self._calls.address, _PING_PATIENCE_S)
        if silence is not None:
            return silence
        if not self._reached.is_set():  # it is back, just now
            self._nudge.set()
            self._reached.wait(_PING_PATIENCE_S)
        return self._problem


def find_engine_process(path: str) -> layout.Fact | None:
    """The process that serves the engine's socket; None when it cannot be told: a service
    manager opened the socket for it."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(_PING_PATIENCE_S)
        try:
            asking.connect(path)
            raw = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError:
            return None
    pid, _, _ = _CREDENTIALS.unpack(raw)
    if pid <= _INIT:
        pid = _read_pid_file()
    start = layout.process_start(pid) if pid > _INIT else None
    return None if start is None else {"pid": pid, "start": start}


def _read_pid_file() -> int:
    try:
        with open(_PID_FILE, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


def is_certain(identity: layout.Fact) -> bool:
    """Whether it names a process, and not only an uninterrupted conversation."""
    return "pid" in identity
