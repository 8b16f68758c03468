"""vLLM's HTTP interface as far as it is needed; every answer is bounded and checked."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from controller.serving.faults import EndpointRefuses, EndpointUnavailable
from ledger.errors import InvalidInput
from ledger.records import Json
from ledger.redaction import without_secret, without_secret_among, without_secret_in
from targets.outbound import Answer, Outbound, Unanswered

HEALTH_S: Final = 5.0
LIST_S: Final = 20.0
LOAD_S: Final = 120.0
SMALL_BYTES: Final = 64 * 1024
LIST_BYTES: Final = 4 * 1024 * 1024
TOKEN_BYTES: Final = 64
"""More than any token's text is, escaped."""
_MODELS: Final = 10_000
_HOW: Final = (
    "start the server with --enable-lora, a --max-lora-rank of at least the adapter's, and "
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True (`arl serve-model NAME --form adapter` prints all)"
)


@dataclass(frozen=True, slots=True)
class Listed:
    """A model that a server answers for."""

    name: str
    root: str
    """The directory or repository it was loaded from."""
    is_adapter: bool


@dataclass(frozen=True, slots=True)
class Completion:
    texts: tuple[tuple[str, bool], ...]
    """Each with whether the model ended it itself."""
    tokens: int
    """Of all of them, as the server counts."""


