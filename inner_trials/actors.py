"""Completions from vLLM's OpenAI-compatible server, which is sent the adapter as it changes.

Each version of the adapter has a name of its own on the server: what answers is never older than
what was asked, and no cached prompt belongs to other weights. The server has to see the files.
"""

import http.client
import json
import os
import secrets
import shutil
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from inner_trials.contract import EXIT_ACTORS_LOST
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
        well = time.monotonic()
        worker.join(BEAT_S)
        while worker.is_alive():
            problem = self._problem()
            if not problem:
                well = time.monotonic()
            elif time.monotonic() - well > self._patience_s:
                raise self._lost(f"for {self._patience_s:g} s: {problem}")
            worker.join(BEAT_S)
        answer = answers[0]
        if isinstance(answer, urllib.error.HTTPError):
            raise self._refused(path, answer)
        if isinstance(answer, Exception):
            raise self._lost(_words(answer))
        return answer

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

    def _refused(self, path: str, error: urllib.error.HTTPError) -> Exception:
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


class AdapterActors:
    """In the place of TRL's VLLMGeneration, which sends whole weights from GPU to GPU.

    `sampling` are the server's own fields of a request: max_tokens, temperature, top_p ….
    """

    def __init__(
        self, server: Server, folder: Path, sampling: Mapping[str, Any], *, row_tokens: int
    ) -> None:
        """Raises ActorsLost, or SettingsError: the server takes no rows of `row_tokens`."""
        self._server, self._folder, self._sampling = server, folder, sampling
        self._run = f"arl-{secrets.token_hex(6)}"
        self._name = ""
        self._trainer: Any = None
        self.version = -1
        """Updates that the weights behind the next completions have seen."""
        self.sync_s = 0.0
        """What bringing them there took, the last time."""
        server.wait_until_well()
        self._check_length(row_tokens)

    def _check_length(self, row_tokens: int) -> None:
        said = self._server.ask("/v1/models")
        try:
            longest = json.loads(said)["data"][0].get("max_model_len")
        except (ValueError, LookupError, TypeError, AttributeError):
            raise SettingsError(
                f"options.vllm_server: {self._server.url}/v1/models does not answer as vLLM does:"
                f" {said[:80]!r}; name the address of vllm serve"
            ) from None
        if longest is not None and longest < row_tokens:
            raise SettingsError(
                f"options.vllm_server: {self._server.url} serves {longest} tokens at most and"
                f" max_length is {row_tokens}; start it with --max-model-len {row_tokens}"
            )

    def attach(self, trainer: Any) -> None:
        """Sample for that trainer, whose model is a peft model."""
        self._trainer = trainer
        trainer.use_vllm, trainer.vllm_mode = True, "server"
        trainer.vllm_generation, trainer._last_loaded_step = self, -1

    def sync_weights(self) -> None:
        """Have the server answer with the trainer's adapter as it is now."""
        started = time.monotonic()
        version = int(self._trainer.state.global_step)
        name = f"{self._run}-{version}"
        place = self._folder / name
        self._trainer.accelerator.unwrap_model(self._trainer.model).save_pretrained(
            place, selected_adapters=["default"]
        )
        for path in place.iterdir():
            path.chmod(0o644)  # the server may be another user
        self._server.ask("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(place)})
        if self._name:
            self._server.ask("/v1/unload_lora_adapter", {"lora_name": self._name})
            shutil.rmtree(self._folder / self._name)
        self._name, self.version = name, version
        self.sync_s = time.monotonic() - started

    def generate(
        self, prompts: Sequence[list[int]], images: Any, num_generations: int, profiler: Any
    ) -> tuple[None, list[list[int]], list[list[list[float | None]]], None]:
        """Tokens and their log-probabilities, as TRL asks for them: `prompts` has each prompt
        `num_generations` times."""
        body = {
            "model": self._name,
            "prompt": list(prompts[::num_generations]),
            "n": num_generations,
            "logprobs": 0,
            "return_token_ids": True,
            "skip_special_tokens": False,
            **self._sampling,
        }
        with profiler:
            answer = json.loads(self._server.ask("/v1/completions", body))
        choices = sorted(answer["choices"], key=lambda choice: int(choice["index"]))
        if answer["model"] != self._name or len(choices) != len(prompts):
            raise ActorsLost(
                f"the rollout server {self._server.url} was asked for {len(prompts)} completions"
                f" of {self._name} and gave {len(choices)} of {answer['model']}"
            )
        tokens = [list(choice["token_ids"]) for choice in choices]
        said = [[[value] for value in c["logprobs"]["token_logprobs"]] for c in choices]
        return None, tokens, said, None

    def close(self) -> None:
        """Let the server forget the last adapter; one that is gone has."""
        if self._name:
            with suppress(ActorsLost, SettingsError):
                self._server.ask("/v1/unload_lora_adapter", {"lora_name": self._name})


def exit_once_gone(is_alive: Callable[[], bool], name: str) -> None:
    """Leave this process within seconds when what samples beside it is dead, wherever it waits.

    A worker that was killed may hold a lock or half a message of a queue that its trainer then
    waits for without end; no question that the trainer asks in between is ever reached.
    """

    def watch() -> None:
        while is_alive():
            time.sleep(BEAT_S)
        print(
            f"{name}: the rollout worker is lost: its process ended", file=sys.stderr, flush=True
        )
        os._exit(EXIT_ACTORS_LOST)

    threading.Thread(target=watch, daemon=True).start()


def _words(error: Exception) -> str:
    return f"{type(error).__name__} {error}".strip()
