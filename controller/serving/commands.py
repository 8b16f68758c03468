"""vLLM's command line, environment and configuration file for stored models."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from controller.serving.dtypes import OPTION, settled_dtype
from controller.serving.files import shown_json
from controller.serving.forms import Form, WholeModel
from controller.serving.subjects import SHORT
from inner_trials.own_server import LORA_RANKS
from ledger.errors import InvalidInput
from ledger.records import Json

MODULE: Final = "vllm.entrypoints.openai.api_server"
SPARE_ADAPTERS: Final = 1
"""Beside what is served at first: an adapter that is gated needs a place of its own."""
QUIET: Final[Mapping[str, str]] = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
ADAPTERS_ALLOWED: Final = "VLLM_ALLOW_RUNTIME_LORA_UPDATING"
_OURS: Final = frozenset({"--model", "--host", "--port", "--served-model-name", "--lora-modules"})
"""What follows from what is served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    names: tuple[str, ...]
    path: Path
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How to start a server."""

    model: Path
    options: Mapping[str, Json]
    """By vLLM's names, as in its --config file; a list is several words, true a bare option."""
    environment: Mapping[str, str]
    extra: tuple[str, ...] = ()
    names: tuple[str, ...] = field(default=())
    """Under which models it answers."""

    @property
    def url(self) -> str:
        host = str(self.options["host"])
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self.options['port']}"

    def argv(self, python: str | None = None) -> list[str]:
        """By the interpreter that has vLLM, else as the command `vllm serve`."""
        start = ["vllm", "serve", str(self.model)]
        if python is not None:
            start = [python, "-m", MODULE, "--model", str(self.model)]
        return [*start, *_words(self.options), *self.extra]

    def shell(self, python: str | None = None) -> str:
        """To be pasted into a shell."""
        variables = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " \\\n  ".join([" ".join(variables), shlex.join(self.argv(python))])

    def configuration(self) -> str:
        """The same options as the file that `vllm serve --config` reads."""
        text: str = yaml.safe_dump(
            {"model": str(self.model), **self.options}, sort_keys=False, allow_unicode=True
        )
        return text


def whole_command(
    model: Path,
    names: Sequence[str],
    *,
    host: str,
    port: int,
    extra: Sequence[str],
    whole: WholeModel | None = None,
) -> Command:
    """For a merged or quantised model, whose config says its format. Raises InvalidInput."""
    dtype = None if whole is None else settled_dtype(whole, extra)
    return Command(
        model=model,
        options={
            "served-model-name": list(names),
            "host": host,
            "port": port,
            "load-format": "safetensors",
            **({} if dtype is None else {OPTION: dtype}),
        },
        environment=QUIET,
        extra=_checked(extra),
        names=tuple(names),
    )


def adapter_command(
    base: Path,
    base_digest: str,
    adapters: Sequence[Adapter],
    *,
    host: str,
    port: int,
    extra: Sequence[str],
) -> Command:
    """For one or several adapters on one base, with room to gate another. Raises InvalidInput."""
    base_name = f"base@{base_digest[:SHORT]}"
    modules = [(name, adapter.path) for adapter in adapters for name in adapter.names]
    return Command(
        model=base,
        options={
            "served-model-name": [base_name],
            "host": host,
            "port": port,
            "load-format": "safetensors",
            "enable-lora": True,
            "max-lora-rank": _buffer_rank(max(adapter.rank for adapter in adapters)),
            "max-loras": len(modules) + SPARE_ADAPTERS,
            "lora-modules": [shown_json({"name": n, "path": str(p)}) for n, p in modules],
        },
        environment={**QUIET, ADAPTERS_ALLOWED: "True"},
        extra=_checked(extra),
        names=(base_name, *(name for name, _ in modules)),
    )


def describe(form: Form, quantisation: str | None) -> str:
    return f"{form} ({quantisation})" if quantisation else str(form)


def _buffer_rank(rank: int) -> int:
    return next((size for size in LORA_RANKS if size >= rank), rank)


def _words(options: Mapping[str, Json]) -> list[str]:
    words: list[str] = []
    for name, value in options.items():
        words.append(f"--{name}")
        if isinstance(value, list):
            words += map(str, value)
        elif value is not True:
            words.append(str(value))
    return words


def _checked(extra: Sequence[str]) -> tuple[str, ...]:
    for word in extra:
        name = word.partition("=")[0].replace("_", "-")
        if name in _OURS:
            raise InvalidInput(
                f"{word}: ARL writes {name} itself; use --port, --host or --as before the --"
            )
    return tuple(extra)
