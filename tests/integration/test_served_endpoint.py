"""What a server of models answers is bounded and checked, whatever it is."""

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from controller.serving.asking import Asking, Interview, measured, quantile
from controller.serving.endpoint import Endpoint
from controller.serving.faults import EndpointRefuses, EndpointUnavailable
from controller.serving.frozen_scorer import Questions
from targets.outbound import GuardedTransport, Outbound
from targets.outbound_addresses import parse_policy
from tests.served_models import ModelServer, model_server, sends

Connect: TypeAlias = Callable[..., Endpoint]
SETTINGS: dict[str, Any] = {"n": 2, "max_tokens": 8}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as opened:
        yield opened


@pytest.fixture
def connect() -> Iterator[Connect]:
    opened: list[Endpoint] = []

    def make(server: ModelServer, path: str = "") -> Endpoint:
        outbound = Outbound(GuardedTransport(parse_policy("1")))
        opened.append(Endpoint(server.url + path, outbound, None))
        return opened[-1]

    yield make
    for endpoint in opened:
        endpoint.close()


def answers(server: ModelServer, document: object, path: str = "/v1/completions") -> None:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    server.instead[path] = sends(200, body, kind="application/json")


def completion(**changed: Any) -> dict[str, Any]:
    choices = [{"text": "a", "index": 1}, {"text": "b", "index": 0, "finish_reason": "stop"}]
    return {"choices": choices, "usage": {"completion_tokens": 3}, **changed}


def test_answers_come_in_the_order_of_their_numbers(connect: Connect, server: ModelServer) -> None:
    answers(server, completion())
    found = connect(server, "/v1/").complete("m", "p", SETTINGS, timeout_s=5)
    assert found.texts == (("b", True), ("a", False))
    assert found.tokens == 3


@pytest.mark.parametrize(
    "document",
    [
        b"[" * 60_000,
        b"\xff\xfe",
        [1],
        completion(choices=[]),
        completion(choices=["a", "b"]),
        completion(choices=[{"text": "a", "index": 0}] * 2),
        completion(choices=[{"text": "a", "index": 0}, {"text": "b", "index": 10**30}]),
        completion(choices=[{"text": "a", "index": 0}, {"text": None, "index": 1}]),
        completion(choices=[{"text": "a", "index": True}, {"text": "b", "index": 0}]),
        completion(usage=None),
        completion(usage={"completion_tokens": 1e99}),
        completion(usage={"completion_tokens": -1}),
        completion(usage={"completion_tokens": 17}),
        completion(usage={"completion_tokens": True}),
    ],
)
def test_a_malformed_completion_is_no_answer(
    connect: Connect, server: ModelServer, document: object
) -> None:
    answers(server, document)
    with pytest.raises(EndpointUnavailable, match="is this vLLM"):
        connect(server).complete("m", "p", SETTINGS, timeout_s=5)


def test_half_a_character_becomes_one_that_can_be_kept(
    connect: Connect, server: ModelServer
) -> None:
    text = completion()
    text["choices"][0]["text"] = "\ud800x"
    answers(server, text)
    found = connect(server).complete("m", "p", SETTINGS, timeout_s=5)
    assert found.texts[1][0].encode() == b"?x"


@pytest.mark.parametrize("document", [[], {"data": 1}, {"data": [{"id": 1}]}, {"data": ["x"]}])
def test_a_malformed_list_of_models_is_none(
    connect: Connect, server: ModelServer, document: object
) -> None:
    answers(server, document, "/v1/models")
    with pytest.raises(EndpointUnavailable, match="is this vLLM"):
        connect(server).models()


def test_a_refusal_says_what_the_server_says_in_one_line(
    connect: Connect, server: ModelServer
) -> None:
    said = {"error": {"message": "rank 64\n is " + "too " * 100 + "large"}}
    body = json.dumps(said).encode()
    server.instead["/v1/load_lora_adapter"] = sends(400, body, kind="application/json")
    with pytest.raises(EndpointRefuses, match=r"400 .rank 64 is too") as refused:
        connect(server).load("a", "/a")
    assert "--max-lora-rank" in str(refused.value)
    assert len(str(refused.value)) < 600


def test_a_redirect_is_not_followed(connect: Connect, server: ModelServer) -> None:
    with model_server() as other:

        def redirect(request: Any) -> None:
            request.send_response(307)
            request.send_header("location", f"{other.url}/v1/models")
            request.send_header("content-length", "0")
            request.end_headers()

        server.instead["/v1/models"] = redirect
        with pytest.raises(EndpointRefuses, match="307"):
            connect(server).models()
        assert other.asked == []


def test_an_interview_gives_up_at_once_where_the_server_is_gone(
    connect: Connect, server: ModelServer
) -> None:
    server.instead["/v1/completions"] = sends(200, b"{}", kind="application/json")
    server.instead["/health"] = sends(503, b"", kind="text/plain")
    questions = Questions(prompts=("1",) * 40, settings=SETTINGS)
    asking = Asking(parallel=4, timeout_s=5)
    with pytest.raises(EndpointUnavailable):
        Interview(lambda: connect(server), "m", asking, lambda _: None).ask(questions)
    assert len([path for path, _ in server.asked if path == "/v1/completions"]) == 1


def test_an_answer_that_fails_once_is_asked_again(connect: Connect, server: ModelServer) -> None:
    good = sends(200, json.dumps(completion()).encode(), kind="application/json")
    bad = sends(500, b"", kind="text/plain")
    count = 0

    def now_and_then(request: Any) -> None:
        nonlocal count
        count += 1
        (sends(200, b"", kind="text/plain") if count % 3 == 0 else good)(request)

    server.instead["/v1/completions"] = now_and_then
    questions = Questions(prompts=tuple("abcdefgh"), settings=SETTINGS)
    asking = Asking(parallel=1, timeout_s=5)
    asked = Interview(lambda: connect(server), "m", asking, lambda _: None).ask(questions)
    assert len(asked.answers) == 8
    assert count > 9
    found = measured(asked)
    assert (found["answers"], found["tokens"]) == (8, 24)
    server.instead["/v1/completions"] = bad
    with pytest.raises(EndpointRefuses, match="500"):
        Interview(lambda: connect(server), "m", asking, lambda _: None).ask(questions)


def test_a_server_that_repeats_its_key_brings_it_into_no_message_and_no_answer(
    server: ModelServer,
) -> None:
    key = 'vllm-"canary"/0123456789+abcdef='
    endpoint = Endpoint(server.url, Outbound(GuardedTransport(parse_policy("1"))), key)
    for status in (400, 200):
        said = {"error": {"message": f"{'x' * 190} wrong key {key}"}, **completion()}
        said["choices"][0]["text"] = f"my key is {key}"
        body = json.dumps(said).encode()
        server.instead["/v1/completions"] = sends(status, body, kind="application/json")
        try:
            told = repr(endpoint.complete("m", "p", SETTINGS, timeout_s=5))
            assert "my key is [secret]" in told
        except EndpointRefuses as refused:
            told = str(refused)
        for part in ("canary", "vllm-", "012345", "abcdef"):
            assert part not in told, status
    endpoint.close()


def test_a_quantile_is_one_of_the_values() -> None:
    values = [float(value) for value in range(1, 101)]
    assert (quantile(values, 0.5), quantile(values, 0.95), quantile(values, 1.0)) == (50, 95, 100)
    assert quantile([3.0], 0.95) == 3.0
    assert quantile([], 0.5) == 0.0
