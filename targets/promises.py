"""What a target keeps of what the contract asks, and who keeps it: said by the target itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, TypeAlias, runtime_checkable


class Subject(StrEnum):
    """One thing that a target keeps, or says that it does not."""

    DEADLINE = "deadline"
    """Limits.timeout_s, and grace_s after it or after a stop request."""
    STALL = "stall"
    MEMORY = "memory"
    """Limits.memory_bytes, of all its processes together."""
    PROCESSES = "processes"
    """A bound on how many it may have at once."""
    CPUS = "cpus"
    """Limits.cpus: a program that spins uses no more."""
    OUTPUT_SIZE = "output_size"
    SCRATCH_SIZE = "scratch_size"
    LOG_SIZE = "log_size"
    REPORT_SIZE = "report_size"
    NETWORK = "network"
    """No network at all, not even this machine's loopback, unless AttemptSpec.egress names
    hosts."""
    EGRESS = "egress"
    """With AttemptSpec.egress, only those hosts."""
    HOST_FILES = "host_files"
    """No file of the machine but the system's own programs and the attempt's."""
    READ_ONLY = "read_only"
    """Inputs and the root file system cannot be changed."""
    OTHER_PROCESSES = "other_processes"
    """Processes that are not the attempt's can neither be seen nor signalled."""
    PRIVATE_SCRATCH = "private_scratch"
    """/tmp and HOME start empty and are no other attempt's."""
    ENVIRONMENT = "environment"
    """Nothing of the controller's environment but what the contract names."""
    TREE_KILLED = "tree_killed"
    """Whatever it started is gone before its end is told."""
    CLOCK = "clock"
    """The program cannot set the time."""
    IMAGES = "images"
    """Program.image, by digest."""
    GPUS = "gpus"
    """A program reaches those granted and no other."""


class Keeper(StrEnum):
    """Who sees to it."""

    KERNEL = "kernel"
    """At once and always: a namespace, a control group, an engine built on them."""
    WATCHER = "watcher"
    """A process beside the program that measures, once or twice a second, and acts."""
    SERVICE = "service"
    """Somebody else's machine, which said so; nothing here can enforce it."""
    NO = "no"
    """Nobody: a program that wants to can pass it."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What a target says about one subject."""

    kept_by: Keeper
    words: str
    """One sentence for a person, without a full stop: how it is kept, or why not and what a
    program can do."""


Promises: TypeAlias = Mapping[Subject, Promise]
"""About every subject; one that a target leaves out it promises without saying how."""


@runtime_checkable
class Promising(Protocol):
    """A target that says what it keeps. All of targets.registry do."""

    def promises(self) -> Promises:
        """What holds of attempts launched here, on this machine and with its options. Cheap
        after the first call. Raises TargetUnavailable when only the place itself knows."""
        ...


UNSAID: Final = Promise(Keeper.WATCHER, "the target does not say how")


def promises_of(target: object) -> Promises:
    """What the target says about every subject; one that says nothing is held to all of them."""
    said = target.promises() if isinstance(target, Promising) else {}
    return {subject: said.get(subject, UNSAID) for subject in Subject}
