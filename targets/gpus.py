"""Which of this machine's NVIDIA GPUs an id names, and which device files a program needs for it.

Reads what the driver tells under /proc; no library, no tool.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ledger.errors import InvalidInput

DRIVER: Final = "/proc/driver/nvidia"
DEVICES: Final = "/dev"
_SHARED: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
"""Device files that every program with a GPU needs; they reach no GPU by themselves."""
_FIELD = re.compile(r"^(GPU UUID|Device Minor):\s*(\S+)\s*$", re.MULTILINE)
_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Gpu:
    index: int
    """By its place on the bus, as nvidia-smi counts."""
    uuid: str | None
    """None: the driver has not asked the card yet."""
    minor: int
    """Of its device file."""


def find_gpus(driver: str = DRIVER) -> list[Gpu]:
    """Those of this machine; none where the driver is not loaded."""
    try:
        places = sorted(os.listdir(f"{driver}/gpus"))
    except OSError:
        return []
    found = []
    for index, place in enumerate(places):
        said = _read_fields(f"{driver}/gpus/{place}/information")
        uuid = said.get("GPU UUID", "")
        minor = said.get("Device Minor", "")
        if minor.isdecimal():
            known = uuid if _UUID.fullmatch(uuid) else None
            found.append(Gpu(index, known, int(minor)))
    return found


def pick_gpus(ids: Sequence[str], gpus: Sequence[Gpu]) -> list[Gpu]:
    """Those that `ids` name, by index or UUID (its beginning is enough, as CUDA has it), in that
    order. Raises InvalidInput: one is not here, or is named twice."""
    picked: list[Gpu] = []
    for wanted in ids:
        fitting = [gpu for gpu in gpus if _is_named(gpu, wanted)]
        if len(fitting) != 1:
            raise InvalidInput(f"gpu {wanted!r}: {_what_there_is(gpus)}")
        if fitting[0] in picked:
            raise InvalidInput(f"gpu {wanted!r} is named twice in {', '.join(ids)}")
        picked.append(fitting[0])
    return picked


def device_files(gpus: Sequence[Gpu], devices: str = DEVICES) -> tuple[str, ...]:
    """What a program that has those GPUs, and no other, must find; empty for none."""
    if not gpus:
        return ()
    own = [f"{devices}/nvidia{gpu.minor}" for gpu in gpus]
    return (*own, *(f"{devices}/{name}" for name in _SHARED))


def visible_devices(gpus: Sequence[Gpu]) -> str:
    """For CUDA_VISIBLE_DEVICES where only the device files of those GPUs are shown: indices there
    start at 0 again, so that only a UUID means the same inside and outside."""
    uuids = [gpu.uuid for gpu in gpus if gpu.uuid is not None]
    if len(uuids) == len(gpus):
        return ",".join(uuids)
    return ",".join(str(number) for number in range(len(gpus)))


def _is_named(gpu: Gpu, wanted: str) -> bool:
    if wanted.isdecimal():
        return gpu.index == int(wanted)
    return len(wanted) > len("GPU-") and gpu.uuid is not None and gpu.uuid.startswith(wanted)


def _what_there_is(gpus: Sequence[Gpu]) -> str:
    if not gpus:
        return (
            "this machine has no NVIDIA GPU, or its driver is not loaded; write resources.gpus: 0"
        )
    names = (f"{gpu.index}" + (f" ({gpu.uuid})" if gpu.uuid else "") for gpu in gpus)
    return f"this machine has {', '.join(names)}; name those in ARL_GPUS"


def _read_fields(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return dict(_FIELD.findall(file.read()))
    except OSError:
        return {}
