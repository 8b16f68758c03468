"""A client of OpenAI-compatible chat servers: several in order, tried again within limits.

Every try is recorded. An endpoint whose tries all failed rests for a time that doubles, and is
then asked once before it is trusted again. An answer is charged once; what brought none is not.
"""

import json
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import httpx

from ledger.errors import InvalidInput
from ledger.redaction import without_secret, without_secret_among, without_secret_in
from ledger.search import ModelCall
from proposers.chat_answer import Answer, read_answer, storable
from proposers.chat_options import Endpoint, ModelOptions
from proposers.chat_outcomes import FINAL, NoAnswer, Outcome
from proposers.chat_request import Limits, Sender
from proposers.chat_tokens import Messages

LONGEST_RETRY_AFTER_S: Final = 600.0
"""A server that asks for more is asked again then."""
FINAL_REST_S: Final = 60.0
"""Of an endpoint that refuses: a person has to do something."""
RESPONSE_CHARS: Final = 200_000
ERROR_CHARS: Final = 2000

Schema: TypeAlias = Mapping[str, object]


@dataclass(slots=True)
class _Server:
    """An endpoint and how it has behaved."""

    endpoint: Endpoint
    key: str
    takes_schemas: bool = True
    failures: int = 0
    """Questions in a row that it did not answer."""
    rests_until: float = 0.0
    why: str = ""
    has_key: bool = True
    """Whether the key that it needs is set; `why` says which is not."""

    @property
    def address(self) -> str:
        url = self.endpoint.url
        return url if url.endswith("/chat/completions") else f"{url}/chat/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came of one question."""

    answer: Answer | None
    calls: tuple[ModelCall, ...]
    retry_after_s: float = 0.0
    """Without an answer: when the first endpoint may be asked again."""
    waits_for: str = ""


@dataclass(slots=True)
class _Question:
    messages: Messages
    version: str
    schema: Schema | None
    rng: random.Random
    calls: list[ModelCall] = field(default_factory=list)

    @property
    def as_json(self) -> str:
        return json.dumps(self.messages, ensure_ascii=False)


