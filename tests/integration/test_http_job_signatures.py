"""Only what is signed, new and whole counts, on both sides of the job protocol."""

import http.client
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ledger.errors import Conflict, InvalidInput, StaleFence, TargetUnavailable
from ledger.records import AttemptKind
from targets.http_job import signing
from targets.http_job.client import JobClient
from targets.http_job.documents import HealthDoc, Problem
from targets.http_job.target import HttpTarget
from targets.outbound import GuardedTransport, Outbound
from targets.protocol import ExitCause
from tests.http_faults import FlappingProxy
from tests.http_runs import BRIEF, HERE, QUICK, SECRET, JobServer, http_target, job_server
from tests.target_runs import attempt, finish, run

KEY = signing.key_of(SECRET)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobServer]:
    with job_server(tmp_path_factory.mktemp("signed") / "service") as running:
        yield running


def send(
    server: JobServer,
    headers: dict[str, str],
    *,
    method: str = "GET",
    target: str = "/v1/health",
    body: bytes = b"",
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
    try:
        connection.request(method, target, body=body, headers=headers)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def signed(
    session: str,
    *,
    key: bytes = KEY,
    method: str = "GET",
    target: str = "/v1/health",
    body: bytes = b"",
    at: float | None = None,
    nonce: str | None = None,
) -> dict[str, str]:
    headers = {
        signing.TIME: f"{time.time() if at is None else at:.3f}",
        signing.NONCE: nonce or signing.new_nonce(),
        signing.SESSION: session,
    }
    headers[signing.SIGNATURE] = signing.request_signature(key, method, target, body, headers)
    return headers


def session_of(server: JobServer) -> str:
    status, _, body = send(server, signed(""))
    problem = Problem.model_validate_json(body)
    assert (status, problem.code) == (401, "session")
    assert problem.session is not None
    return problem.session


def code_of(server: JobServer, headers: dict[str, str], **more: object) -> tuple[int, str]:
    status, _, body = send(server, headers, **more)  # type: ignore[arg-type]
    return status, "ok" if status == 200 else Problem.model_validate_json(body).code


def test_a_signed_request_is_answered_with_a_signed_answer(server: JobServer) -> None:
    headers = signed(session_of(server))
    status, told, body = send(server, headers)
    assert status == 200
    assert HealthDoc.model_validate_json(body).protocol == 1
    nonce = headers[signing.NONCE]
    assert told[signing.SIGNATURE] == signing.answer_signature(KEY, nonce, status, body, told)


def test_an_unsigned_request_is_refused_whatever_it_asks(server: JobServer) -> None:
    for method, target in (
        ("GET", "/v1/health"),
        ("GET", "/"),
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
        ("PUT", "/v1/attempts/x"),
        ("DELETE", "/v1/attempts/x"),
        ("OPTIONS", "/v1/attempts"),
    ):
        assert code_of(server, {}, method=method, target=target) == (401, "signature")


def test_a_replayed_request_is_refused(server: JobServer) -> None:
    headers = signed(session_of(server))
    assert code_of(server, headers) == (200, "ok")
    assert code_of(server, headers) == (401, "signature")


def test_a_request_of_before_a_restart_is_worth_nothing_after_it(tmp_path: Path) -> None:
    with job_server(tmp_path / "service") as server:
        headers = signed(session_of(server))
        server.kill()
        server.start()
        assert code_of(server, headers) == (401, "session")


@pytest.mark.parametrize("skew_s", [-3600.0, -301.0, 301.0, 1e12])
def test_a_request_of_another_time_is_told_the_time(server: JobServer, skew_s: float) -> None:
    headers = signed(session_of(server), at=time.time() + skew_s)
    status, _, body = send(server, headers)
    problem = Problem.model_validate_json(body)
    assert (status, problem.code) == (401, "clock")
    assert problem.time == pytest.approx(time.time(), abs=20)


@pytest.mark.parametrize("text", ["", "nan", "inf", "now", "1e999"])
def test_a_time_that_is_none_is_refused(server: JobServer, text: str) -> None:
    headers = signed(session_of(server))
    headers[signing.TIME] = text
    headers[signing.SIGNATURE] = signing.request_signature(KEY, "GET", "/v1/health", b"", headers)
    assert code_of(server, headers)[0] == 401


def test_a_change_of_any_part_makes_a_signature_worthless(server: JobServer) -> None:
    session = session_of(server)
    for changes in (
        {"method": "POST"},
        {"target": "/v1/attempts?owner=x"},
        {"target": "/v1/health?x=1"},
        {"target": "/v1/%68ealth"},
        {"body": b"{}"},
    ):
        assert code_of(server, signed(session), **changes) == (401, "signature")
    for name in (signing.TIME, signing.NONCE, signing.SESSION, signing.SIGNATURE):
        headers = signed(session)
        headers[name] = f"{headers[name][:-1]}{'0' if headers[name][-1] != '0' else '1'}"
        assert code_of(server, headers) == (401, "signature")
        del headers[name]
        assert code_of(server, headers) == (401, "signature")


def test_a_short_nonce_is_refused(server: JobServer) -> None:
    assert code_of(server, signed(session_of(server), nonce="1")) == (401, "signature")


def test_another_secret_opens_nothing_and_the_message_says_what_to_check(
    server: JobServer, tmp_path: Path
) -> None:
    assert code_of(server, signed("", key=b"x" * 64)) == (401, "signature")
    target = http_target(tmp_path, server.url, secret="y" * 64, patience=BRIEF)
    try:
        with pytest.raises(TargetUnavailable, match="is the secret the same on both sides"):
            target.launch(attempt("exit 0"))
    finally:
        target.close()


@pytest.mark.parametrize("secret", ["", "short", "x" * 31, "x" * 5000])
def test_a_weak_secret_is_refused_without_being_shown(
    server: JobServer, tmp_path: Path, secret: str
) -> None:
    with pytest.raises(InvalidInput, match="must be 32 to 4096 characters") as refused:
        http_target(tmp_path, server.url, secret=secret)
    assert not secret or secret not in str(refused.value)


@pytest.mark.parametrize("ahead_s", [-86_400.0, 7200.0])
def test_a_client_whose_clock_is_wrong_follows_the_services(
    server: JobServer, tmp_path: Path, ahead_s: float
) -> None:
    target = http_target(tmp_path, server.url)
    target._hub.client._ahead_s = ahead_s
    try:
        launch_by = time.monotonic() + 20
        handle = target.launch(attempt("exit 3", launch_by=launch_by))
        assert finish(target, handle).exit.code == 3
    finally:
        target.close()


@pytest.mark.parametrize(
    "fault",
    [
        "tampered",
        *(
            pytest.param(fault, marks=pytest.mark.slow)
            for fault in ("other_answer", "truncated", "html", "redirect")
        ),
    ],
)
def test_an_answer_that_is_not_signed_for_this_request_is_never_believed(
    server: JobServer, tmp_path: Path, fault: str
) -> None:
    """With every answer bad, the service is away: nothing is made up, nothing is lost."""
    proxy = FlappingProxy(server.url, seed=1, rate=0.0, faults=(fault,))
    target = http_target(tmp_path, proxy.url, patience=BRIEF)
    try:
        handle = target.launch(attempt("sleep 1; exit 5"))
        proxy._rate = 1.0
        with pytest.raises(TargetUnavailable, match="is away"):
            target.observe(handle, cursor="")
        proxy.calm()
        time.sleep(QUICK.longest_rest_s)
        assert finish(target, handle).exit.code == 5
    finally:
        target.close()
        proxy.close()


def test_a_launch_after_its_lease_is_refused_by_either_side(
    server: JobServer, tmp_path: Path
) -> None:
    target = http_target(tmp_path, server.url)
    try:
        with pytest.raises(StaleFence):
            target.launch(attempt("exit 0", launch_by=time.monotonic() - 1))
        target.launch(attempt("exit 0"))
        spec = attempt("exit 0", launch_by=time.monotonic() + 30)
        target._hub.client._ahead_s = -40.0  # as if it arrived 40 s late
        with pytest.raises(StaleFence, match="after the lease of its asker was over"):
            target.launch(spec)
        seen = target.observe(spec.name, cursor="")
        assert seen.exit is not None
        assert seen.exit.cause is ExitCause.LOST
    finally:
        target.close()


def test_one_name_is_one_attempt_and_another_body_is_refused(
    server: JobServer, tmp_path: Path
) -> None:
    target = http_target(tmp_path, server.url)
    try:
        spec = attempt("exit 0")
        target.launch(spec)
        assert target.launch(spec) == spec.name
        with pytest.raises(Conflict, match="submitted before with another body"):
            target.launch(replace(spec, kind=AttemptKind.EVALUATE))
    finally:
        target.close()


def test_a_body_that_is_too_large_or_no_json_is_refused_by_a_signed_problem(
    server: JobServer,
) -> None:
    session = session_of(server)
    for body, expected in (
        (b"x" * (9 << 20), (413, "too_large")),
        (b"[" * 5000, (422, "invalid_input")),
        (b'{"owner": "x"}', (422, "invalid_input")),
        (b"", (422, "invalid_input")),
        (b"\xff\xfe", (422, "invalid_input")),
    ):
        headers = signed(session, method="PUT", target="/v1/attempts/x", body=body)
        headers["content-type"] = "application/json"
        status, told, answer = send(
            server, headers, method="PUT", target="/v1/attempts/x", body=body
        )
        assert (status, Problem.model_validate_json(answer).code) == expected
        nonce = headers[signing.NONCE]
        assert told[signing.SIGNATURE] == signing.answer_signature(
            KEY, nonce, status, answer, told
        )


def test_the_secret_reaches_neither_an_attempt_nor_a_log(
    server: JobServer, tmp_path: Path
) -> None:
    target: HttpTarget = http_target(tmp_path, server.url)
    try:
        ended = run(target, "env; cat /proc/self/environ")
        data = target.read_log(ended.handle, offset=0, limit=1 << 20).data
        assert data
        assert SECRET.encode() not in data
    finally:
        target.close()
    assert SECRET not in server.log()
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()


def test_a_service_that_names_another_session_every_time_is_given_up(server: JobServer) -> None:
    client = JobClient(server.url, KEY, Outbound(GuardedTransport(HERE)), QUICK)

    class Forgetful(JobClient):
        @property
        def _session(self) -> str:  # type: ignore[override]
            return ""

        @_session.setter
        def _session(self, value: str) -> None:
            return

    try:
        forgetful = Forgetful(server.url, KEY, Outbound(GuardedTransport(HERE)), BRIEF)
        with pytest.raises(TargetUnavailable, match="another session or time with every answer"):
            forgetful.ask("GET", "/v1/health", HealthDoc)
        forgetful.close()
        assert client.ask("GET", "/v1/health", HealthDoc).protocol == 1
    finally:
        client.close()
