"""The chat client against a server that misbehaves: bounded, charged once, and never hanging."""

import json
import random
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import InvalidInput
from proposers.chat import Chat, Reply
from proposers.chat_answer import read_answer
from proposers.chat_options import ModelOptions
from proposers.chat_outcomes import ANSWERS, NoAnswer, Outcome
from proposers.chat_request import HttpAnswer
from proposers.chat_tokens import likely_tokens, most_tokens
from proposers.registry import option_problems
from targets.outbound import AddressPolicy, GuardedTransport
from tests import model_endpoint as m

QUESTION = (
    {"role": "system", "content": "You choose."},
    {"role": "user", "content": "Which?"},
)
QUICK: dict[str, Any] = {
    "tries": 3,
    "connect_s": 2.0,
    "read_s": 0.5,
    "total_s": 1.0,
    "first_wait_s": 0.01,
    "longest_wait_s": 0.05,
    "first_rest_s": 30.0,
}


def options(*urls: str, **changes: Any) -> ModelOptions:
    endpoints = [
        {
            "url": url,
            "model": f"model-{n}",
            "price": {"prompt_usd_per_million": 2.0, "completion_usd_per_million": 10.0},
        }
        for n, url in enumerate(urls)
    ]
    return ModelOptions.model_validate({"endpoints": endpoints, **QUICK, **changes})


def no_secret(name: str) -> str:
    raise AssertionError(f"{name} was read")


def ask(chat: Chat, **how: Any) -> Reply:
    return chat.ask(QUESTION, version="test-1", rng=random.Random(0), **how)


@pytest.fixture
def chats() -> Iterator[list[Chat]]:
    opened: list[Chat] = []
    yield opened
    for chat in opened:
        chat.close()


def asked_of(script: m.Script, **changes: Any) -> tuple[Reply, list[m.Asked], float]:
    """One question to a server with that script: what came, what was asked, how long it took."""
    with m.model_endpoint(script) as endpoint:
        chat = Chat(options(endpoint.url, **changes), no_secret)
        started = time.monotonic()
        reply = ask(chat)
        took_s = time.monotonic() - started
        chat.close()
        return reply, endpoint.asked, took_s


def outcomes(reply: Reply) -> list[str]:
    return [call.outcome for call in reply.calls]


def test_an_answer_is_charged_by_the_servers_own_count() -> None:
    reply, asked, _ = asked_of(m.in_turn(m.says("hello", tokens=(1000, 100))))
    assert reply.answer is not None
    call = reply.calls[0]
    assert (reply.answer.text, call.response, call.outcome) == ("hello", "hello", "answered")
    assert (call.prompt_tokens, call.completion_tokens) == (1000, 100)
    assert call.cost_usd == pytest.approx(1000 * 2e-6 + 100 * 10e-6)
    assert asked[0].path == "/v1/chat/completions"
    assert asked[0].body["max_tokens"] == 4096
    assert "Which?" in call.request
    assert call.prompt_version == "test-1"


@pytest.mark.parametrize("tokens", [None, (-1, 5), ("12", 5), (True, 5), (10**30, 5), (1.5, 2)])
def test_tokens_that_the_server_does_not_count_are_estimated_and_marked(tokens: Any) -> None:
    reply, _, _ = asked_of(m.in_turn(m.says("hello there", tokens=tokens)))
    assert outcomes(reply) == ["uncounted"]
    assert reply.calls[0].prompt_tokens == likely_tokens(reply.calls[0].request)


