"""Whose memory is still on a GPU, so that it is not leased again before it is seen to be free.

A trial that was ended may leave memory behind for a while: its process is gone and the driver has
not cleaned up, or a process of it lives on where its target could not end it. Strangers on a GPU
(a model server of the user's, say) are no reason to wait: they would be there for ever.
"""

import logging
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from inner_trials.contract import ATTEMPT
from targets import layout
from targets.gpus import DRIVER, Gpu, find_gpus, pick_gpus

log = logging.getLogger("arl.worker")

_ASK: Final = ("--query-compute-apps=gpu_uuid,pid", "--format=csv,noheader,nounits")
_PATIENCE_S: Final = 10.0
_FRESH_S: Final = 1.0
"""An answer is used again for this long: a waiting trial asks at every turn."""
_MARK: Final = f"{ATTEMPT}=".encode()


def parse_users(answer: str) -> dict[str, tuple[int, ...]]:
    """The processes that hold memory, by the GPU's UUID, as `nvidia-smi` lists them."""
    found: dict[str, tuple[int, ...]] = {}
    for line in answer.splitlines():
        uuid, _, pid = (part.strip() for part in line.partition(","))
        if uuid.startswith("GPU-") and pid.isdecimal():
            found[uuid] = (*found.get(uuid, ()), int(pid))
    return found


def find_unclean(
    ids: Sequence[str],
    gpus: Sequence[Gpu],
    users: Mapping[str, Sequence[int]],
    is_leftover: Callable[[int], bool],
) -> dict[str, tuple[int, ...]]:
    """Those of `ids` that a trial's process still has memory on, and which processes."""
    unclean = {}
    for name, gpu in zip(ids, pick_gpus(ids, gpus), strict=True):
        left = tuple(pid for pid in users.get(gpu.uuid or "", ()) if is_leftover(pid))
        if left:
            unclean[name] = left
    return unclean


def is_leftover(pid: int) -> bool:
    """Whether a process is gone, or is one that an attempt started."""
    if layout.process_start(pid) is None:
        return True
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return any(part.startswith(_MARK) for part in file.read().split(b"\0"))
    except OSError:
        return False  # another user's, so none that ARL could have left


class GpuUse:
    """What nvidia-smi says, asked only where there are GPUs. Not thread-safe."""

    def __init__(self, *, driver: str = DRIVER) -> None:
        self._gpus = find_gpus(driver)
        self._asked_at = float("-inf")
        self._users: dict[str, tuple[int, ...]] = {}
        self._told: dict[str, tuple[int, ...]] = {}

    def find_unclean(self, ids: Sequence[str]) -> frozenset[str]:
        """Those of `ids` that must not be leased yet; says so, with the processes, once. Ids that
        name no GPU of this machine, and a machine where nothing can be asked, are no reason to
        wait."""
        known = [name for name in ids if any(name in (str(g.index), g.uuid) for g in self._gpus)]
        if not known:
            return frozenset()
        self._refresh()
        unclean = find_unclean(known, self._gpus, self._users, is_leftover)
        for name, pids in unclean.items():
            if self._told.get(name) != pids:
                log.warning(
                    "gpu %s is not given to the next trial yet: process %s of an ended one still "
                    "holds memory of it; end it if it does not go away by itself",
                    name,
                    ", ".join(map(str, pids)),
                )
        self._told = unclean
        return frozenset(unclean)

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._asked_at < _FRESH_S:
            return
        self._users = parse_users(_ask())
        self._asked_at = time.monotonic()


def _ask() -> str:
    """Empty where it cannot be asked."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, *_ASK], capture_output=True, timeout=_PATIENCE_S, check=False, text=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return done.stdout if done.returncode == 0 else ""
