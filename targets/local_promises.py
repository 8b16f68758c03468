"""What the targets of this machine without an engine keep: plain processes, and bubblewrap's."""

import os
from collections.abc import Mapping
from typing import Final

from targets.attempt_files import MAX_PROCESSES
from targets.promises import Keeper, Promise, Promises, Subject

_KERNEL: Final = Keeper.KERNEL
_WATCHER: Final = Keeper.WATCHER
_NO: Final = Keeper.NO

_WATCHED: Final[Promises] = {
    Subject.DEADLINE: Promise(
        _WATCHER, "the attempt's own watcher asks it to end, and kills it after the grace period"
    ),
    Subject.STALL: Promise(
        _WATCHER, "its log and its reports are looked at eight times within stall_s"
    ),
    Subject.MEMORY: Promise(
        _WATCHER, "what its processes hold is measured twice a second, and it is ended above"
    ),
    Subject.PROCESSES: Promise(
        _WATCHER, f"counted once a second, and it is ended above {MAX_PROCESSES}"
    ),
    Subject.CPUS: Promise(
        _NO, "processor time is not limited; only OMP_NUM_THREADS says what it was given"
    ),
    Subject.OUTPUT_SIZE: Promise(
        _WATCHER, "measured while it runs, and it is ended above; no file of it grows longer"
    ),
    Subject.SCRATCH_SIZE: Promise(
        _WATCHER, "measured while it runs, and it is ended above; no file of it grows longer"
    ),
    Subject.LOG_SIZE: Promise(_WATCHER, "the middle of a log that is too long is never written"),
    Subject.REPORT_SIZE: Promise(_WATCHER, "what comes after report_bytes is never read"),
    Subject.ENVIRONMENT: Promise(
        _KERNEL, "it is started with the contract's variables and nothing else"
    ),
    Subject.TREE_KILLED: Promise(
        _WATCHER, "daemons and new sessions stay below its watcher, which ends them all"
    ),
    Subject.IMAGES: Promise(_NO, "it runs no images, but this machine's own interpreter"),
}

_OPEN: Final[Promises] = {
    Subject.NETWORK: Promise(_NO, "it has this machine's network"),
    Subject.EGRESS: Promise(_NO, "it has this machine's network, whatever egress says"),
    Subject.HOST_FILES: Promise(_NO, "it is a process of your user and reads what you can read"),
    Subject.READ_ONLY: Promise(
        _NO, "inputs are links to files without write permission, which your user can change"
    ),
    Subject.OTHER_PROCESSES: Promise(_NO, "it sees every process, and can signal your own"),
    Subject.PRIVATE_SCRATCH: Promise(
        _NO, "HOME and the working directory are its own, but /tmp is the machine's"
    ),
    Subject.GPUS: Promise(
        _NO, "CUDA_VISIBLE_DEVICES names those granted; a program that sets it reaches the others"
    ),
}

_SHUT: Final[Promises] = {
    Subject.NETWORK: Promise(_KERNEL, "a network namespace of its own, with loopback alone"),
    Subject.EGRESS: Promise(
        _KERNEL, "its own network leads to a proxy alone, which passes on the hosts listed"
    ),
    Subject.HOST_FILES: Promise(
        _KERNEL, "a mount namespace with the system's programs, its interpreter and its own files"
    ),
    Subject.READ_ONLY: Promise(_KERNEL, "inputs and the system are mounted read-only"),
    Subject.OTHER_PROCESSES: Promise(_KERNEL, "a process namespace of its own"),
    Subject.PRIVATE_SCRATCH: Promise(_KERNEL, "/tmp and HOME are directories of the attempt"),
    Subject.CLOCK: Promise(_KERNEL, "it has no capabilities, and a user namespace of its own"),
    Subject.GPUS: Promise(_KERNEL, "the device files of those granted are there, and no other"),
}


def local_promises() -> Promises:
    """Of plain processes of this user."""
    clock = (
        Promise(_NO, "ARL is run by root, so its programs can set the clock")
        if os.geteuid() == 0
        else Promise(_KERNEL, "a process of an ordinary user cannot set it")
    )
    return {**_WATCHED, **_OPEN, Subject.CLOCK: clock}


def bubblewrap_promises(places: Mapping[str, str]) -> Promises:
    """Of sandboxed ones, where `places` are the control groups that may be made: directory by
    controller."""
    kept: dict[Subject, Promise] = {**_WATCHED, **_SHUT}
    if "memory" in places:
        kept[Subject.MEMORY] = Promise(
            _KERNEL, f"a memory control group for each attempt, in {places['memory']}"
        )
    if "pids" in places:
        kept[Subject.PROCESSES] = Promise(
            _KERNEL,
            f"counted once a second, and ended above {MAX_PROCESSES}; a control group in "
            f"{places['pids']} stops it at twice that",
        )
    if "cpu" in places:
        kept[Subject.CPUS] = Promise(
            _KERNEL, f"a quota in each tenth of a second, by a control group in {places['cpu']}"
        )
    return kept
