"""A rollout server of the trial's own: vLLM, started by another interpreter beside the trainer."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from inner_trials.failures import ActorsLost
from inner_trials.planning.configuration import vllm_arguments, vllm_environment
from inner_trials.planning.kinds import plan_of
from inner_trials.rollout_server import Server
from inner_trials.settings import SettingsError

START_S: Final = 900.0
"""Until it answers for the first time: it loads the base, and may compile its kernels."""
LORA_RANKS: Final = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM makes buffers for."""
_PAUSE_S: Final = 0.2
_TAIL_BYTES: Final = 20_000
GUARD: Final = """
import os, signal, subprocess, sys, threading
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def end():
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGKILL)
threading.Thread(target=end, daemon=True).start()
status = server.wait()
for name in os.listdir("/proc"):
    try:
        if name.isdigit() and int(name) != os.getpid() and os.getpgid(int(name)) == os.getpgrp():
            os.kill(int(name), signal.SIGKILL)
    except ProcessLookupError:
        pass
signal.signal(signal.SIGTERM, signal.SIG_DFL)
os.kill(os.getpid(), -status) if status < 0 else os._exit(status)
"""
"""Ends the server and all that it started once the other end of its stdin is closed, whatever
becomes of who started it; and, once the server itself has ended, what it left running (its engine
is a process of its own). A SIGTERM is for the server, which may end in its own way."""


@dataclass(frozen=True, slots=True)
class Devices:
    """Which of a trial's GPUs are whose, as CUDA_VISIBLE_DEVICES says it; empty: the CPU."""

    trainer: str
    server: str
    memory_share: float | None
    """Of the GPU's memory for the server, where the trainer has the same GPU."""


def divide(visible: Sequence[str], *, for_server: int, memory_share: float) -> Devices:
    """The last GPUs are the server's; a single GPU is shared.

    Raises:
        SettingsError: there are too few.
    """
    if not visible:
        return Devices("", "", None)
    if len(visible) == 1 and for_server == 1:
        return Devices(visible[0], visible[0], memory_share)
    if len(visible) <= for_server:
        raise SettingsError(
            f"options.vllm_tensor_parallel: {for_server} GPUs for the rollout server leave none"
            f" of the trial's {len(visible)} for the trainer; write fewer, or resources.gpus:"
            f" {for_server + 1} or more"
        )
    mine, its = visible[:-for_server], visible[-for_server:]
    return Devices(",".join(mine), ",".join(its), None)


def visible_devices() -> list[str]:
    """What the target gave this trial."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return [name.strip() for name in named if name.strip()]


def arguments(
    base: Path,
    *,
    port: int,
    devices: Devices,
    settings: Mapping[str, object],
    stated: Mapping[str, object],
    lora_r: int,
    row_tokens: int,
    tensor_parallel: int,
) -> tuple[list[str], dict[str, str]]:
    """What vLLM's API server takes, and its environment, as the planner writes it for a trial
    with these settings, whose plan is `stated` where there is one."""
    gpus = len(devices.server.split(",")) if devices.server else 0
    said = {**settings, "generation": "vllm_adapters"}
    served = {axis: stated[axis] for axis in ("rollout_precision",) if axis in stated}
    plan = plan_of("trial", "grpo", {**served, "rollout_gpus": gpus or None}, said, gpus=gpus)
    rank = next((each for each in LORA_RANKS if each >= lora_r), lora_r)
    words = vllm_arguments(
        plan,
        str(base),
        port=port,
        tensor_parallel=tensor_parallel,
        max_length=row_tokens,
        lora_rank=rank,
    )
    words = ["--model", str(base), "--host", "127.0.0.1", *words[3:]]  # "vllm serve BASE"
    environment = vllm_environment(plan)
    if devices.memory_share is not None:
        words += ["--gpu-memory-utilization", str(devices.memory_share)]
    if gpus:
        environment["CUDA_VISIBLE_DEVICES"] = devices.server
    else:
        # Nothing is compiled: that would take longer than most trials on a CPU.
        words.append("--enforce-eager")
        environment |= {"OMP_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    return words, environment


class OwnServer:
    """Started at once, and waited for later: loading takes as long as the trainer's own."""

    def __init__(
        self, python: str, words: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> None:
        self.url = f"http://127.0.0.1:{words[list(words).index('--port') + 1]}"
        self._python, self._log = python, log
        kept = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "HF_HOME")}
        quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
        argv = [python, "-m", "vllm.entrypoints.openai.api_server", *words]
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-c", GUARD, *argv],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                env={**environment, **quiet, **kept, **_pinned(environment)},
                start_new_session=True,
            )

    def wait_until_well(self, server: Server) -> None:
        """Until it answers.

        Raises:
            SettingsError: it ended by itself; what it said last is in the message.
            ActorsLost: it was ended from outside, or takes longer than START_S.
        """
        until = time.monotonic() + START_S
        while not server.is_well():
            status = self._process.poll()
            if status is not None and status < 0:
                raise ActorsLost(
                    f"the rollout server was ended by {signal.Signals(-status).name} before it"
                    " was ready; if memory was short, use a smaller vllm_memory_share"
                )
            if status is not None:
                raise SettingsError(
                    f"options.vllm_python: {self._python} -m vllm.entrypoints.openai.api_server"
                    f" ended with status {status}: {self._last_words()}"
                )
            if time.monotonic() > until:
                raise ActorsLost(f"the rollout server did not answer within {START_S:g} s")
            time.sleep(_PAUSE_S)

    def _last_words(self) -> str:
        """The last line that tells of an error, else the last one."""
        text = self._log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
        lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if "Error" in line]
        return (errors or lines or ["it said nothing"])[-1][:300]

    def close(self) -> None:
        """End it and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _pinned(environment: Mapping[str, str]) -> dict[str, str]:
    """What the study's own environment must not undo."""
    names = ("CUDA_VISIBLE_DEVICES", "VLLM_ALLOW_RUNTIME_LORA_UPDATING")
    return {name: environment[name] for name in names if name in environment}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
