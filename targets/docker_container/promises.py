"""What a container keeps, by what its engine says of itself."""

from collections.abc import Mapping
from typing import Final

from ledger.records import Json
from targets.attempt_files import MAX_PROCESSES
from targets.promises import Keeper, Promise, Promises, Subject

_KERNEL: Final = Keeper.KERNEL
_WATCHER: Final = Keeper.WATCHER

_KEPT: Final[Promises] = {
    Subject.DEADLINE: Promise(
        _WATCHER, "its keeper asks it to end, and kills it after the grace period"
    ),
    Subject.STALL: Promise(
        _WATCHER, "its log and its reports are looked at eight times within stall_s"
    ),
    Subject.MEMORY: Promise(
        _KERNEL, "a control group of the container's, where /tmp and its files' pages count too"
    ),
    Subject.PROCESSES: Promise(_KERNEL, f"at most {MAX_PROCESSES}, by a control group"),
    Subject.CPUS: Promise(_KERNEL, "a quota in each tenth of a second, by a control group"),
    Subject.OUTPUT_SIZE: Promise(
        _WATCHER, "measured while it runs, and it is ended above; no file of it grows longer"
    ),
    Subject.SCRATCH_SIZE: Promise(
        _WATCHER,
        "HOME and the working directory are measured while it runs, and it is ended above; /tmp "
        "is memory of a fixed size",
    ),
    Subject.LOG_SIZE: Promise(_WATCHER, "the middle of a log that is too long is never kept"),
    Subject.REPORT_SIZE: Promise(_WATCHER, "what comes after report_bytes is never read"),
    Subject.NETWORK: Promise(_KERNEL, "a network namespace of its own, with loopback alone"),
    Subject.EGRESS: Promise(
        _KERNEL, "its own network leads to a proxy alone, which passes on the hosts listed"
    ),
    Subject.HOST_FILES: Promise(
        _KERNEL, "the image, or this machine's programs read-only, and its own files"
    ),
    Subject.READ_ONLY: Promise(_KERNEL, "the root and the inputs are mounted read-only"),
    Subject.OTHER_PROCESSES: Promise(_KERNEL, "a process namespace of its own"),
    Subject.PRIVATE_SCRATCH: Promise(_KERNEL, "/tmp and HOME are the container's"),
    Subject.ENVIRONMENT: Promise(
        _KERNEL, "it is started with the image's and the contract's variables and nothing else"
    ),
    Subject.TREE_KILLED: Promise(_KERNEL, "they end with the first process of their namespace"),
    Subject.CLOCK: Promise(_KERNEL, "it has no capabilities"),
    Subject.IMAGES: Promise(_KERNEL, "by digest; without one this machine's own system"),
    Subject.GPUS: Promise(_KERNEL, "the engine gives it the devices granted, and no other"),
}
_NEEDED: Final = {
    Subject.MEMORY: "MemoryLimit",
    Subject.CPUS: "CpuCfsQuota",
    Subject.PROCESSES: "PidsLimit",
}
"""What an engine must be able to limit, by its own words."""


def docker_promises(info: Mapping[str, Json]) -> Promises:
    """Of the containers of the engine that `info` tells of."""
    lacking = {
        subject: Promise(Keeper.NO, f"this engine cannot limit it: it says {key} is false")
        for subject, key in _NEEDED.items()
        if not info.get(key)
    }
    return {**_KEPT, **lacking}
