"""Signed requests to a job service, repeated while it flaps, and given up when it is away.

Every operation of the protocol is idempotent, so whatever was cut off is simply asked again.
Nothing counts as an answer unless it carries the service's signature: an error page of a proxy,
a redirect, half a document or an intruder's word are all the same failure of this one try.
"""

import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, ValidationError

from ledger.errors import (
    ArlError,
    Conflict,
    InvalidInput,
    NotFound,
    StaleFence,
    TargetUnavailable,
)
from targets.http_job import signing
from targets.http_job.circuit import Circuit, retry_after_s
from targets.http_job.documents import Problem
from targets.layout import one_line
from targets.outbound import AddressRefused, Answer, Outbound, Unanswered

T = TypeVar("T", bound=BaseModel)

JSON_BYTES: Final = 8 * 1024 * 1024
"""Of an answer's document, at most."""
_JSON: Final = "application/json"
_BYTES: Final = "application/octet-stream"
_HELD_TRIES: Final = 3
"""How often a request that the service may hold back can come to nothing within one call."""
_RENEWALS: Final = 3
"""How often one call follows a service that names another session or another time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a call tries before the service counts as away, in seconds."""

    try_s: float = 6.0
    """One request, to the last byte of its answer."""
    call_s: float = 20.0
    """A call with all its tries."""
    first_wait_s: float = 0.05
    longest_wait_s: float = 5.0
    """Between two tries; a Retry-After may say as much as this."""
    longest_rest_s: float = 15.0
    """After calls that failed, others fail at once for a time that doubles up to this."""
    late_s: float = 300.0
    """An attempt that its service keeps running for so long past its deadline is given up."""


class InputsMissing(ArlError):
    """The service lacks files of an attempt's inputs."""

    code = "inputs_missing"

    def __init__(self, missing: list[str]) -> None:
        super().__init__(f"the job service lacks {len(missing)} files")
        self.missing = missing


class _Sent:
    """A request before it is signed."""

    def __init__(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None,
        content: BaseModel | bytes,
    ) -> None:
        self.method = method
        given = {name: value for name, value in (query or {}).items() if value != ""}
        self.target = f"{path}?{urlencode(given)}" if given else path
        if isinstance(content, BaseModel):
            self.body, self.content_type = content.model_dump_json().encode(), _JSON
        else:
            self.body, self.content_type = content, _BYTES


class _Failed(Exception):
    """One try brought no answer; `wait_s` is what the service asked to wait."""

    def __init__(self, why: str, wait_s: float | None = None) -> None:
        super().__init__(why)
        self.wait_s = wait_s


class _Renewed(Exception):
    """The service named another session or time: sign anew."""


