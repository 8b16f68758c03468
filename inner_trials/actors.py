"""Completions from vLLM's OpenAI-compatible server, which is sent the adapter as it changes.

Each version of the adapter has a name of its own on the server: what answers is never older than
what was asked, and no cached prompt belongs to other weights. The server has to see the files.
"""

import json
import os
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inner_trials.contract import EXIT_ACTORS_LOST
from inner_trials.failures import ActorsLost
from inner_trials.rollout_server import BEAT_S, Server
from inner_trials.settings import SettingsError


@dataclass(frozen=True, slots=True)
class Sample:
    tokens: list[int]
    logprobs: list[float | None]


def for_trl(
    samples: Sequence[Sample],
) -> tuple[None, list[list[int]], list[list[list[float | None]]], None]:
    """As its VLLMGeneration answers, which could have several alternatives of each token."""
    said = [[[value] for value in sample.logprobs] for sample in samples]
    return None, [sample.tokens for sample in samples], said, None


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
        self._trainer: Any = None
        self.version = -1
        """Updates that the newest weights on the server have seen."""
        self.sampled_at: list[int] = []
        """The version behind each completion of the last generation."""
        self.dropped = 0
        """Completions of the last generation that were sampled and are not used."""
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
        name = self.name_of(version)
        place = self._folder / name
        self._trainer.accelerator.unwrap_model(self._trainer.model).save_pretrained(
            place, selected_adapters=["default"]
        )
        for path in place.iterdir():
            path.chmod(0o644)  # the server may be another user
        self._server.ask("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(place)})
        earlier, self.version = self.version, version
        self._replaced(earlier)
        self.sync_s = time.monotonic() - started

    def expect(self, encoded: Sequence[list[int]]) -> None:
        """The trainer will ask for these prompts; here they are sampled once it does."""

    def measure(self, metrics: Mapping[str, list[float]]) -> None:
        """Add to a TRL trainer's metrics what the last generation came from."""
        step = int(self._trainer.state.global_step)
        ages = [step - version for version in self.sampled_at]
        metrics["staleness"].append(sum(ages) / len(ages))
        metrics["staleness_max"].append(float(max(ages)))
        metrics["rollouts_dropped"].append(float(self.dropped))
        metrics["weight_sync_s"].append(self.sync_s)

    def _replaced(self, version: int) -> None:
        """What the adapter before is for now: nothing."""
        if version >= 0:
            self.forget(version)

    def forget(self, version: int) -> None:
        name = self.name_of(version)
        self._server.ask("/v1/unload_lora_adapter", {"lora_name": name})
        shutil.rmtree(self._folder / name)

    def name_of(self, version: int) -> str:
        """By which the server knows the adapter of that version."""
        return f"{self._run}-{version}"

    def generate(
        self, prompts: Sequence[list[int]], images: Any, num_generations: int, profiler: Any
    ) -> tuple[None, list[list[int]], list[list[list[float | None]]], None]:
        """Tokens and their log-probabilities, as TRL asks for them: `prompts` has each prompt
        `num_generations` times."""
        asked = list(prompts[::num_generations])
        with profiler:
            samples = self.sample(asked, num_generations)
        self.sampled_at = [self.version] * len(prompts)
        return for_trl(samples)

    def sample(self, prompts: Sequence[list[int]], count: int) -> list["Sample"]:
        """So many completions of each prompt, in order, by the newest weights."""
        body = self.request(self.version, prompts, count)
        return self.read(body, self._server.ask("/v1/completions", body))

    def request(self, version: int, prompts: Sequence[list[int]], count: int) -> Mapping[str, Any]:
        return {
            "model": self.name_of(version),
            "prompt": list(prompts),
            "n": count,
            "logprobs": 0,
            "return_token_ids": True,
            "skip_special_tokens": False,
            **self._sampling,
        }

    def read(self, body: Mapping[str, Any], said: str) -> list["Sample"]:
        """The answer to a request. Raises ActorsLost: it is none to this one."""
        answer = json.loads(said)
        choices = sorted(answer["choices"], key=lambda choice: int(choice["index"]))
        wanted = len(body["prompt"]) * body["n"]
        if answer["model"] != body["model"] or len(choices) != wanted:
            raise ActorsLost(
                f"the rollout server {self._server.url} was asked for {wanted} completions"
                f" of {body['model']} and gave {len(choices)} of {answer['model']}"
            )
        return [Sample(list(c["token_ids"]), c["logprobs"]["token_logprobs"]) for c in choices]

    def close(self) -> None:
        """Let the server forget the last adapter; one that is gone has."""
        if self.version >= 0:
            with suppress(ActorsLost, SettingsError):
                self._server.ask(
                    "/v1/unload_lora_adapter", {"lora_name": self.name_of(self.version)}
                )


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
