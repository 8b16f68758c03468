"""Many clients at once, slow ones and greedy ones: the others are served as if they were alone."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from benchmarks.service_asking import complete_trials, run_clients, submit
from controller.api import connections
from controller.settings import read_settings
from controller.wiring import Service, build_service
from controller.worker.loop import Worker
from ledger import reads
from ledger.records import Verdict
from ledger.states import Reason, StudyState
from tests.acceptance.shell_study import open_service
from tests.api_server import api_server
from tests.ledger_builders import Driven, driven

STUDY = "/api/v1/studies/s1"
HEAD = "Host: 127.0.0.1\r\nContent-Type: application/json\r\n"
STREAM = f"GET {STUDY}/events?since={{since}} HTTP/1.1\r\n{HEAD}Accept: text/event-stream\r\n\r\n"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = build_service(read_settings({"ARL_HOME": str(tmp_path)}), create=True)
    yield made
    made.close()


@pytest.fixture
def study(service: Service) -> Driven:
    made = driven(service.ledger)
    made.run_study()
    for number in range(5):
        made.whole_trial(number, 0.5, verdict=Verdict.KEEP)
    return made


def head_seq(study: Driven) -> int:
    with study.ledger.read() as session:
        return reads.get_study(session, study.study_id).head_seq


def connected(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def received(connection: socket.socket, mark: bytes) -> bytes:
    """What came, up to and with the mark; less where the server closed."""
    found = b""
    while mark not in found and (piece := connection.recv(65536)):
        found += piece
    return found


def ask(url: str) -> None:
    """A page of trials, which somebody waits for."""
    answer = httpx.get(f"{url}{STUDY}/trials", trust_env=False, timeout=10)
    assert len(answer.json()["items"]) == 5


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def hold_streams(service: Service, study: Driven, streams: int) -> int:
    """So many, one more of which is refused; how many are told of one event, and leave nothing."""
    told = 0
    with api_server(service, streams=streams) as url, contextlib.ExitStack() as stack:
        ask(url)
        before, since = open_files(), head_seq(study)
        opened = [stack.enter_context(connected(url)) for _ in range(streams)]
        for connection in opened:
            connection.sendall(STREAM.format(since=since).encode())
        for connection in opened:
            assert received(connection, b"retry: ").startswith(b"HTTP/1.1 200")
        ask(url)
        refused = httpx.get(
            f"{url}{STUDY}/events", headers={"Accept": "text/event-stream"}, trust_env=False
        )
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many")
        assert refused.headers["retry-after"].isdecimal()
        study.move(StudyState.RUNNING, StudyState.PAUSED, Reason.PAUSED_BY_OPERATOR)
        for connection in opened:
            told += f"id: {since + 1}\n".encode() in received(connection, b"data: ")
        ask(url)
        stack.close()
        until = time.monotonic() + 20
        while httpx.get(f"{url}/api/v1/system", trust_env=False).json()["streams"]:
            assert time.monotonic() < until
            time.sleep(0.05)
        while open_files() > before + 40:  # the ledger's own connections stay
            assert time.monotonic() < until, (before, open_files())
            time.sleep(0.05)
    return told


def test_many_streams_are_told_alike_and_leave_nothing(service: Service, study: Driven) -> None:
    assert hold_streams(service, study, 100) == 100


@pytest.mark.slow
def test_a_thousand_streams_are_told_alike_and_leave_nothing(
    service: Service, study: Driven
) -> None:
    assert hold_streams(service, study, 1000) == 1000


def test_slow_clients_keep_nobody_waiting(service: Service, study: Driven) -> None:
    heads, bodies, readers = 80, 80, 20  # more than there are threads for requests
    part = f"POST {STUDY}/pause HTTP/1.1\r\n{HEAD}Content-Length: 100\r\n\r\n{{"
    for number in range(5, 25):
        study.record(study.proposed(number, params={"x": "y" * 200_000}))
    with api_server(service) as url, contextlib.ExitStack() as stack:
        for _ in range(heads):
            stack.enter_context(connected(url)).sendall(b"GET /healthz HTTP/1.1\r\nHo")
        for _ in range(bodies):
            stack.enter_context(connected(url)).sendall(part.encode())
        for _ in range(readers):  # each is told of four megabytes, and reads none of it
            stack.enter_context(connected(url)).sendall(STREAM.format(since=0).encode())
        time.sleep(0.5)
        began = time.monotonic()
        for _ in range(5):
            answer = httpx.get(f"{url}{STUDY}", trust_env=False, timeout=10)
            assert answer.json()["state"] == "running"
        assert time.monotonic() - began < 10


def test_who_waits_for_a_worker_keeps_nobody_else_waiting(service: Service, study: Driven) -> None:
    """It does not answer for long; there are more of them than threads for requests."""
    waiting, asked = 90, {"wait": "30"}

    def pause() -> None:
        answer = httpx.post(f"{url}{STUDY}/pause", params=asked, trust_env=False, timeout=60)
        answers.append((answer.status_code, answer.json()["answer"]))

    def answered() -> int:
        with service.ledger.write() as session:
            done = text("UPDATE commands SET state = 'applied'")
            return session.connection.execute(done).rowcount

    answers: list[tuple[int, str]] = []
    threads = [threading.Thread(target=pause) for _ in range(waiting)]
    with api_server(service) as url:
        for thread in threads:
            thread.start()
        until = time.monotonic() + 60
        while len(answers) < waiting - 16:
            assert time.monotonic() < until
            ask(url)
        assert answered() == waiting
        for thread in threads:
            thread.join()
    assert answers.count((202, "applied")) == 16
    assert answers.count((202, "pending")) == waiting - 16


def test_a_request_that_never_becomes_whole_is_let_go(
    service: Service, study: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 1.0)
    with api_server(service, body_s=0.5) as url:
        with connected(url) as silent, connected(url) as dripping, connected(url) as late:
            late.sendall(
                f"POST {STUDY}/pause HTTP/1.1\r\n{HEAD}Content-Length: 9\r\n\r\n{{".encode()
            )
            with contextlib.suppress(ConnectionError):
                for letter in "GET /healthz HTTP/1.1\r\nX-Long: " + 100 * "x":
                    dripping.sendall(letter.encode())
                    time.sleep(0.02)
                raise AssertionError("a head that drips is read for ever")
            with contextlib.suppress(ConnectionError):
                assert silent.recv(100) == b""
            answer = received(late, b"}")
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"too_slow" in answer
        ask(url)


def test_a_stream_outlives_the_time_that_a_head_and_a_body_have(
    service: Service, study: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 1.0)
    since = head_seq(study)
    with api_server(service, body_s=1.0) as url, connected(url) as stream:
        stream.sendall(STREAM.format(since=since).encode())
        received(stream, b"retry: ")
        time.sleep(2.5)
        study.move(StudyState.RUNNING, StudyState.PAUSED, Reason.PAUSED_BY_OPERATOR)
        assert f"id: {since + 1}\n".encode() in received(stream, b"data: ")


def test_a_body_of_a_hundred_megabytes_is_refused_before_it_is_sent_whole(
    service: Service, study: Driven
) -> None:
    hundred = 100 * 1024 * 1024
    with api_server(service) as url:
        for length in (f"Content-Length: {hundred}", "Transfer-Encoding: chunked"):
            with connected(url) as connection:
                connection.sendall(
                    f"POST {STUDY}/pause HTTP/1.1\r\n{HEAD}{length}\r\n\r\n".encode()
                )
                sent = 0 if "chunked" not in length else _send_chunks(connection, hundred)
                assert sent < 20 * 1024 * 1024  # of which the rest lay in buffers
                with contextlib.suppress(ConnectionResetError):
                    answer = received(connection, b"}")
                    assert b" 413 " in answer.partition(b"\r\n")[0]
        ask(url)


def _send_chunks(connection: socket.socket, limit: int) -> int:
    """Bytes that were taken until the server would take no more."""
    piece, sent = b"10000\r\n" + b" " * 0x10000 + b"\r\n", 0
    with contextlib.suppress(ConnectionError):
        while sent < limit:
            connection.sendall(piece)
            sent += len(piece)
    return sent


def test_a_token_in_an_address_is_in_no_log_of_the_server(
    service: Service, study: Driven, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "arl_" + "5ecret" * 7
    with caplog.at_level("DEBUG"), api_server(service) as url:
        for name in ("token", "Access_Token", "api_key", "authorization"):
            address = f"{url}{STUDY}/events?since=0&{name}={secret}"
            for accept in ("application/json", "text/event-stream"):
                refused = httpx.get(address, headers={"Accept": accept}, trust_env=False)
                assert (refused.status_code, refused.json()["code"]) == (400, "malformed")
                assert secret not in refused.text
    # httpx is the client here, and writes what it was told to send.
    said = [r.getMessage() for r in caplog.records if not r.name.startswith("http")]
    assert any(f"{STUDY}/events" in line for line in said)
    assert not any(secret in line for line in said)


def test_32_clients_ask_and_tell_without_an_error_and_every_trial_counts_once(
    tmp_path: Path,
) -> None:
    service = open_service(tmp_path, ARL_API_ALLOW_LOCAL="1")
    worker = Worker(service)
    thread = threading.Thread(target=worker.run)
    with api_server(service, allow_local=True) as url:
        port = int(url.rpartition(":")[2])
        thread.start()
        try:
            study = submit(port, trials=96, clients=32)
            counted = run_clients(port, study, clients=32, trials=96)
            assert counted.errors == {}
            assert counted.told == 96
            assert complete_trials(port, study, 96) == 96
        finally:
            worker.stop()
            thread.join(30)
    with service.ledger.read() as session:
        seen = reads.list_trials(session, study, limit=500).items
    assert len(seen) == len({one.trial.id for one in seen})
    service.close()