class Endpoint:
    """One server. Thread-safe.

    Every method raises EndpointUnavailable where there is no usable answer in time, and
    AddressRefused or InvalidInput for an address that may not be asked.
    """

    def __init__(self, url: str, outbound: Outbound, key: str | None) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self._outbound = outbound
        self._key = key
        self._headers = {"content-type": "application/json"}
        if key is not None:
            self._headers["authorization"] = f"Bearer {key}"

    def is_well(self) -> bool:
        try:
            return self._ask("GET", "/health", timeout_s=HEALTH_S).status == 200
        except EndpointUnavailable:
            return False

    def models(self) -> dict[str, Listed]:
        """By name."""
        answer = self._ask("GET", "/v1/models", timeout_s=LIST_S, max_bytes=LIST_BYTES)
        if answer.status != 200:
            raise self._refused("GET", "/v1/models", answer)
        data = self._object(answer, "/v1/models").get("data")
        if not isinstance(data, list) or len(data) > _MODELS:
            raise self._odd("/v1/models", "lists no models")
        found = {}
        for card in data:
            if not isinstance(card, Mapping) or not isinstance(card.get("id"), str):
                raise self._odd("/v1/models", "lists a model without an id")
            root = card.get("root")
            found[card["id"]] = Listed(
                name=card["id"],
                root=root if isinstance(root, str) else "",
                is_adapter=card.get("parent") is not None,
            )
        return found

    def load(self, name: str, path: str) -> None:
        """Have the server load an adapter under a name, in the place of any other of that name
        and without a moment in which it has none. It is checked that the server then has it.

        Raises EndpointRefuses, with what the server says.
        """
        where = "/v1/load_lora_adapter"
        body: dict[str, Json] = {"lora_name": name, "lora_path": path, "load_inplace": True}
        answer = self._ask("POST", where, body, timeout_s=LOAD_S)
        if answer.status != 200:
            raise self._refused("POST", where, answer, how=_HOW)
        listed = self.models().get(name)
        if listed is None or listed.root != path:
            said = "has none of that name" if listed is None else f"says it is {listed.root[:200]}"
            raise self._odd(where, f"answered 200, but the server {said} and not {path}")

    def unload(self, name: str) -> None:
        """One that is not there is fine. Raises EndpointRefuses."""
        where = "/v1/unload_lora_adapter"
        answer = self._ask("POST", where, {"lora_name": name}, timeout_s=LOAD_S)
        if answer.status != 200 and name in self.models():
            raise self._refused("POST", where, answer)

    def complete(
        self, model: str, prompt: str, settings: Mapping[str, Json], *, timeout_s: float
    ) -> Completion:
        """The server's answers to one prompt, as many as the settings' `n`.

        Raises EndpointRefuses.
        """
        count, most = settings["n"], settings["max_tokens"]
        if not isinstance(count, int) or not isinstance(most, int):
            raise InvalidInput("n and max_tokens are whole numbers")
        where = "/v1/completions"
        answer = self._ask(
            "POST",
            where,
            {**settings, "model": model, "prompt": prompt, "stream": False},
            timeout_s=timeout_s,
            max_bytes=SMALL_BYTES + count * most * TOKEN_BYTES,
        )
        if answer.status != 200:
            raise self._refused("POST", where, answer)
        document = self._object(answer, where)
        usage = document.get("usage")
        tokens = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
        if type(tokens) is not int or not 0 <= tokens <= count * most:
            raise self._odd(where, f"counts {_clipped(tokens)} tokens")
        return Completion(texts=self._texts(document, where, count), tokens=tokens)

    def abort(self) -> None:
        """Cut what is under way, for good."""
        self._outbound.abort()

    def close(self) -> None:
        self._outbound.close()

    def _texts(
        self, document: Mapping[str, Json], where: str, count: int
    ) -> tuple[tuple[str, bool], ...]:
        choices = document.get("choices")
        if not isinstance(choices, list) or len(choices) != count:
            raise self._odd(where, f"has not the {count} choices that were asked for")
        texts: dict[int, tuple[str, bool]] = {}
        for choice in choices:
            if not isinstance(choice, Mapping):
                raise self._odd(where, "has a choice that is no object")
            text, place = choice.get("text"), choice.get("index")
            if not isinstance(text, str) or type(place) is not int:
                raise self._odd(where, "has a choice without text and index")
            # Half a character of a pair could be neither stored nor scored.
            whole = text.encode("utf-8", "replace").decode("utf-8")
            texts[place] = (whole, choice.get("finish_reason") == "stop")
        if sorted(texts) != list(range(count)):
            raise self._odd(where, "numbers its choices otherwise than from 0")
        return tuple(texts[place] for place in range(count))

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Json] | None = None,
        *,
        timeout_s: float,
        max_bytes: int = SMALL_BYTES,
    ) -> Answer:
        try:
            answer = self._outbound.request(
                method,
                self.url + path,
                timeout_s=timeout_s,
                max_bytes=max_bytes,
                content=b"" if body is None else json.dumps(body).encode(),
                headers=self._headers,
            )
        except Unanswered as error:
            raise EndpointUnavailable(without_secret(str(error), self._key)) from error
        # What it says is kept: its errors in the ledger, its texts in the store.
        return replace(
            answer,
            headers=without_secret_among(answer.headers, self._key),
            body=without_secret_in(answer.body, self._key),
        )

    def _object(self, answer: Answer, where: str) -> Mapping[str, Json]:
        try:
            document = json.loads(answer.body.decode("utf-8"))
        except (ValueError, RecursionError):
            kind = answer.content_type or "no type"
            raise self._odd(where, f"is not JSON but {_clipped(kind)}") from None
        if not isinstance(document, dict):
            raise self._odd(where, "is not a JSON object")
        return document

    def _odd(self, where: str, problem: str) -> EndpointUnavailable:
        return EndpointUnavailable(f"{self.url}{where}: the answer {problem}; is this vLLM?")

    def _refused(self, method: str, where: str, answer: Answer, how: str = "") -> EndpointRefuses:
        said = _reason(answer.body)
        told = f"{method} {self.url}{where} answers {answer.status}"
        return EndpointRefuses(told + (f" ({said})" if said else "") + (f"; {how}" if how else ""))


def _reason(body: bytes) -> str:
    """What the server says of an error, from its JSON or as it stands."""
    try:
        document = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return ""
    error = document.get("error", document) if isinstance(document, dict) else None
    said = error.get("message") if isinstance(error, dict) else None
    return _clipped(said) if isinstance(said, str) else ""


def _clipped(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 200 else f"{text[:199]}…"
