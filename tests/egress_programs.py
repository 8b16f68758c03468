"""Programs that try the network, run in a sandbox with a proxy, and what was recorded of them."""

import secrets
from dataclasses import dataclass
from typing import Any

from ledger.records import AttemptKind
from targets.bubblewrap import BubblewrapTarget
from targets.protocol import Exit, NetworkRequest
from tests.target_runs import attempt, finish, log_of, python

PRELUDE = """
import os, socket, ssl, sys, time, urllib.error, urllib.request
CONTEXT = ssl.create_default_context(cadata=os.environ["CA"])

def get(url, data=None):
    try:
        with urllib.request.urlopen(url, data, timeout=60, context=CONTEXT) as answer:
            return answer.read().decode().strip()
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode().strip()}"
    except OSError as error:
        return f"failed: {error}"

def proxy():
    wire = socket.create_connection(("127.0.0.1", 3128))
    wire.settimeout(60)
    return wire

def say(*lines, more=b""):
    wire = proxy()
    wire.sendall("\\r\\n".join((*lines, "", "")).encode() + more)
    return wire

def rest(wire):
    heard = b""
    try:
        while data := wire.recv(65536):
            heard += data
    except ConnectionResetError:
        heard += b" reset"
    return heard.decode("latin-1")

def first(wire):
    return wire.recv(65536).decode("latin-1").split("\\r\\n")[0]

def tunnel(host, name, port=443):
    wire = say(f"CONNECT {host}:{port} HTTP/1.1")
    answer = first(wire)
    if " 200 " not in answer:
        return answer
    context = ssl.create_default_context(cadata=os.environ["CA"])
    context.check_hostname = False
    try:
        context.wrap_socket(wire, server_hostname=name).close()
        return "through"
    except OSError as error:
        return f"broken off: {type(error).__name__}"
"""


@dataclass(frozen=True)
class Tried:
    handle: str
    exit: Exit
    said: str
    requests: tuple[NetworkRequest, ...]

    @property
    def lines(self) -> list[str]:
        return self.said.splitlines()

    def told(self) -> list[tuple[str, str, int, bool]]:
        return [(r.method, r.host, r.port, r.allowed) for r in self.requests]


class Trier:
    """Runs Python code in a sandbox that may reach some hosts."""

    def __init__(self, target: BubblewrapTarget, certificate: str) -> None:
        self.target = target
        self._certificate = certificate

    def start(self, code: str, *egress: str, **more: object) -> str:
        program = python(PRELUDE + code, CA=self._certificate)
        # No other test of this machine has an attempt of that name: it is looked for by it.
        name = f"arl-{secrets.token_hex(8)}"
        wanted: dict[str, Any] = {
            "name": name,
            "kind": AttemptKind.TRAIN,
            "egress": egress,
            **more,
        }
        return self.target.launch(attempt(program, **wanted))

    def run(self, code: str, *egress: str, **more: object) -> Tried:
        return self.ended(self.start(code, *egress, **more))

    def ended(self, handle: str) -> Tried:
        ended = finish(self.target, handle, patience_s=120.0)
        said = log_of(self.target, handle)
        return Tried(handle, ended.exit, said, requests_of(self.target, handle))


def requests_of(target: BubblewrapTarget, handle: str) -> tuple[NetworkRequest, ...]:
    found: list[NetworkRequest] = []
    cursor, more = "", True
    while more:
        seen = target.observe(handle, cursor=cursor)
        cursor, more = seen.cursor, seen.more
        found += seen.requests
    return tuple(found)
