"""What is asked with consent goes to the inbox as it was answered; of the rest nothing is kept."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from controller.campaigns import connections
from controller.campaigns import proxy as campaign_proxy
from controller.campaigns.inbox import Inbox
from controller.campaigns.log import CampaignLog
from controller.campaigns.proxy import RecordingProxy
from controller.campaigns.recording import Exchange, Recorder, records_of
from controller.spec.campaign import ExperienceSpec
from ledger.artifacts import ArtifactStore
from ledger.database import open_ledger
from targets.outbound import GuardedTransport
from targets.outbound_addresses import parse_policy
from tests.served_models import ModelServer, model_server, sends
from tests.target_runs import wait_until

POLICY = "adder@0123456789ab"
YES = {"x-arl-consent": "user 17"}


@dataclass
class Place:
    server: ModelServer
    recorder: Recorder
    port: int

    def ask(
        self, body: object, *, path: str = "/v1/completions", **headers: str
    ) -> tuple[int, Any]:
        """Status and answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {"content-type": "application/json", **named}
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request("POST", path, text, sent)

    def request(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body or None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def recorded(self) -> list[Any]:
        """Every line that went to the inbox."""
        self.recorder.rotate(now=True)
        files = sorted(self.recorder.inbox.glob("*.jsonl"))
        return [json.loads(line) for f in files for line in f.read_text().splitlines()]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "skill").write_text("1.0")
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    with model_server() as server:
        server.adapters = {"adder": str(adapter), POLICY: str(adapter)}
        recorder = Recorder(inbox)
        proxy = RecordingProxy(
            server.url,
            GuardedTransport(parse_policy("1")),
            recorder,
            model="adder",
            policy_of=lambda: POLICY,
            say=print,
        )
        with proxy.listening("127.0.0.1", 0) as url:
            yield Place(server, recorder, int(url.rpartition(":")[2]))


def asked(number: int = 7, **more: Any) -> dict[str, Any]:
    return {"model": "adder", "prompt": f"add {number}", "n": 1, "max_tokens": 8, **more}


def test_what_is_asked_with_consent_becomes_a_record_that_is_taken_in(
    place: Place, tmp_path: Path
) -> None:
    status, answer = place.ask(asked(), **YES, x_arl_source="form 3")
    assert (status, json.loads(answer)["choices"][0]["text"]) == (200, " 8 ")
    status, _ = place.ask(asked(9, n=2, model=POLICY), **YES)
    assert status == 200
    first, second, third = place.recorded()
    assert (first["prompt"], first["completion"], first["ended"]) == ("add 7", " 8 ", True)
    assert (first["source"], first["policy"]) == ("form 3", POLICY)
    assert first["consent"]["by"] == "user 17"
    assert second == {**third, "consent": second["consent"]}
    ledger = open_ledger(tmp_path / "home" / "ledger.db", create=True)
    log = CampaignLog(ledger, "live")
    spec = ExperienceSpec.model_validate({"inbox": "inbox"})
    store = ArtifactStore(tmp_path / "home" / "artifacts")
    Inbox(place.recorder.inbox, store, spec, frozenset()).take_in(log, print)
    (batch,) = log.state.batches
    ledger.close()
    assert (batch.training + batch.held_out + batch.duplicates, batch.invalid) == (3, 0)


@pytest.mark.parametrize("consent", [None, "", "  ", "x" * 201])
def test_without_consent_it_is_answered_and_counted_and_nothing_is_kept(
    place: Place, consent: str | None
) -> None:
    headers = {} if consent is None else {"x-arl-consent": consent}
    status, answer = place.ask(asked(31337), **headers)
    assert (status, b"31338" in answer) == (200, True)
    assert place.recorded() == [{}]
    kept = b"".join(path.read_bytes() for path in place.recorder.inbox.iterdir())
    assert b"31337" not in kept
    assert place.recorder.counts.without_consent == 1


def test_other_models_are_answered_and_not_recorded(place: Place) -> None:
    place.server.adapters["other"] = place.server.adapters["adder"]
    status, _ = place.ask(asked(model="other"), **YES)
    assert (status, place.recorded()) == (200, [])


def test_nothing_that_changes_the_server_is_passed_on(place: Place) -> None:
    before = dict(place.server.adapters)
    for path in ("/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/v1/embeddings", "/"):
        assert place.ask({"lora_name": "adder"}, path=path, **YES)[0] == 404
    assert place.request("GET", "/metrics", b"", {})[0] == 404
    assert place.server.asked == []
    assert place.server.adapters == before
    status, models = place.request("GET", "/v1/models", b"", {})
    assert (status, b"adder" in models) == (200, True)


REFUSED = {
    "a page's own words": (asked(), {"content_type": "text/plain"}, 415),
    "no JSON": (b"{", {}, 400),
    "no object": ([1], {}, 400),
    "too long": (b" " * 100, {"content_length": str(2**40)}, 413),
    "too long behind zeros": (b"{}", {"content_length": "0" * 20 + "9" * 12}, 413),
    "an odd length": (b"{}", {"content_length": "two"}, 411),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_request_is_refused_and_reaches_nobody(place: Place, what: str) -> None:
    body, headers, status = REFUSED[what]
    assert place.ask(body, **headers, **YES)[0] == status
    assert (place.server.asked, place.recorded()) == ([], [])


def test_a_server_that_is_gone_or_refuses_leaves_no_record(place: Place) -> None:
    assert (
        place.ask(asked(model="adder", prompt="add 1"), authorization="Bearer x", **YES)[0] == 200
    )
    place.server.instead["/v1/completions"] = sends(500, b"{}", kind="application/json")
    assert place.ask(asked(), **YES)[0] == 500
    assert len(place.recorded()) == 1
    place.server.instead["/v1/completions"] = hang_up
    status, answer = place.ask(asked(), **YES)
    assert (status, b"does not answer" in answer) == (502, True)
    assert len(place.recorded()) == 1


def hang_up(request: BaseHTTPRequestHandler) -> None:
    request.close_connection = True


def events(*documents: object) -> bytes:
    return b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in documents)


