"""The actors of a GRPO run whose completions a vLLM server samples from its LoRA adapter."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final

from inner_trials import facts, models, own_server, reporting, training
from inner_trials.actors import AdapterActors
from inner_trials.ahead import AheadActors
from inner_trials.grpo_settings import Settings
from inner_trials.own_server import OwnServer
from inner_trials.rollout_server import Server
from inner_trials.settings import SettingsError

SAMPLED_BY: Final = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
"""Settings that a server takes by the same names."""
FOLDER: Final = "actors"
"""In the trial's output: adapters on their way, and the own server's log."""

MakeActors = Callable[[Sequence[int]], AdapterActors]
"""From the tokens that end a completion. Raises failures.ActorsLost, or SettingsError."""


@contextmanager
def server_of(settings: Settings, base: Path) -> Iterator[MakeActors | None]:
    """What makes the actors once the model is loaded; None where the trainer samples itself.

    A server of the trial's own is started at once, and ended with the block.
    """
    if settings.generation != "vllm_adapters":
        yield None
        return
    if training.find_input("adapter") is not None:
        # It is merged into the base here, which the server's base would not be.
        raise SettingsError(
            "options.generation: vllm_adapters cannot go on from the input adapter; mount the"
            " merged model as base, and serve that"
        )
    place = (reporting.output_dir() / FOLDER).absolute()
    place.mkdir(exist_ok=True)
    own = start_server(settings, base, place) if settings.vllm_python else None
    try:
        yield lambda ends: make_actors(settings, base, place, own, ends)
    finally:
        if own is not None:
            own.close()
        shutil.rmtree(place, ignore_errors=True)


def start_server(settings: Settings, base: Path, place: Path) -> OwnServer:
    """Call before torch has seen the GPUs: the trainer keeps those that are not the server's."""
    devices = own_server.divide(
        own_server.visible_devices(),
        for_server=settings.vllm_tensor_parallel,
        memory_share=settings.vllm_memory_share,
    )
    words, environment = own_server.arguments(
        base,
        port=own_server.free_port(),
        devices=devices,
        settings=asdict(settings),
        stated=reporting.document().get("plan") or {},
        lora_r=settings.lora_r,
        row_tokens=models.row_tokens(settings.max_length, base),
        tensor_parallel=settings.vllm_tensor_parallel,
    )
    if devices.trainer:
        os.environ["CUDA_VISIBLE_DEVICES"] = devices.trainer
    return OwnServer(settings.vllm_python, words, environment, place / "vllm.log")


def make_actors(
    settings: Settings, base: Path, place: Path, own: OwnServer | None, ends: Sequence[int]
) -> AdapterActors:
    url = settings.vllm_server if own is None else own.url
    server = Server(url, patience_s=settings.vllm_patience_s)
    if own is not None:
        own.wait_until_well(server)
    facts.note("sampling", vllm=server.version())
    sampling = {
        "max_tokens": settings.max_completion_length,
        "stop_token_ids": list(ends),
        **{name: getattr(settings, name) for name in SAMPLED_BY},
    }
    folder = Path(settings.vllm_share).absolute() if settings.vllm_share else place
    room = models.row_tokens(settings.max_length, base)
    if not settings.staleness_bound:
        return AdapterActors(server, folder, sampling, row_tokens=room)
    return AheadActors(
        server,
        folder,
        sampling,
        row_tokens=room,
        bound=settings.staleness_bound,
        cycle=settings.cycle,
    )
