"""HTTP to a rollout server, vLLM's, that notices when it is gone or stands still."""

import http.client
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Final

from inner_trials.failures import ActorsLost
from inner_trials.settings import SettingsError

BEAT_S: Final = 1.0
"""How often a server that is at work is asked whether it is well."""
_GONE: Final = (OSError, http.client.HTTPException)
_HOW: Final = (
    "start it with --enable-lora, --max-lora-rank of at least lora_r and, in its environment,"
    " VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"
)


class Server:
    """HTTP that notices within `patience_s` when nobody is there any more, or all stands still."""

    def __init__(self, url: str, *, patience_s: float) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self._patience_s = patience_s

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> str:
        """The answer to a POST, or to a GET without a body, however long the server works on it.

        Raises:
            ActorsLost: it is gone, or its /health has not been well for `patience_s`.
            SettingsError: it is well, and refuses this.
        """
        answers: list[str | Exception] = []

        def work() -> None:
            try:
                answers.append(self._request(path, body, timeout_s=None))
            except _GONE as error:
                answers.append(error)

        worker = threading.Thread(target=work, daemon=True)
        worker.start()

        def is_done(seconds: float) -> bool:
            worker.join(seconds)
            return not worker.is_alive()

        self.wait_for(is_done)
        answer = answers[0]
        if isinstance(answer, Exception):
            raise self._typed(path, answer)
        return answer

    def post(self, path: str, body: Mapping[str, Any]) -> str:
        """The same of a POST, for a thread that may hang: someone else has to `wait_for` it."""
        try:
            return self._request(path, body, timeout_s=None)
        except _GONE as error:
            raise self._typed(path, error) from None

    def wait_for(self, is_done: Callable[[float], bool]) -> None:
        """Wait until `is_done(seconds)`, which takes so long at most, is true.

        Raises:
            ActorsLost: the server's /health has not been well for `patience_s`.
        """
        well = time.monotonic()
        while not is_done(BEAT_S):
            problem = self._problem()
            if not problem:
                well = time.monotonic()
            elif time.monotonic() - well > self._patience_s:
                raise self._lost(f"for {self._patience_s:g} s: {problem}")

    def version(self) -> str | None:
        """Of vLLM, as it says itself; None where it does not say. Raises ActorsLost."""
        try:
            found = json.loads(self.ask("/version"))["version"]
        except (SettingsError, ValueError, KeyError, TypeError):
            return None
        return str(found)

    def is_well(self) -> bool:
        return not self._problem()

    def wait_until_well(self) -> None:
        """Raises ActorsLost: not within `patience_s`."""
        until = time.monotonic() + self._patience_s
        while problem := self._problem():
            if time.monotonic() > until:
                raise self._lost(problem)
            time.sleep(BEAT_S / 4)

    def _problem(self) -> str:
        try:
            self._request("/health", None, timeout_s=max(BEAT_S, self._patience_s / 3))
        except _GONE as error:
            return _words(error)
        return ""

    def _typed(self, path: str, error: Exception) -> Exception:
        if not isinstance(error, urllib.error.HTTPError):
            return self._lost(_words(error))
        said = error.read(2000).decode(errors="replace")
        if problem := self._problem():
            return self._lost(problem)
        return SettingsError(
            f"options.vllm_server: {self.url}{path} answers {error.code}"
            f" {' '.join(said.split())[:300]}; {_HOW}"
        )

    def _lost(self, words: str) -> ActorsLost:
        return ActorsLost(f"the rollout server {self.url} is lost: {words}")

    def _request(
        self, path: str, body: Mapping[str, Any] | None, *, timeout_s: float | None
    ) -> str:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers)
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            text: str = answer.read().decode(errors="replace")
            return text


def _words(error: Exception) -> str:
    return f"{type(error).__name__} {error}".strip()