class JobClient:
    """One service. Thread-safe."""

    def __init__(
        self, url: str, key: bytes, outbound: Outbound, patience: Patience | None = None
    ) -> None:
        self.url = url.rstrip("/")
        self._key = key
        self._outbound = outbound
        self._patience = patience or Patience()
        self._circuit = Circuit(self._patience.longest_rest_s)
        self._stopped = threading.Event()
        self._session = ""
        self._ahead_s = 0.0

    def ask(
        self,
        method: str,
        path: str,
        expected: type[T],
        *,
        query: Mapping[str, object] | None = None,
        content: BaseModel | bytes = b"",
        wait_s: float = 0.0,
    ) -> T:
        """The document that the service answers.

        `wait_s` is how long it was asked to hold the answer back, on top of a try's time.

        Raises:
            TargetUnavailable: it is away, or breaks the protocol.
            NotFound, Conflict, StaleFence, InvalidInput, InputsMissing: it says so.
        """
        sent = _Sent(method, path, query, content)
        answer = self._call(sent, JSON_BYTES, wait_s)
        if answer.content_type != _JSON:
            raise self.broken(f"{path} gave {answer.content_type!r} instead of {_JSON}")
        try:
            return expected.model_validate_json(answer.body)
        except ValidationError as error:
            raise self.broken(f"{path}: {_first(error)}") from error

    def fetch(
        self, path: str, query: Mapping[str, object], *, limit: int, wait_s: float = 0.0
    ) -> Answer:
        """Bytes, at most `limit`, and their signed headers. Raises as `ask`."""
        sent = _Sent("GET", path, query, b"")
        answer = self._call(sent, max(limit, 64 * 1024), wait_s)
        if answer.content_type != _BYTES:
            raise self.broken(f"{path} gave {answer.content_type!r} instead of {_BYTES}")
        if len(answer.body) > limit:
            raise self.broken(f"{path} gave {len(answer.body)} bytes, more than {limit}")
        return answer

    def service_time(self) -> float:
        """Seconds since 1970 by the service's clock, as far as it is known."""
        return time.time() + self._ahead_s

    def broken(self, what: str) -> TargetUnavailable:
        """The service answered, and signed, what the protocol does not know."""
        return TargetUnavailable(
            f"the job service {self.url} breaks the protocol: {one_line(what)}"
        )

    def stop(self) -> None:
        """Whoever waits for an answer gets an error now, and nothing is asked any more."""
        self._stopped.set()
        self._outbound.abort()

    def close(self) -> None:
        self.stop()
        self._outbound.close()

    def _call(self, sent: "_Sent", max_bytes: int, wait_s: float) -> Answer:
        self._circuit.check(self.url)
        until = time.monotonic() + self._patience.call_s + _HELD_TRIES * wait_s
        pause_s = self._patience.first_wait_s
        while True:
            left_s = until - time.monotonic()
            try:
                answer = self._renewing(
                    sent, min(self._patience.try_s + wait_s, max(left_s, 0.05)), max_bytes
                )
            except _Failed as failed:
                why, asked_s = str(failed), failed.wait_s
            else:
                self._circuit.closed()
                return answer
            chosen_s = random.uniform(pause_s / 2, pause_s)
            if asked_s is not None:
                chosen_s = min(max(asked_s, chosen_s), self._patience.longest_wait_s)
            if self._stopped.is_set():
                raise TargetUnavailable(f"the job service {self.url} is not asked any more")
            if time.monotonic() + chosen_s >= until:
                self._circuit.opened(why)
                raise TargetUnavailable(f"the job service {self.url} is away: {why}")
            self._stopped.wait(chosen_s)
            pause_s = min(pause_s * 2, self._patience.longest_wait_s)

    def _renewing(self, sent: "_Sent", try_s: float, max_bytes: int) -> Answer:
        """One try, signed anew when the service names another session or time."""
        for _ in range(_RENEWALS):
            try:
                return self._try(sent, try_s, max_bytes)
            except _Renewed:
                continue
        raise _Failed("it names another session or time with every answer")

    def _try(self, sent: "_Sent", try_s: float, max_bytes: int) -> Answer:
        nonce = signing.new_nonce()
        headers = {
            signing.TIME: f"{self.service_time():.3f}",
            signing.NONCE: nonce,
            signing.SESSION: self._session,
        }
        headers[signing.SIGNATURE] = signing.request_signature(
            self._key, sent.method, sent.target, sent.body, headers
        )
        headers["content-type"] = sent.content_type
        try:
            answer = self._outbound.request(
                sent.method,
                f"{self.url}{sent.target}",
                timeout_s=try_s,
                max_bytes=max_bytes,
                body_s=self._patience.try_s if max_bytes == JSON_BYTES else None,
                content=sent.body,
                headers=headers,
            )
        except Unanswered as error:
            raise _Failed(one_line(str(error))) from error
        except AddressRefused as error:
            raise TargetUnavailable(f"the job service {self.url}: {error}") from error
        self._check_signed(answer, nonce)
        if answer.status >= 400:
            self._judge(answer)
        if answer.status != 200:
            raise self.broken(f"status {answer.status}")
        return answer

    def _check_signed(self, answer: Answer, nonce: str) -> None:
        expected = signing.answer_signature(
            self._key, nonce, answer.status, answer.body, answer.headers
        )
        if signing.is_same(answer.headers.get(signing.SIGNATURE, ""), expected):
            return
        why = f"status {answer.status}, {answer.content_type or 'no type'}, not signed"
        if answer.status in (401, 403):
            why += "; is the secret the same on both sides?"
        raise _Failed(why, retry_after_s(answer.headers))

    def _judge(self, answer: Answer) -> None:
        """A signed refusal as an error of ours."""
        try:
            problem = Problem.model_validate_json(answer.body)
        except ValidationError as error:
            raise self.broken(f"status {answer.status}: {_first(error)}") from error
        detail = one_line(problem.detail)
        if problem.code in ("session", "clock"):
            if problem.session is not None:
                self._session = problem.session
            if problem.time is not None:
                self._ahead_s = problem.time - time.time()
            raise _Renewed
        if problem.code == "inputs_missing":
            raise InputsMissing(problem.missing)
        kind = _ERRORS.get(problem.code)
        if kind is not None:
            raise kind(detail)
        if answer.status == 429 or answer.status >= 500:
            raise _Failed(f"{problem.code}: {detail}", retry_after_s(answer.headers))
        raise self.broken(f"status {answer.status}, code {problem.code!r}: {detail}")


_ERRORS: Final[Mapping[str, type[ArlError]]] = {
    "not_found": NotFound,
    "other_body": Conflict,
    "still_running": Conflict,
    "late": StaleFence,
    "invalid_input": InvalidInput,
    "too_large": InvalidInput,
    "unsupported": InvalidInput,
}


def _first(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in found['loc'])}: {found['msg']}"
