"""Requests that a study asks for, against real servers on loopback that do what they like."""

import os
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from ledger.errors import InvalidInput
from targets.outbound import AddressPolicy, AddressRefused, GuardedTransport, Outbound, Unanswered
from targets.outbound_addresses import Resolver, parse_policy

HERE = AddressPolicy(allow_private=True)
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
LAST_OK = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"
"""Of a server that closes: a client that was not told may use the connection once more."""


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Gives each connection to `answer` once a request's head has come; its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    stopped = threading.Event()

    def one(connection: socket.socket) -> None:
        with connection:
            try:
                while b"\r\n\r\n" not in connection.recv(65536):
                    pass
                answer(connection)
            except OSError:
                return

    def serve() -> None:
        while not stopped.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        stopped.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


@contextmanager
def outbound(
    policy: AddressPolicy = HERE,
    resolver: Resolver | None = None,
    context: ssl.SSLContext | None = None,
) -> Iterator[Outbound]:
    more = {} if resolver is None else {"resolver": resolver}
    made = Outbound(GuardedTransport(policy, ssl_context=context, **more))
    yield made
    made.close()


def ask(client: Outbound, url: str, timeout_s: float = 5.0, max_bytes: int = 1000) -> bytes:
    return client.request("GET", url, timeout_s=timeout_s, max_bytes=max_bytes).body


LOOPBACK_FORMS = [
    *("127.0.0.1", "localhost", "localhost.", "LOCALHOST", "2130706433", "0x7f000001"),
    *("0177.0.0.1", "0x7f.1", "127.1", "0", "[::1]", "[::ffff:127.0.0.1]", "[::]"),
    *("[0:0:0:0:0:ffff:7f00:1]", "127.0.0.1.", "①②⑦.0.0.1"),
]


@pytest.mark.parametrize("host", LOOPBACK_FORMS)
def test_no_spelling_of_this_machine_gets_past_the_check(host: str) -> None:
    with server(lambda c: c.sendall(OK)) as port, outbound(AddressPolicy()) as client:
        with pytest.raises((AddressRefused, InvalidInput, Unanswered)) as refused:
            ask(client, f"http://{host}:{port}/")
        if refused.type is Unanswered:  # not even the system's resolver takes it for an address
            assert "refused" not in str(refused.value).lower()


@pytest.mark.parametrize("host", ["169.254.169.254", "10.0.0.1", "[fe80::1]", "[fd00::1]"])
def test_private_hosts_are_refused_without_a_packet(host: str) -> None:
    with outbound(AddressPolicy()) as client, pytest.raises(AddressRefused):
        ask(client, f"http://{host}/latest/meta-data/")


def test_the_address_that_was_checked_is_the_one_connected_to() -> None:
    """A name that resolves to another address the second time (rebinding) gains nothing."""
    answers = iter([["127.0.0.1"], ["127.0.0.2"], ["10.9.9.9"]])
    seen: list[str] = []

    def resolver(host: str, port: int) -> list[str]:
        return next(answers)

    def answer(connection: socket.socket) -> None:
        seen.append(connection.getsockname()[0])
        connection.sendall(LAST_OK)

    policy = parse_policy("127.0.0.1")
    with server(answer) as port, outbound(policy, resolver) as client:
        assert ask(client, f"http://rebind.example.org:{port}/") == b"ok"
        with pytest.raises(AddressRefused, match=r"127\.0\.0\.2"):
            ask(client, f"http://rebind.example.org:{port}/")
    assert seen == ["127.0.0.1"]


