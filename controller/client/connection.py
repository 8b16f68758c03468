"""Requests to a server: retried where that is safe, their refusals as ARL's own errors."""

import random
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Final
from urllib.parse import quote

import httpx

from controller.settings import server_address, server_token
from ledger import errors as er

TRIES: Final = 5
READING_S: Final = 600.0
"""For an answer before which the server reads every byte of a model."""
FIRST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 5.0
AGAIN: Final = frozenset({429, 502, 503, 504})
"""Statuses of an answer that another try may not get."""
_ERRORS: Final[Mapping[str, type[er.ArlError]]] = {
    kind.code: kind
    for kind in (
        er.NotFound,
        er.InvalidInput,
        er.Conflict,
        er.StaleFence,
        er.StudyBusy,
        er.BudgetExceeded,
        er.UnknownName,
        er.BundleChanged,
        er.ArtifactCorrupt,
        er.DiskFull,
        er.LedgerUnavailable,
        er.TargetUnavailable,
        er.ProposerFailed,
    )
}


class Unauthorized(er.InvalidInput):
    """The server does not know the token, or the token may not do this."""

    code = "unauthorized"


class ServerUnavailable(er.LedgerUnavailable):
    """The server does not answer."""

    code = "server_unavailable"


class Connection:
    """One server. Thread-safe. Paths are as they are read: a name in one may have any character
    but a slash."""

    def __init__(self, server: str | None, token: str | None, *, timeout_s: float) -> None:
        """Raises InvalidInput: no server is named, or what is named is no address."""
        address = server or server_address()
        if not address:
            raise er.InvalidInput("no server: write --server http://HOST:8420, or set ARL_SERVER")
        self.server = _checked(address)
        secret = token or server_token()
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        self._http = httpx.Client(
            base_url=f"{self.server}/api/v1",
            headers={"Accept": "application/json", **headers},
            timeout=httpx.Timeout(timeout_s, connect=10.0),
            follow_redirects=False,
            limits=httpx.Limits(max_connections=64),
        )

    def close(self) -> None:
        self._http.close()

    def get(
        self, path: str, params: Mapping[str, Any] | None = None, *, is_slow: bool = False
    ) -> Any:
        """The document; one that is slow is waited for longer. Raises what `problem` makes of a
        refusal, and ServerUnavailable."""
        return self._sent("GET", path, params=_given(params), **_patience(is_slow=is_slow)).json()

    def text(self, path: str, params: Mapping[str, Any] | None = None) -> str:
        return self._sent("GET", path, params=_given(params)).text

    def content(self, path: str, headers: Mapping[str, str]) -> bytes:
        return self._sent("GET", path, headers=headers).content

    def post(
        self,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        is_repeatable: bool = False,
        is_slow: bool = False,
    ) -> httpx.Response:
        """A request that is made once, however often a lost answer makes it be sent; one that is
        `is_repeatable` comes to the same without a key, and one that `is_slow` is waited for
        longer."""
        keyed = {} if is_repeatable else {"Idempotency-Key": key or uuid.uuid4().hex}
        sent = {"params": _given(params), "headers": {**keyed, **(headers or {})}}
        return self._sent("POST", path, json=body, **sent, **_patience(is_slow=is_slow))

    def patch(self, path: str, body: Any, *, params: Mapping[str, Any]) -> httpx.Response:
        """The same: `+20` is not added twice."""
        given = {"Idempotency-Key": uuid.uuid4().hex}
        return self._sent("PATCH", path, json=body, params=_given(params), headers=given)

    def send(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Any other request that is safe to repeat."""
        return self._sent(method, path, **request)

    def stream(self, path: str, params: Mapping[str, Any], headers: Mapping[str, str]) -> Any:
        """A response whose body comes piece by piece, to be used in a `with`."""
        timeout = httpx.Timeout(60.0, connect=10.0)
        return self._http.stream(
            "GET", _quoted(path), params=params, headers=headers, timeout=timeout
        )

    def lines(self, path: str, params: Mapping[str, Any]) -> Iterator[str]:
        """Of an answer that comes line by line, as long as it takes. Raises what `problem` makes
        of a refusal, and ServerUnavailable."""
        with self._piecewise(path, params) as answer:
            yield from answer.iter_lines()

    def save(self, path: str, params: Mapping[str, Any], file: IO[bytes]) -> Mapping[str, str]:
        """Write a file that the server makes, as long as that takes, into one of ours; the
        answer's headers. Raises what `problem` makes of a refusal, and ServerUnavailable: what
        came until then is in the file."""
        with self._piecewise(path, params) as answer:
            for piece in answer.iter_bytes():
                file.write(piece)
            return answer.headers

    @contextmanager
    def _piecewise(self, path: str, params: Mapping[str, Any]) -> Iterator[httpx.Response]:
        timeout = httpx.Timeout(None, connect=10.0)
        try:
            with self._http.stream("GET", _quoted(path), params=params, timeout=timeout) as answer:
                if not answer.is_success:
                    answer.read()
                    raise problem(answer)
                yield answer
        except httpx.TransportError as error:
            raise ServerUnavailable(f"{self.server}: {error}") from error

    def _sent(self, method: str, path: str, **request: Any) -> httpx.Response:
        pause_s = FIRST_PAUSE_S
        for tries_left in reversed(range(TRIES)):
            try:
                answer = self._http.request(method, _quoted(path), **request)
            except httpx.TransportError as error:
                if not tries_left:
                    raise ServerUnavailable(
                        f"{self.server} does not answer: {error}; is `arl serve` running there?"
                    ) from error
            else:
                if answer.status_code not in AGAIN or not tries_left:
                    return self._checked_answer(answer)
                pause_s = max(pause_s, _asked_pause_s(answer))
            time.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        raise AssertionError("the last try returns or raises")

    def _checked_answer(self, answer: httpx.Response) -> httpx.Response:
        if answer.is_success or answer.request.method == "HEAD":
            return answer
        raise problem(answer)


def problem(answer: httpx.Response) -> er.ArlError:
    """A refusal as the error that an embedded ARL would have raised."""
    try:
        document = answer.json()
        code, detail = str(document["code"]), str(document["detail"])
    except (ValueError, KeyError, TypeError):
        where = f"{answer.request.method} {answer.request.url.path}"
        return ServerUnavailable(
            f"{where}: status {answer.status_code}, and no answer of an ARL server"
        )
    if answer.status_code in (401, 403):
        return Unauthorized(f"{detail} (give one with --token or ARL_TOKEN)")
    if answer.status_code == 413:
        return er.InvalidInput(detail)
    return _ERRORS.get(code, er.LedgerUnavailable)(detail)


def problem_of_stream(answer: httpx.Response) -> er.ArlError:
    """The same where nobody tried again yet: ServerUnavailable if that may help."""
    refusal = problem(answer)
    return ServerUnavailable(str(refusal)) if answer.status_code in AGAIN else refusal


def _checked(address: str) -> str:
    url = httpx.URL(address) if "://" in address else httpx.URL(f"http://{address}")
    if url.scheme not in ("http", "https") or not url.host or url.query or url.userinfo:
        hides = url.query or url.userinfo  # a key may: it is not repeated
        written = "" if hides else f" {address!r}"
        raise er.InvalidInput(f"server{written}: write http://HOST:PORT or https://HOST")
    return str(url).rstrip("/")


def _quoted(path: str) -> str:
    """Words in a path are names that users wrote: none is a query, a fragment, or a step up."""
    words = path.split("/")
    return "/".join("%2E" * len(w) if w in (".", "..") else quote(w, safe="") for w in words)


def _asked_pause_s(answer: httpx.Response) -> float:
    asked = answer.headers.get("retry-after", "")
    return min(float(asked), 60.0) if asked.isdecimal() else 0.0


def _patience(*, is_slow: bool) -> dict[str, httpx.Timeout]:
    return {"timeout": httpx.Timeout(READING_S, connect=10.0)} if is_slow else {}


def _given(params: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (params or {}).items() if value is not None}
