"""`arl serve` in processes of its own that die at a chosen point of a request, and its clients.

The process is forked from this warm one and runs the command line's own verb: real sockets, a real
SIGKILL, without the seconds that an interpreter takes to import everything.
"""

import json
import os
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from controller.cli import front
from tests.acceptance import fault_points, fault_study, forked
from tests.acceptance.fault_points import Point

IN_A_REQUEST = "controller/api/routes/"
PATIENCE_S = 30.0
AFTER_AN_ANSWER_S = 0.5
"""A server that dies right after it has answered takes no longer for that."""
TRIES = 5
"""How often a client asks again before it gives up; each time the server is started again."""


@dataclass(frozen=True)
class Asked:
    """A request that changes something, with the key that its client keeps for it."""

    what: str
    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    status: int
    is_kept: bool = True
    """Whether the first answer is kept and given again; else what is done is the same again."""


class LivesOfAServer:
    """A server over the ledger of one home, always at the same address, as often as it takes."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        self.home = home
        self._environment = environment
        self._pid = 0
        self._journal = home / "server-journal"
        self._armed = home / "armed"
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self._port = int(found.getsockname()[1])

    def start(self) -> None:
        self._journal.unlink(missing_ok=True)
        self.disarm()

        def live() -> None:
            os.environ.update(self._environment)
            fault_study.shorten()
            fault_points.install(DeathIn(self._armed), self._journal)
            code = front.run(["serve", "--no-worker", "--port", str(self._port)])
            assert code == 0, code

        self._pid = forked.fork(live, self.home / "served", watched=False)
        until = time.monotonic() + PATIENCE_S
        while not self._is_listening():
            assert time.monotonic() < until, self.said()
            time.sleep(0.005)

    def arm(self, at: Point) -> None:
        """Let it die in the next request, at the point whose identity begins so, when it comes
        by it as often as the point says."""
        self._armed.write_text(json.dumps([at.identity, at.occurrence]))

    def disarm(self) -> None:
        self._armed.unlink(missing_ok=True)

    def _is_listening(self) -> bool:
        with socket.socket() as asking:
            return asking.connect_ex(("127.0.0.1", self._port)) == 0

    def post(self, asked: Asked) -> httpx.Response | None:
        """The answer; None when the server died meanwhile."""
        url = f"http://127.0.0.1:{self._port}/api/v1/{asked.path}"
        try:
            with httpx.Client(timeout=PATIENCE_S, trust_env=False) as client:
                return client.post(url, json=asked.body, headers=asked.headers)
        except httpx.TransportError:
            return None

    def died(self, answer: httpx.Response | None) -> bool:
        """Whether it killed itself in the request that was answered so."""
        until = time.monotonic() + (PATIENCE_S if answer is None else AFTER_AN_ANSWER_S)
        while time.monotonic() < until:
            found, status = os.waitpid(self._pid, os.WNOHANG)
            if found:
                self._pid = 0
                assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, self.said()
                return True
            time.sleep(0.005)
        assert answer is not None, f"it is deaf: {self.said()}"
        return False

    def end(self) -> None:
        """SIGKILL: a server that is well needs no more care than one that is not."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            forked.join(self._pid, PATIENCE_S)
            self._pid = 0

    def points_of_requests(self) -> list[Point]:
        """Those of this life, counted from its start."""
        points, missed = fault_points.read_journal(self._journal)
        assert missed == [], missed
        return [point for point in points if IN_A_REQUEST in point.identity]

    def said(self) -> str:
        return (self.home / "served").read_text()


class DeathIn:
    """Says of points of requests whether the armed one is come by."""

    def __init__(self, armed: Path) -> None:
        self._armed = armed
        self._seen = 0

    def __call__(self, identity: str) -> bool:
        if IN_A_REQUEST not in identity or not self._armed.exists():
            return False
        wanted, occurrence = json.loads(self._armed.read_text())
        fits = identity.startswith(wanted)
        self._seen += fits
        return fits and self._seen == occurrence + 1


def asked_again(server: LivesOfAServer, asked: Asked) -> httpx.Response:
    """As a patient client does that got no answer: the same request again."""
    for _ in range(TRIES):
        answer = server.post(asked)
        if answer is not None:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"no answer: {server.said()}")
