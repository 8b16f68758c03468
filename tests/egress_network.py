"""A network of the tests' own, with hosts in it: no packet of it reaches any other network.

The calling thread, and every process and thread it starts from then on, is in a new network
namespace whose only interface is loopback, and sees its own /etc/hosts and /etc/resolv.conf.
"""

import ctypes
import os
import socket
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from targets.egress import access
from tests.egress_certificate import CERTIFICATE, KEY

PUBLIC = "198.51.100.7"
RANGE = "198.51.100.0/24"
"""What the tests' operator opens: documentation ranges are refused like private ones."""
OTHER_PUBLIC = "203.0.113.9"
PRIVATE = "10.77.0.1"
OWN = "11.22.33.44"
"""A public address that is this machine's: here, in a network that nothing leaves."""
NAMES = {
    PUBLIC: "good.test www.wild.test other.test",
    PRIVATE: "inner.test metadata.test",
    OTHER_PUBLIC: "unopened.test",
    OWN: "own.test",
}
_NEW_NETWORK, _NEW_MOUNTS, _OWN_FILE_SYSTEM = 0x40000000, 0x00020000, 0x00000200


def require_egress() -> None:
    """Skip the test where there is no squid or no root; as root or in CI that is a failure."""
    reason = access.find_problem()
    if os.geteuid() != 0:
        reason = "network namespaces of the tests' own need root"
    if reason is not None:
        must = os.geteuid() == 0 or os.environ.get("CI") == "true"
        (pytest.fail if must else pytest.skip)(f"egress: {reason}")


class Internet:
    """The hosts. Every one of them notes who asked it for what."""

    def __init__(self, base: Path) -> None:
        self.hits: list[str] = []
        """`address:port what`, in order."""
        self._base = base
        self._servers: list[socketserver.BaseServer] = []
        self.certificate = CERTIFICATE

    def start(self) -> None:
        (self._base / "hosts.pem").write_text(CERTIFICATE + KEY)
        for address in NAMES:
            subprocess.run(["ip", "addr", "add", f"{address}/32", "dev", "lo"], check=True)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        for address in NAMES:
            self._serve_http(address, 80, tls=False)
            self._serve_http(address, 443, tls=True)
            self._serve_lines(address, 22)
        self._serve_http("127.0.0.1", 80, tls=False)
        self.name_hosts(NAMES)

    def name_hosts(self, names: dict[str, str]) -> None:
        """From now on, for whoever resolves a name on this machine."""
        lines = ["127.0.0.1 localhost", *(f"{at} {called}" for at, called in names.items())]
        self.hosts.write_text("\n".join(lines) + "\n")

    @property
    def hosts(self) -> Path:
        return self._base / "hosts"

    def stop(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def run(self, server: socketserver.BaseServer) -> None:
        self._servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

    def _serve_http(self, address: str, port: int, *, tls: bool) -> None:
        server = _QuietServer((address, port), _handler(self, f"{address}:{port}"))
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._base / "hosts.pem")
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.run(server)

    def _serve_lines(self, address: str, port: int) -> None:
        internet = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                internet.hits.append(f"{address}:{port} {self.rfile.readline(100)!r}")

        self.run(_LineServer((address, port), Handler))


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients of these tests break off."""


class _LineServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


def _handler(internet: Internet, place: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            internet.hits.append(f"{place} {self.command} {self.headers['Host']}{self.path}")
            body = f"{self.headers['Host']} here\n".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            body = self.rfile.read(size)
            internet.hits.append(f"{place} POST {len(body)}")
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body[::-1])

        def log_message(self, *_: object) -> None:
            """The hits say it."""

    return Handler


@contextmanager
def private_internet(base: Path) -> Iterator[Internet]:
    with _namespaces():
        internet = Internet(base)
        for name in ("hosts", "resolv.conf"):
            (base / name).write_text("nameserver 127.0.0.1\n" if name != "hosts" else "")
            subprocess.run(["mount", "--bind", str(base / name), f"/etc/{name}"], check=True)
        internet.start()
        try:
            yield internet
        finally:
            internet.stop()


@contextmanager
def _namespaces() -> Iterator[None]:
    """Network and mounts of this thread's own, until the end of the block."""
    libc = ctypes.CDLL(None, use_errno=True)
    here = os.getcwd()
    before = [os.open(f"/proc/thread-self/ns/{kind}", os.O_RDONLY) for kind in ("net", "mnt")]
    try:
        if libc.unshare(_NEW_NETWORK | _NEW_MOUNTS) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        try:
            yield
        finally:
            libc.unshare(_OWN_FILE_SYSTEM)  # threads started meanwhile share it: setns refuses
            for namespace in before:
                if libc.setns(namespace, 0) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            os.chdir(here)
    finally:
        for namespace in before:
            os.close(namespace)


class NameServer(socketserver.ThreadingUDPServer):
    """Answers every question for an address with `answers()`, to be forgotten at once."""

    daemon_threads = True

    def __init__(self, answers: list[str]) -> None:
        self.asked = 0
        self._answers = answers
        super().__init__(("127.0.0.1", 53), _Answer)

    def next_answer(self) -> str:
        self.asked += 1
        return self._answers[self.asked % len(self._answers)]


class _Answer(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        data, reply = self.request
        end = data.index(b"\0", 12) + 5
        is_a = data[end - 4 : end - 2] == b"\0\1"
        records = b""
        if is_a and isinstance(self.server, NameServer):
            address = socket.inet_aton(self.server.next_answer())
            records = b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4" + address
        count = len(records[:1]).to_bytes(2, "big")
        with suppress(OSError):
            reply.sendto(
                data[:2] + b"\x81\x80\0\1" + count + b"\0\0\0\0" + data[12:end] + records,
                self.client_address,
            )