def piece(text: str, end: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": end}]}


def test_a_stream_is_passed_on_and_recorded_whole_or_not_at_all(place: Place) -> None:
    body = events(piece("a"), piece("b"), piece("", "stop"))
    chat = {"model": "adder", "messages": [{"role": "user", "content": "add 1"}], "stream": True}
    path = "/v1/chat/completions"
    place.server.instead[path] = sends(200, body + b"data: [DONE]\n\n", kind="text/event-stream")
    assert place.ask(chat, path=path, **YES) == (200, body + b"data: [DONE]\n\n")
    place.server.instead[path] = sends(200, body, kind="text/event-stream")
    assert place.ask(chat, path=path, **YES) == (200, body)
    (record,) = place.recorded()
    assert record["prompt"] == chat["messages"]
    assert record["completion"] == [{"role": "assistant", "content": "ab"}]
    assert place.recorder.counts.unfit == 1, "one was cut off"


UNFIT: list[tuple[str, dict[str, Any], bytes]] = [
    ("/v1/completions", {"prompt": ["a", "b"]}, b'{"choices": [{"text": "x"}]}'),
    ("/v1/completions", {"prompt": "a"}, b"<html>"),
    ("/v1/completions", {"prompt": "a"}, b'{"choices": [{"index": 0, "text": "half"}]}'),
    ("/v1/completions", {"prompt": "a"}, b'{"choices": ["x"]}'),
    ("/v1/chat/completions", {"messages": [], "tools": [{}]}, b'{"choices": []}'),
    ("/v1/chat/completions", {"prompt": "a"}, b'{"choices": []}'),
]


@pytest.mark.parametrize(("path", "document", "answered"), UNFIT)
def test_what_is_not_text_answered_by_text_is_no_record(
    path: str, document: dict[str, Any], answered: bytes
) -> None:
    exchange = Exchange(
        path=path,
        asked=document,
        answered=answered,
        is_stream=False,
        consent_by="user 17",
        at="2026-11-30T10:00:00+00:00",
        source="proxy",
        policy=POLICY,
    )
    assert records_of(exchange) == []


def test_what_a_killed_recorder_left_is_handed_over_by_the_next(tmp_path: Path) -> None:
    (tmp_path / ".recording-20261130T100000Z-1-1").write_text('{"a": 1}\n{"b')
    recorder = Recorder(tmp_path)
    assert recorder.finish_left() == 1
    (found,) = tmp_path.iterdir()
    assert found.suffix == ".jsonl"
    assert found.read_text() == '{"a": 1}\n{"b'


def test_a_file_is_handed_over_once_it_is_old_enough(tmp_path: Path) -> None:
    now = 0.0
    recorder = Recorder(tmp_path, clock=lambda: now)
    recorder.refuse()
    assert list(tmp_path.glob("*.jsonl")) == []
    now = 11.0
    recorder.rotate()
    assert len(list(tmp_path.glob("*.jsonl"))) == 1


def test_idle_connections_hold_no_more_threads_than_they_may(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS", 8)
    before = threading.active_count()
    held = [socket.create_connection(("127.0.0.1", place.port)) for _ in range(40)]
    try:
        held[0].settimeout(30)
        assert held[0].recv(1) == b"", "the one that was idle longest is closed"
        status, _ = place.ask(asked())
        assert status == 200
        wait_until(lambda: threading.active_count() <= before + 8, "no more than it may")
    finally:
        for connection in held:
            connection.close()


def test_where_every_connection_is_in_use_one_more_is_told_to_come_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS", 2)
    may_go_on = threading.Event()

    def slow(request: BaseHTTPRequestHandler) -> None:
        may_go_on.wait(30)
        sends(200, b"{}", kind="application/json")(request)

    place.server.instead["/v1/models"] = slow
    with ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(place.request, "GET", "/v1/models", b"", {}) for _ in range(2)]
        wait_until(lambda: len(place.server.asked) == 2, "both are asked")
        status, _ = place.request("GET", "/health", b"", {})
        may_go_on.set()
        assert [one.result()[0] for one in asking] == [200, 200]
    assert status == 503
    status, _ = place.request("GET", "/health", b"", {})
    assert status == 200, "there is room again"


def test_a_request_that_comes_a_byte_at_a_time_is_given_up(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign_proxy, "BODY_S", 0.5)
    head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", place.port)) as slow:
        slow.sendall(f"{head}content-length: 1000\r\n\r\n".encode())
        slow.settimeout(0.1)
        answer = b""
        for _ in range(100):
            slow.sendall(b" ")
            with suppress(TimeoutError):
                answer = slow.recv(100)
                break
    assert answer.startswith(b"HTTP/1.1 408 ")