def test_a_connection_that_is_kept_is_not_resolved_again() -> None:
    asked: list[str] = []

    def resolver(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    def answer(connection: socket.socket) -> None:
        connection.sendall(OK)
        while connection.recv(65536):
            connection.sendall(OK)

    with server(answer) as port, outbound(HERE, resolver) as client:
        for _ in range(3):
            assert ask(client, f"http://kept.example.org:{port}/") == b"ok"
    assert asked == ["kept.example.org"]


def test_without_tls_only_hosts_that_the_operator_vouches_for_are_asked() -> None:
    with outbound(AddressPolicy(), lambda host, port: ["8.8.8.8"]) as client:
        with pytest.raises(AddressRefused, match="write https://"):
            ask(client, "http://plain.example.org/")


def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    hits: list[int] = []
    moved = b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:%d/x\r\ncontent-length: 0\r\n\r\n"

    def count(connection: socket.socket) -> None:
        hits.append(1)
        connection.sendall(OK)

    with server(count) as other, server(lambda c: c.sendall(moved % other)) as port:
        with outbound() as client:
            answer = client.request("GET", f"http://127.0.0.1:{port}/", timeout_s=5, max_bytes=100)
    assert (answer.status, hits) == (302, [])


@pytest.mark.parametrize(
    "head",
    [b"", b"HTTP/1.1 200 OK\r\nx-slow: ", b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n"],
    ids=["before the head", "within the head", "within the body"],
)
def test_a_slow_drip_ends_with_the_deadline_of_the_whole_request(head: bytes) -> None:
    def drip(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(b"a")
            time.sleep(0.05)

    with server(drip) as port, outbound() as client:
        started = time.monotonic()
        with pytest.raises(Unanswered):
            ask(client, f"http://127.0.0.1:{port}/", timeout_s=0.6)
        assert 0.4 < time.monotonic() - started < 3


def test_a_server_that_says_nothing_ends_with_the_deadline() -> None:
    with server(lambda c: time.sleep(5)) as port, outbound() as client:
        started = time.monotonic()
        with pytest.raises(Unanswered):
            ask(client, f"http://127.0.0.1:{port}/", timeout_s=0.3)
        assert time.monotonic() - started < 4.5


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffff\r\nhalf",
        b"not http at all\r\n\r\n",
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n" + b"x" * 5000,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1388\r\n"
        + b"x" * 5000
        + b"\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\nok",
    ],
    ids=["cut", "cut chunk", "no http", "nothing", "large", "large chunk", "large head", "zipped"],
)
def test_what_is_no_whole_small_answer_is_none(answer: bytes) -> None:
    with server(lambda c: c.sendall(answer)) as port, outbound() as client:
        with pytest.raises(Unanswered):
            ask(client, f"http://127.0.0.1:{port}/", max_bytes=1000)


def test_an_abort_ends_a_request_that_waits() -> None:
    with server(lambda c: time.sleep(10)) as port, outbound() as client:
        timer = threading.Timer(0.3, client.abort)
        timer.start()
        started = time.monotonic()
        with pytest.raises(Unanswered):
            ask(client, f"http://127.0.0.1:{port}/", timeout_s=8)
        assert time.monotonic() - started < 4
        timer.join()


def test_tls_is_verified_against_the_hosts_name(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    argv += ["-subj", "/CN=jobs.example.org", "-addext", "subjectAltName=DNS:jobs.example.org"]
    argv += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(argv, check=True, capture_output=True)
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(certificate, key)
    ours = ssl.create_default_context(cafile=str(certificate))

    def answer(connection: socket.socket) -> None:
        connection.sendall(OK)

    with tls_server(theirs, answer) as port:

        def resolver(host: str, at: int) -> list[str]:
            return ["127.0.0.1"]

        with outbound(HERE, resolver, ours) as client:
            assert ask(client, f"https://jobs.example.org:{port}/") == b"ok"
            with pytest.raises(Unanswered, match=r"[Hh]ostname mismatch"):
                ask(client, f"https://other.example.org:{port}/")
        with outbound(HERE, resolver) as client, pytest.raises(Unanswered, match="verify failed"):
            ask(client, f"https://jobs.example.org:{port}/")


@contextmanager
def tls_server(context: ssl.SSLContext, answer: Callable[[socket.socket], None]) -> Iterator[int]:
    def secured(connection: socket.socket) -> None:
        try:
            with context.wrap_socket(connection, server_side=True) as safe:
                safe.recv(65536)
                answer(safe)
        except OSError:
            return

    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                secured(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def test_any_httpx_client_can_use_the_guarded_transport() -> None:
    with server(lambda c: c.sendall(OK)) as port:
        with httpx.Client(transport=GuardedTransport(HERE), trust_env=False) as client:
            assert client.get(f"http://127.0.0.1:{port}/").text == "ok"
        with httpx.Client(transport=GuardedTransport(AddressPolicy())) as client:
            with pytest.raises(AddressRefused):
                client.get(f"http://127.0.0.1:{port}/")


def test_a_proxy_from_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(lambda c: c.sendall(OK.replace(b"ok", b"no"))) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy}")
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{proxy}")
        with server(lambda c: c.sendall(OK)) as port, outbound() as client:
            assert ask(client, f"http://127.0.0.1:{port}/") == b"ok"


def test_connections_do_not_pile_up() -> None:
    closing = OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    with server(lambda c: c.sendall(closing)) as port, outbound() as client:
        ask(client, f"http://127.0.0.1:{port}/")
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(50):
            ask(client, f"http://127.0.0.1:{port}/")
        assert len(os.listdir("/proc/self/fd")) <= before + 2
        assert len(client._transport._backend._open) <= 1
