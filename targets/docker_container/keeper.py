"""The daemon that keeps the containers of a root's attempts: it makes and starts them, follows
them by the engine's events, enforces limits and records ends.

It outlives its controllers and keeps nothing in memory that is not on disk or with the engine, so
that another keeper goes on where this one was killed.
"""

import json
import os
import queue
import select
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from targets import layout
from targets.client_sockets import Clients, Message, Refused
from targets.docker_container import turns as docker_turns
from targets.docker_container.address import runtime_problem, socket_of
from targets.docker_container.attempt import Attempt
from targets.docker_container.body import ROOT_LABEL
from targets.docker_container.calls import Answer, EngineCalls, Refusal, Trouble
from targets.docker_container.containment import answerer_name, network_name, root_mark
from targets.docker_container.events import Event, Events
from targets.docker_container.trouble import Troubles, write_down
from targets.report_watch import ReportWatch

IDLE_S: Final = 10.0
_FIRST_REACH_S: Final = 5.0
_REMOVERS: Final = 2
_REMOVE_AGAIN_S: Final = 1.0


class Keeper:
    """See targets.docker_container.surroundings.Surroundings for what its attempts see of it."""

    def __init__(self, root: str, listener: socket.socket, code: str, address: str) -> None:
        self.attempts = f"{root}/{layout.ATTEMPTS}"
        self.boot = layout.boot_id()
        self.calls = EngineCalls(address)
        self.socket = socket_of(address)
        self._code = code
        self._running: dict[str, Attempt] = {}
        self._ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._watch = ReportWatch(self.attempts)
        self._poll = select.epoll()
        self._clients = Clients(listener, self._poll, self._serve)
        for source in (self._bell, self._watch.descriptor):
            if source >= 0:
                self._poll.register(source, select.EPOLLIN)
        self._idle_since = time.monotonic()
        mark = root_mark(root)
        self._removals = Removals(self.calls, mark, _REMOVERS)
        label = f"{ROOT_LABEL}={mark}"
        self._troubles = Troubles(root)
        self._troubles.clear()
        self._is_alarmed = threading.Event()
        self._events = Events(
            self.calls, label, self._on_event, self._on_return, self._note_trouble
        )

    def run(self) -> None:
        """Serve until there has been nothing to serve for a while."""
        while not self._is_idle():
            for descriptor, _ in self._poll.poll(self._patience_s()):
                if descriptor == self._bell:
                    os.eventfd_read(self._bell)
                elif descriptor == self._watch.descriptor:
                    self._tell_news(self._watch.changes(time.monotonic()))
                else:
                    self._clients.on_ready(descriptor)
            self._bury()
            if self._is_alarmed.is_set():
                self._is_alarmed.clear()
                self._tell_news(list(self._running))
            self._tell_news(self._watch.look(time.monotonic()))

    def begin(self) -> None:
        """Find the engine, and the attempts that an earlier keeper followed."""
        self._events.start()
        self._events.was_tried.wait(_FIRST_REACH_S)
        for name in os.listdir(self.attempts):
            facts = layout.read_record(f"{self.attempts}/{name}")
            if facts is not None and "exit" not in facts:
                self._follow(name)

    def _is_idle(self) -> bool:
        if len(self._clients) or self._running or self._removals.waiting:
            self._idle_since = time.monotonic()
        return time.monotonic() - self._idle_since >= IDLE_S

    def _patience_s(self) -> float:
        due = self._watch.due_at()
        if due is not None:
            return max(due - time.monotonic(), 0.0) + 0.001
        return -1.0 if len(self._clients) or self._running else IDLE_S

    def _tell_news(self, names: list[str]) -> None:
        for name in names:
            self._clients.tell({"event": "news", "name": name})

    # what clients ask

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
            return self._post(name, docker_turns.KILL)
        if operation == "release":
            self._removals.ensure(name)
            return {}
        raise Refused("request", f"unknown operation {operation!r}")

    def _launch(self, name: str, by: float | None) -> Message:
        """Start it unless it was started before, which its record says, or it is too late, or
        there is no engine now."""
        attempt = f"{self.attempts}/{name}"
        if layout.read_record(attempt) is not None:
            return {"started": False}
        # Judged here, not by the asker: that one may have been stopped just before it asked.
        if by is not None and time.monotonic() > by:
            raise Refused("late", f"{name} was asked for after the lease of its asker was over")
        problem = self._events.find_problem()
        if problem:
            raise Refused("system", f"Docker at {self.calls.address}: {problem}")
        self._check_runtime(attempt)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        try:
            record = os.open(f"{attempt}/{layout.RECORD}", flags, 0o600)
        except FileExistsError:
            return {"started": False}
        except FileNotFoundError:
            raise Refused("unknown", "no such attempt was prepared") from None
        try:
            layout.append_fact(record, {"boot": self.boot, "keeper": os.getpid()})
        except OSError:
            os.unlink(f"{attempt}/{layout.RECORD}")
            raise
        finally:
            os.close(record)
        self._follow(name)
        return {"started": True}

    def _check_runtime(self, attempt: str) -> None:
        runtime = find_runtime(attempt)
        if runtime is None:
            return
        known = self._events.find_info().get("Runtimes") or {}
        problem = runtime_problem(runtime, known, self.calls.address)
        if problem is not None:
            raise Refused("request", problem)

    def _follow(self, name: str) -> None:
        attempt = Attempt(name, self)
        self._running[name] = attempt
        self._watch.add(name, time.monotonic())
        attempt.start()

    def _request_stop(self, name: str) -> Message:
        # Told first: when the program has seen the file, it is known why it leaves.
        self._post(name, docker_turns.STOP)
        if name in self._running:
            path = f"{self.attempts}/{name}/{layout.STOP}"
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return {}

    def _post(self, name: str, what: str) -> Message:
        if name in self._running:
            self._running[name].post(what)
        return {}

    def _bury(self) -> None:
        """Tell of the attempts that ended."""
        while not self._ended.empty():
            name = self._ended.get()
            del self._running[name]
            self._watch.remove(name)
            self._clients.tell({"event": "exit", "name": name})

    # what attempts and the engine say, from other threads

    def find_info(self) -> Answer:
        return self._events.find_info()

    def find_identity(self) -> layout.Fact:
        return self._events.find_identity()

    def on_trouble(self, what: str) -> None:
        write_down(what)
        self._note_trouble(what)

    def _note_trouble(self, what: str) -> None:
        if self._troubles.note(what):
            self._is_alarmed.set()
            os.eventfd_write(self._bell, 1)

    def on_end(self, attempt: str, containers: list[str]) -> None:
        self._removals.ask(attempt, containers)
        self._ended.put(attempt)
        os.eventfd_write(self._bell, 1)

    def _on_event(self, event: Event) -> None:
        attempt, what, container = event
        running = self._running.get(attempt)
        if running is not None:
            running.post(what, container)

    def _on_return(self) -> None:
        self._troubles.clear()
        for running in list(self._running.values()):
            running.post(docker_turns.LOOK)