class Chat:
    """The endpoints of one study. One question at a time; `close` from any thread."""

    def __init__(
        self,
        options: ModelOptions,
        read_secret: Callable[[str], str],
        transport: Callable[[], httpx.BaseTransport] | None = None,
    ) -> None:
        self._options = options
        self._servers = [_server(endpoint, read_secret) for endpoint in options.endpoints]
        self._sender = Sender(
            Limits(
                connect_s=options.connect_s,
                read_s=options.read_s,
                write_s=options.write_s,
                total_s=options.total_s,
                answer_bytes=options.answer_bytes,
            ),
            transport,
        )
        self._closed = threading.Event()

    def ask(
        self,
        messages: Messages,
        *,
        version: str,
        rng: random.Random,
        schema: Schema | None = None,
    ) -> Reply:
        """The answer of the first endpoint that gives one.

        `schema` is asked for where a server takes it: read the answer as if it were not. Each
        wait is drawn from `rng`.
        """
        question = _Question(messages, version, schema, rng)
        for server in self._servers:
            if not server.has_key or time.monotonic() < server.rests_until:
                continue
            answer = self._ask(server, question)
            if answer is not None:
                return Reply(answer=answer, calls=tuple(question.calls))
        return self._none(question)

    def close(self) -> None:
        self._closed.set()
        self._sender.close()

    def _none(self, question: _Question) -> Reply:
        now = time.monotonic()
        rests = [server.rests_until for server in self._servers if server.has_key]
        wait_s = max(0.1, min(rests) - now) if rests else FINAL_REST_S
        said = "; ".join(f"{server.endpoint.url}: {server.why}" for server in self._servers)
        return Reply(
            answer=None,
            calls=tuple(question.calls),
            retry_after_s=wait_s,
            waits_for=f"no endpoint of proposer.options.endpoints answers: {said}; next try in "
            f"{wait_s:.0f} s",
        )

    def _ask(self, server: _Server, question: _Question) -> Answer | None:
        tries = self._options.tries if server.failures == 0 else 1
        failed: NoAnswer | None = None
        for number in range(1, tries + 1):
            try:
                answer = self._try(server, question)
            except NoAnswer as none:
                failed = none
                if (
                    none.outcome in FINAL
                    or number == tries
                    or not self._wait(none, number, question)
                ):
                    break
            else:
                server.failures, server.why = 0, ""
                return answer
        if failed is not None:
            self._rest(server, failed)
        return None

    def _rest(self, server: _Server, failed: NoAnswer) -> None:
        options = self._options
        server.failures += 1
        rest_s = min(
            options.first_rest_s * 2 ** min(server.failures - 1, 16), options.longest_rest_s
        )
        if failed.outcome in FINAL:
            rest_s = max(rest_s, min(FINAL_REST_S, options.longest_rest_s))
        rest_s = max(rest_s, min(failed.retry_after_s or 0.0, LONGEST_RETRY_AFTER_S))
        server.rests_until = time.monotonic() + rest_s
        server.why = f"{failed.outcome}, {failed.detail}"

    def _wait(self, failed: NoAnswer, number: int, question: _Question) -> bool:
        """Wait before the next try; False when it is not worth it."""
        options = self._options
        longest_s = min(options.first_wait_s * 2 ** (number - 1), options.longest_wait_s)
        wait_s = longest_s * question.rng.uniform(0.5, 1.0)
        if failed.retry_after_s is not None:
            if failed.retry_after_s > options.longest_wait_s:
                return False
            wait_s = max(wait_s, failed.retry_after_s)
        return not self._closed.wait(wait_s)

    def _try(self, server: _Server, question: _Question) -> Answer:
        """One request, and a second one at once where a server does not take schemas."""
        schema = question.schema if server.takes_schemas else None
        try:
            return self._request(server, question, schema)
        except NoAnswer as none:
            if schema is None or none.outcome is not Outcome.REJECTED:
                raise
        answer = self._request(server, question, None)
        server.takes_schemas = False
        return answer

    def _request(self, server: _Server, question: _Question, schema: Schema | None) -> Answer:
        headers = {"content-type": "application/json", "accept": "application/json"}
        if server.key:
            headers["authorization"] = f"Bearer {server.key}"
        body = json.dumps(self._document(server.endpoint, question, schema)).encode()
        started = time.monotonic()
        try:
            http = self._sender.post(server.address, headers, body)
            http = replace(
                http,
                headers=without_secret_among(http.headers, server.key),
                body=without_secret_in(http.body, server.key),
            )
            answer = read_answer(http, question.as_json)
            answer = replace(answer, text=without_secret(answer.text, server.key))
        except NoAnswer as none:
            detail = without_secret(none.detail, server.key)
            found = NoAnswer(none.outcome, detail, retry_after_s=none.retry_after_s)
            response = without_secret(none.body, server.key)[:ERROR_CHARS] or None
            self._record(server, question, none.outcome, response, started)
            raise found from None
        self._record(server, question, answer.outcome, answer.text, started, answer)
        return answer

    def _document(
        self, endpoint: Endpoint, question: _Question, schema: Schema | None
    ) -> dict[str, object]:
        document: dict[str, object] = {
            **endpoint.extra,
            "model": endpoint.model,
            "messages": question.messages,
            endpoint.token_field: self._options.max_tokens,
            "stream": False,
        }
        if self._options.temperature is not None:
            document["temperature"] = self._options.temperature
        if schema is not None:
            document["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "proposals", "schema": schema},
            }
        return document

    def _record(
        self,
        server: _Server,
        question: _Question,
        outcome: Outcome,
        response: str | None,
        started: float,
        answer: Answer | None = None,
    ) -> None:
        asked = 0 if answer is None else answer.prompt_tokens
        made = 0 if answer is None else answer.completion_tokens
        said = None if response is None else storable(response)
        question.calls.append(
            ModelCall(
                model=server.endpoint.model,
                endpoint=server.endpoint.url,
                prompt_version=question.version,
                request=storable(question.as_json),
                response=None if said is None else said[:RESPONSE_CHARS],
                outcome=outcome,
                prompt_tokens=asked,
                completion_tokens=made,
                cost_usd=cost_usd(server.endpoint, asked, made),
                latency_s=time.monotonic() - started,
            )
        )


def _server(endpoint: Endpoint, read_secret: Callable[[str], str]) -> _Server:
    """An endpoint whose key is not set is none that can be asked: the study says so and waits."""
    if endpoint.secret is None:
        return _Server(endpoint, "")
    try:
        return _Server(endpoint, read_secret(endpoint.secret))
    except InvalidInput as error:
        return _Server(endpoint, "", why=str(error), has_key=False)


def cost_usd(endpoint: Endpoint, prompt_tokens: float, completion_tokens: float) -> float:
    price = endpoint.price
    return (
        prompt_tokens * price.prompt_usd_per_million
        + completion_tokens * price.completion_usd_per_million
    ) / 1e6