BAD = {
    "429": (m.sends(429, '{"error": {"message": "slow down"}}'), Outcome.RATE_LIMITED),
    "500": (m.sends(500, "oops", content_type="text/plain"), Outcome.SERVER_ERROR),
    "503": (m.sends(503), Outcome.SERVER_ERROR),
    "reset": (m.resets(), Outcome.UNREACHABLE),
    "reset_in_body": (m.cut_off(), Outcome.CUT_OFF),
    "html": (m.html_page(), Outcome.WRONG_TYPE),
    "half_json": (m.half_json(), Outcome.NOT_JSON),
    "list": (m.sends(200, "[1, 2]"), Outcome.MALFORMED),
    "error_with_200": (m.sends(200, '{"error": {"message": "busy"}}'), Outcome.MALFORMED),
    "no_choices": (m.sends(200, '{"choices": []}'), Outcome.MALFORMED),
    "deep": (m.sends(200, "[" * 100_000), Outcome.NOT_JSON),
    "no_body": (m.sends(200, ""), Outcome.NOT_JSON),
    "ten_megabytes": (m.huge(), Outcome.TOO_LARGE),
    "silent": (m.silent(), Outcome.TIMED_OUT),
    "drip": (m.drips(), Outcome.TIMED_OUT),
    "drip_in_the_head": (m.drips(in_head=True), Outcome.TIMED_OUT),
    "compressed": (
        m.sends(200, b"\x1f\x8b", headers={"content-encoding": "gzip"}),
        Outcome.WRONG_TYPE,
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_server_is_tried_a_bounded_number_of_times_and_costs_nothing(kind: str) -> None:
    behaviour, outcome = BAD[kind]
    reply, asked, took_s = asked_of(m.in_turn(behaviour))
    assert reply.answer is None
    assert outcomes(reply) == [outcome] * 3
    assert len(asked) == 3
    assert sum(c.prompt_tokens + c.completion_tokens + c.cost_usd for c in reply.calls) == 0
    assert took_s < 3 * 1.0 + 1.5
    assert f"{outcome}" in reply.waits_for
    assert 25 < reply.retry_after_s <= 30


@pytest.mark.parametrize("kind", BAD)
def test_what_comes_right_on_a_later_try_is_charged_once(kind: str) -> None:
    reply, _, _ = asked_of(m.in_turn(BAD[kind][0], m.says("fine", tokens=(10, 1))))
    assert reply.answer is not None
    assert outcomes(reply) == [BAD[kind][1], "answered"]
    assert sum(call.prompt_tokens for call in reply.calls) == 10


@pytest.mark.parametrize(
    ("behaviour", "outcome"),
    [
        (m.says("", tokens=(10, 0)), "empty"),
        (m.says(None, tokens=(10, 0)), "empty"),
        (m.says(None, tokens=(10, 3), refusal="I will not"), "refused"),
        (m.says("half", tokens=(10, 3), finish="content_filter"), "refused"),
        (m.says("half of", tokens=(10, 3), finish="length"), "cut_short"),
    ],
)
def test_what_the_model_itself_does_wrong_is_an_answer_and_charged(
    behaviour: m.Behaviour, outcome: str
) -> None:
    reply, asked, _ = asked_of(m.in_turn(behaviour))
    assert reply.answer is not None
    assert (outcomes(reply), len(asked)) == ([outcome], 1)
    assert reply.calls[0].prompt_tokens == 10


@pytest.mark.parametrize(
    ("status", "outcome"), [(400, "rejected"), (404, "rejected"), (401, "unauthorized")]
)
def test_a_request_that_is_refused_is_not_repeated(status: int, outcome: str) -> None:
    reply, asked, _ = asked_of(m.in_turn(m.sends(status, '{"error": {"message": "no such"}}')))
    assert (outcomes(reply), len(asked)) == ([outcome], 1)
    assert "no such" in reply.waits_for


def test_a_redirect_is_not_followed() -> None:
    with m.model_endpoint(m.in_turn(m.says("hello"))) as other:
        moved = m.sends(307, "", headers={"location": f"{other.url}/chat/completions"})
        reply, _, _ = asked_of(m.in_turn(moved))
        assert (outcomes(reply), other.asked) == (["redirected"], [])


def test_a_short_retry_after_is_waited_for() -> None:
    reply, asked, _ = asked_of(
        m.in_turn(m.sends(429, headers={"retry-after": "1"}), m.says("now")), longest_wait_s=2.0
    )
    assert reply.answer is not None
    assert asked[1].at - asked[0].at >= 1.0


@pytest.mark.parametrize(
    ("said", "least_s", "most_s"),
    [
        ("120", 100, 120),
        ("86400", 590, 600),
        ("-5", 0, 30),
        ("soon", 0, 30),
        ("9" * 400, 0, 30),
        ("DATE+200", 150, 200),
        ("Fri, 99 Foo 2026", 0, 30),
    ],
)
def test_a_long_retry_after_is_kept_to_beside_the_loop_and_capped(
    said: str, least_s: float, most_s: float
) -> None:
    value = formatdate(time.time() + 200, usegmt=True) if said == "DATE+200" else said
    reply, _, took_s = asked_of(m.in_turn(m.sends(429, headers={"retry-after": value})))
    assert least_s <= reply.retry_after_s <= most_s
    assert took_s < 2


def test_the_next_endpoint_is_asked_where_the_first_is_away(chats: list[Chat]) -> None:
    with (
        m.model_endpoint(m.in_turn(m.sends(500))) as first,
        m.model_endpoint(m.in_turn(m.says("second"))) as second,
    ):
        chat = Chat(options(first.url, second.url), no_secret)
        chats.append(chat)
        one, two = ask(chat), ask(chat)
        assert outcomes(one) == ["server_error"] * 3 + ["answered"]
        assert [call.endpoint for call in one.calls] == [first.url] * 3 + [second.url]
        assert outcomes(two) == ["answered"]  # the first one rests
        assert (len(first.asked), len(second.asked)) == (3, 2)


def test_an_endpoint_that_rests_is_not_asked_and_then_once(chats: list[Chat]) -> None:
    with m.model_endpoint(m.in_turn(m.sends(500))) as endpoint:
        chat = Chat(options(endpoint.url, first_rest_s=1.0, longest_rest_s=60.0), no_secret)
        chats.append(chat)
        assert len(ask(chat).calls) == 3
        resting = ask(chat)
        assert resting.calls == ()
        assert 0 < resting.retry_after_s <= 1.0
        assert "server_error, status 500; next try in" in resting.waits_for
        time.sleep(resting.retry_after_s + 0.05)
        half_open = ask(chat)
        assert len(half_open.calls) == 1
        assert 1.0 < half_open.retry_after_s <= 2.0  # twice as long
        endpoint.script = m.in_turn(m.says("back"))
        time.sleep(half_open.retry_after_s + 0.05)
        assert ask(chat).answer is not None
        endpoint.script = m.in_turn(m.sends(500))
        assert len(ask(chat).calls) == 3


def test_an_endpoint_where_nobody_listens_is_unreachable(chats: list[Chat]) -> None:
    with m.model_endpoint(m.in_turn(m.says("x"))) as endpoint:
        url = endpoint.url
    chat = Chat(options(url), no_secret)
    chats.append(chat)
    assert outcomes(ask(chat)) == ["unreachable"] * 3


class Noted(random.Random):
    """Keeps what it drew."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.drawn: list[float] = []

    def uniform(self, a: float, b: float) -> float:
        self.drawn.append(super().uniform(a, b))
        return self.drawn[-1]


def test_waits_are_the_same_for_the_same_seed_and_differ_for_another() -> None:
    def waits(seed: int) -> list[float]:
        with m.model_endpoint(m.in_turn(m.sends(500))) as endpoint:
            chat = Chat(options(endpoint.url), no_secret)
            rng = Noted(seed)
            chat.ask(QUESTION, version="v", rng=rng)
            chat.close()
        return rng.drawn

    assert waits(1) == waits(1) != waits(2)
    assert len(waits(1)) == 2


def test_closing_ends_a_request_under_way_at_once() -> None:
    with m.model_endpoint(m.in_turn(m.silent())) as endpoint:
        chat = Chat(options(endpoint.url, read_s=60.0, total_s=60.0), no_secret)
        threading.Timer(0.2, chat.close).start()
        started = time.monotonic()
        reply = ask(chat)
        assert outcomes(reply) == ["stopped"]
        assert time.monotonic() - started < 2
        assert outcomes(ask(chat)) == []
        chat.close()


def test_a_schema_is_sent_where_the_server_takes_one_and_left_out_where_not(
    chats: list[Chat],
) -> None:
    def script(asked: m.Asked) -> m.Behaviour:
        has_schema = "response_format" in asked.body
        return m.sends(400, '{"error": "response_format"}') if has_schema else m.says("plain")

    with m.model_endpoint(script) as endpoint:
        chat = Chat(options(endpoint.url), no_secret)
        chats.append(chat)
        schema = {"type": "object"}
        assert outcomes(ask(chat, schema=schema)) == ["rejected", "answered"]
        assert outcomes(ask(chat, schema=schema)) == ["answered"]
        endpoint.script = m.in_turn(m.says("x"))
    sent = endpoint.asked[0].body["response_format"]
    assert sent["json_schema"]["schema"] == {"type": "object"}


def test_a_key_is_sent_and_never_recorded_even_if_the_server_repeats_it(chats: list[Chat]) -> None:
    key = "sk-canary-123456"

    def script(asked: m.Asked) -> m.Behaviour:
        said = f"your key is {asked.headers['authorization']}"
        first = asked.number == 0
        return m.sends(500, f'{{"error": "{said}"}}') if first else m.says(said)

    with m.model_endpoint(script) as endpoint:
        given = {"url": endpoint.url, "model": "m", "secret": "ARL_SECRET_KEY"}
        chat = Chat(options(endpoints=[given]), lambda name: key)
        chats.append(chat)
        reply = ask(chat)
    assert endpoint.asked[0].headers["authorization"] == f"Bearer {key}"
    assert outcomes(reply) == ["server_error", "answered"]
    assert key not in repr(reply)
    assert "Bearer [secret]" in repr(reply)


@pytest.mark.parametrize("before", [0, 280, 295, 1990, 20_000])
def test_no_part_of_a_key_is_recorded_wherever_an_error_is_cut(
    chats: list[Chat], before: int
) -> None:
    key = 'sk-"canary"/0123456789+abcdef='
    said = json.dumps({"error": {"message": f"{'x' * before} wrong key {key}"}})
    with m.model_endpoint(lambda _: m.sends(401, said)) as endpoint:
        given = {"url": endpoint.url, "model": "m", "secret": "ARL_SECRET_KEY"}
        chat = Chat(options(endpoints=[given]), lambda name: key)
        chats.append(chat)
        reply = ask(chat)
    assert outcomes(reply) == ["unauthorized"]
    for part in ("canary", "sk-", "012345", "abcdef"):
        assert part not in repr(reply)


def test_what_no_database_takes_is_replaced(chats: list[Chat]) -> None:
    reply, _, _ = asked_of(m.in_turn(m.says("a\x00b\ud800c")))
    assert reply.answer is not None
    assert reply.answer.text == "a\ufffdb\ufffdc"


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"endpoints": []}, "endpoints"),
        ({"endpoints": [{"url": "ftp://x/v1", "model": "m"}]}, "endpoints.0.url"),
        ({"endpoints": [{"url": "http://u:p@x/v1", "model": "m"}]}, "endpoints.0.url"),
        ({"endpoints": [{"url": "http://x/v1?key=1", "model": "m"}]}, "endpoints.0.url"),
        ({"endpoints": [{"url": "http://[::1/v1", "model": "m"}]}, "endpoints.0.url"),
        (
            {"endpoints": [{"url": "http://x", "model": "m", "secret": "HOME"}]},
            "endpoints.0.secret",
        ),
        ({"endpoints": [{"url": "http://x", "model": "m", "key": "k"}]}, "endpoints.0.key"),
        (
            {"endpoints": [{"url": "http://x", "model": "m", "extra": {"stream": True}}]},
            "endpoints.0.extra",
        ),
        ({"tries": "3"}, "tries"),
        ({"tries": 0}, "tries"),
        ({"total_s": float("nan")}, "total_s"),
    ],
)
def test_options_that_cannot_work_are_named(change: dict[str, Any], where: str) -> None:
    given = {"endpoints": [{"url": "http://x/v1", "model": "m"}], **change}
    assert [found for found, _ in option_problems("llm", given)] == [where]


def test_an_endpoint_whose_key_is_not_set_is_named_and_not_asked(chats: list[Chat]) -> None:
    def read_secret(name: str) -> str:
        raise InvalidInput(f"secret {name!r}: ARL's environment has no such variable")

    with m.model_endpoint(m.in_turn(m.says("x"))) as endpoint:
        keyed = {"url": endpoint.url, "model": "m", "secret": "ARL_SECRET_X"}
        alone = Chat(ModelOptions.model_validate({"endpoints": [keyed]}), read_secret)
        plain = {"url": endpoint.url, "model": "plain"}
        both = Chat(ModelOptions.model_validate({"endpoints": [keyed, plain]}), read_secret)
        chats += (alone, both)
        reply = ask(alone)
        assert (reply.calls, reply.retry_after_s) == ((), 60)
        assert "secret 'ARL_SECRET_X': ARL's environment has no such variable" in reply.waits_for
        assert [call.model for call in ask(both).calls] == ["plain"]


def test_the_most_tokens_are_more_than_any_tokenizer_makes() -> None:
    assert most_tokens("0123456789") == 10
    assert most_tokens("word word") == 5
    assert most_tokens("\u4f60\u597d") == 6
    assert most_tokens("") == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "usage", "finish_reason", "error"])
            | st.text(),
            inner,
        )
    ),
    max_leaves=30,
)


@given(JSON, st.sampled_from([200, 204, 302, 400, 429, 500, 599]))
def test_whatever_json_a_server_sends_is_an_answer_or_none(document: object, status: int) -> None:
    http = HttpAnswer(
        status, {"content-type": "application/json"}, json.dumps(document).encode("utf-8")
    )
    try:
        outcome = read_answer(http, "prompt").outcome
    except NoAnswer as none:
        outcome = none.outcome
        is_answer = False
    else:
        is_answer = True
    assert (outcome in ANSWERS) is is_answer


@given(st.binary(), st.sampled_from(["application/json", "text/html", "", "application/x+json"]))
def test_whatever_bytes_a_server_sends_are_an_answer_or_none(body: bytes, kind: str) -> None:
    with pytest.raises(NoAnswer):
        read_answer(HttpAnswer(200, {"content-type": kind}, body), "prompt")


def test_an_endpoint_whose_address_is_not_let_through_is_never_connected_to(
    chats: list[Chat],
) -> None:
    policy = AddressPolicy(variable="ARL_MODELS_ALLOW_PRIVATE")
    with m.model_endpoint(m.in_turn(m.says("x"))) as endpoint:
        chat = Chat(options(endpoint.url), no_secret, lambda: GuardedTransport(policy))
        chats.append(chat)
        reply = ask(chat)
        assert endpoint.asked == []
    assert set(outcomes(reply)) == {"unreachable"}
    assert "ARL_MODELS_ALLOW_PRIVATE" in reply.waits_for