def find_runtime(attempt: str) -> str | None:
    """Which one the attempt laid out in a directory asks for."""
    try:
        with open(f"{attempt}/{layout.LAUNCH}", "rb", buffering=0) as file:
            found = json.loads(file.read())["container"]["body"]["HostConfig"].get("Runtime")
    except (OSError, ValueError, KeyError):
        return None  # its own thread says what is wrong with it
    return found if isinstance(found, str) else None


class Removals:
    """Deletes ended containers beside everything else, until the engine has done so."""

    def __init__(self, calls: EngineCalls, root: str, workers: int) -> None:
        self._calls = calls
        self._root = root
        self._wanted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._asked: set[str] = set()
        self._lock = threading.Lock()
        self.waiting = 0
        """Containers that are not deleted yet."""
        for number in range(workers):
            threading.Thread(target=self._work, name=f"remover {number}", daemon=True).start()

    def ask(self, attempt: str, containers: list[str]) -> None:
        """The attempt has these left, by id, as this keeper knows."""
        self._asked.add(attempt)
        self._add([partial(self._calls.remove, container) for container in containers])

    def ensure(self, attempt: str) -> None:
        """Whatever containers the attempt has, which is forgotten: an earlier keeper may have
        left them."""
        if attempt not in self._asked:
            names = (attempt, answerer_name(attempt), network_name(attempt))
            self._add([partial(self._calls.remove_named, name, self._root) for name in names])
        self._asked.discard(attempt)

    def _add(self, calls: list[Callable[[], None]]) -> None:
        with self._lock:
            self.waiting += len(calls)
        for call in calls:
            self._wanted.put(call)

    def _work(self) -> None:
        while True:
            call = self._wanted.get()
            try:
                call()
            except (Trouble, Refusal):
                time.sleep(_REMOVE_AGAIN_S)
                self._wanted.put(call)
                continue
            with self._lock:
                self.waiting -= 1
