"""One connection of a program to its proxy: read, judged, recorded, passed on. Standard library
only."""

import ipaddress
import socket
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from targets import layout
from targets.egress.names import Address, Allowed, Network, as_address, find_refusal
from targets.egress.pump import Pump
from targets.egress.record import MAX_REQUESTS, Recorder, described, now
from targets.egress.squid import Squid, Unreachable
from targets.egress.wire import (
    HEAD_BYTES,
    HELLO_BYTES,
    Asked,
    Unreadable,
    find_server_name,
    parse_request,
)

SAY_S: Final = 30.0
"""A program must have said what it wants within this time."""
SENT_BYTES: Final = 16 * 1024**3
"""What one attempt may send in all."""
RECEIVED_BYTES: Final = 4 * 1024**4
_ADDRESSES: Final = 4
"""Of one name, tried in turn."""
_TAKE_BYTES: Final = 16 * 1024
_ANSWERS: Final = {400: "Bad Request", 403: "Forbidden", 429: "Too Many Requests"}
_CUT: Final = "it was open when the attempt ended"


class Rules(NamedTuple):
    allowed: Allowed
    open_ranges: Sequence[Network]
    say_s: float = SAY_S


class Refused(Exception):
    """Not passed on: the status to answer with, and why in one line."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Wires:
    """The open connections of one proxy, and what went over all of them."""

    def __init__(self) -> None:
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._sent = self._received = 0
        self.is_cut = False

    def add(self, wire: socket.socket) -> None:
        with self._lock:
            self._open.add(wire)
            if self.is_cut:
                _break(wire)

    def remove(self, wire: socket.socket) -> None:
        with self._lock:
            self._open.discard(wire)
        wire.close()

    def count(self, sent: int, received: int) -> str | None:
        """Add to the totals; why no more may move, if so."""
        with self._lock:
            self._sent += sent
            self._received += received
        if self.is_cut:
            return _CUT
        if self._sent > SENT_BYTES or self._received > RECEIVED_BYTES:
            return "the attempt moved more than it may"
        return None

    def cut(self) -> None:
        with self._lock:
            self.is_cut = True
            for wire in self._open:
                _break(wire)


def _break(wire: socket.socket) -> None:
    try:
        wire.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is broken already


class Passage:
    def __init__(
        self,
        program: socket.socket,
        rules: Rules,
        squid: Squid,
        recorder: Recorder,
        wires: Wires,
    ) -> None:
        self._program = program
        self._rules = rules
        self._squid = squid
        self._recorder = recorder
        self._wires = wires
        self._asked = Asked("?", "", 0)
        self._at = now()
        self._number: int | None = None
        self._counted = (0, 0)
        self._is_begun = self._is_recorded = False

    def run(self) -> None:
        """Serve the one request of the connection."""
        self._wires.add(self._program)
        try:
            self._serve()
        except OSError:
            pass  # the program is gone, or nothing can be written down: nothing passes
        finally:
            self._wires.remove(self._program)

    def give_up(self) -> None:
        """Record it as it stands: its thread waits for a name server, say, and is left behind."""
        if not self._is_recorded:
            self._end(allowed=self._is_begun, detail=_CUT)

    def _serve(self) -> None:
        self._number = self._recorder.take_number()
        if self._number is None:
            self._answer(429, f"one attempt may make {MAX_REQUESTS} requests")
            return
        try:
            rest = self._read_request()
            addresses = self._judge()
        except Refused as refused:
            self._end(allowed=False, detail=str(refused))
            self._answer(refused.status, str(refused))
            return
        self._recorder.begin(self._number, self._what())
        self._is_begun = True
        try:
            host = self._connect(addresses)
        except Unreachable as trouble:
            self._end(allowed=True, detail=f"not reached: {trouble}")
            self._answer(502, str(trouble))
            return
        self._wires.add(host)
        try:
            self._pass_on(host, rest)
        finally:
            self._wires.remove(host)

    def _read_request(self) -> bytes:
        """What follows the head in what was read. Raises Refused."""
        data, end = b"", -1
        until = time.monotonic() + self._rules.say_s
        while end < 0:
            data += self._take(until)
            end = data.find(b"\r\n\r\n")
            if end < 0 and len(data) > HEAD_BYTES:
                raise Refused(400, f"a head of more than {HEAD_BYTES} bytes")
        try:
            self._asked = parse_request(data[: end + 4])
        except Unreadable as why:
            self._asked = why.asked or self._asked
            raise Refused(400, str(why)) from why
        return data[end + 4 :]

    def _take(self, until: float) -> bytes:
        self._program.settimeout(max(until - time.monotonic(), 0.001))
        try:
            data = self._program.recv(_TAKE_BYTES)
        except TimeoutError:
            why = f"nothing that can be judged within {self._rules.say_s:g} s"
            raise Refused(400, why) from None
        if not data:
            raise Refused(400, _CUT if self._wires.is_cut else "it hung up without asking")
        return data

    def _judge(self) -> list[str]:
        """The addresses to try. Raises Refused."""
        host, port = self._asked.host, self._asked.port
        if not self._rules.allowed.covers(host, port):
            raise Refused(403, f"target.egress does not list {host}:{port}")
        found = _resolve(host, port)
        if not found:
            raise Refused(403, f"{host} has no address")
        usable, why = [], ""
        for address in found:
            refusal = find_refusal(address, self._rules.open_ranges)
            if refusal is None and _is_own(address, self._rules.open_ranges):
                refusal = "this machine's own"
            if refusal is None:
                usable.append(str(address))
            else:
                why = why or f"{host} is {address}, {refusal}"
        if not usable:
            raise Refused(403, why)
        return usable[:_ADDRESSES]

    def _connect(self, addresses: Iterable[str]) -> socket.socket:
        """Raises Unreachable with what the last one said."""
        trouble = Unreachable("no address")
        for address in addresses:
            try:
                return self._squid.connect(address, self._asked.port)
            except Unreachable as error:
                trouble = error
        raise trouble

    def _pass_on(self, host: socket.socket, rest: bytes) -> None:
        head, body_bytes = self._asked.head, self._asked.body_bytes
        try:
            first = head + rest[:body_bytes] if head else self._tls_hello(rest)
        except Refused as refused:
            self._end(allowed=False, detail=str(refused))
            return
        left = max(body_bytes - len(rest), 0) if head else None
        pump = Pump(self._program, host, body_bytes=left)
        pump.up.waiting = first
        how = pump.run(self._may_go_on)
        if self._wires.is_cut:
            how = _CUT
        self._end(allowed=True, detail=how, sent=pump.up.moved, received=pump.down.moved)

    def _tls_hello(self, rest: bytes) -> bytes:
        """The first bytes of a tunnel, which must be TLS for the host that was asked for."""
        self._program.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        data, name = rest, None
        until = time.monotonic() + self._rules.say_s
        try:
            while (name := find_server_name(data)) is None:
                if len(data) > HELLO_BYTES:
                    raise Refused(400, "a TLS hello that is too long")
                data += self._take(until)
        except Unreadable as why:
            raise Refused(400, f"{why} in the tunnel") from why
        wanted = "" if as_address(self._asked.host) is not None else self._asked.host
        if name != wanted:
            shown = layout.one_line(name)[:255] or "no name"
            raise Refused(403, f"its TLS hello is for {shown}")
        return data

    def _may_go_on(self, sent: int, received: int) -> str | None:
        before = self._counted
        self._counted = (sent, received)
        return self._wires.count(sent - before[0], received - before[1])

    def _what(self) -> dict[str, object]:
        return described(self._at, self._asked.method, self._asked.host, self._asked.port)

    def _end(self, *, allowed: bool, detail: str, sent: int = 0, received: int = 0) -> None:
        if self._number is None:
            return
        self._is_recorded = True
        outcome = {"allowed": allowed, "detail": detail, "sent": sent, "received": received}
        self._recorder.end(self._number, {**self._what(), **outcome})

    def _answer(self, status: int, why: str) -> None:
        body = f"ARL's proxy: {why}\n".encode("utf-8", "replace")
        head = (
            f"HTTP/1.1 {status} {_ANSWERS.get(status, 'Bad Gateway')}\r\n"
            f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        self._program.settimeout(SAY_S)
        self._program.sendall(head.encode() + body)


def _resolve(host: str, port: int) -> list[Address]:
    literal = as_address(host)
    if literal is not None:
        return [literal]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Refused(403, f"{host} cannot be resolved: {layout.one_line(str(error))}") from None
    return [ipaddress.ip_address(place[0]) for *_, place in found]


def _is_own(address: Address, open_ranges: Iterable[Network]) -> bool:
    """Services of this machine listen at its public addresses too. The kernel says from where
    it would send a datagram there, and sends none: to an own address from that same one."""
    if any(address in network for network in open_ranges):
        return False
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((str(address), 9))
        except OSError:
            return False  # there is no way to it, as squid will find too
        return str(probe.getsockname()[0]) == str(address)
