"""What a container used, from the control groups that the engine made for it. Standard library
only.

Read while it runs, and once more the moment its first process ends: the engine deletes the
groups soon after.
"""

import os
from typing import Final, NamedTuple

_ROOT: Final = "/sys/fs/cgroup"


class Usage(NamedTuple):
    cpu_s: float = 0.0
    peak_bytes: int = 0
    """Of its memory, the pages of files that it read included."""
    memory_kills: int = 0
    """Processes that the kernel killed because its memory was used up."""
    refused_forks: int = 0
    """Processes or threads that it could not have because it had all that it may."""

    def merge(self, other: "Usage") -> "Usage":
        """The larger of each: all of them only grow."""
        return Usage(
            max(self.cpu_s, other.cpu_s),
            max(self.peak_bytes, other.peak_bytes),
            max(self.memory_kills, other.memory_kills),
            max(self.refused_forks, other.refused_forks),
        )


class ControlGroups:
    """Those of one process, by controller: one hierarchy for all (v2), or one each (v1)."""

    def __init__(self, pid: int) -> None:
        self._unified: str | None = None
        self._paths: dict[str, str] = {}
        for line in _read(f"/proc/{pid}/cgroup").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                self._unified = f"{_ROOT}{path}"
            for controller in controllers.split(","):
                self._paths[controller] = f"{_ROOT}/{controller}{path}"

    def read(self) -> Usage:
        """What is known now; zeros for what is not."""
        if "memory" in self._paths:
            return self._read_v1()
        return Usage() if self._unified is None else _read_v2(self._unified)

    def _read_v1(self) -> Usage:
        memory, pids = self._paths["memory"], self._paths.get("pids", "")
        return Usage(
            cpu_s=_number(_read(f"{self._paths.get('cpuacct', '')}/cpuacct.usage")) / 1e9,
            peak_bytes=_number(_read(f"{memory}/memory.max_usage_in_bytes")),
            memory_kills=_field(f"{memory}/memory.oom_control", "oom_kill"),
            refused_forks=_field(f"{pids}/pids.events", "max"),
        )


def _read_v2(path: str) -> Usage:
    peak = _read(f"{path}/memory.peak") or _read(f"{path}/memory.current")
    return Usage(
        cpu_s=_field(f"{path}/cpu.stat", "usage_usec") / 1e6,
        peak_bytes=_number(peak),
        memory_kills=_field(f"{path}/memory.events", "oom_kill"),
        refused_forks=_field(f"{path}/pids.events", "max"),
    )


def _field(path: str, name: str) -> int:
    for line in _read(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return _number(value)
    return 0


def _number(text: str) -> int:
    return int(text) if text.strip().isdecimal() else 0


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def open_pidfd(pid: int) -> int:
    """A descriptor that becomes readable when the process ends; -1 when there is none such."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1


def find_first_process(container: str) -> int:
    """Of a running container, by its id, which names its control groups; 0 when none is seen."""
    for entry in os.listdir("/proc"):
        if entry.isdecimal() and container in _read(f"/proc/{entry}/cgroup"):
            if _number_in_its_namespace(entry) == 1:
                return int(entry)
    return 0


def is_neighbour(pid: int) -> bool:
    """Whether it is a process of this very process's own namespace: no container's then."""
    return len(_numbers(str(pid))) == 1


def _number_in_its_namespace(pid: str) -> int:
    numbers = _numbers(pid)
    return _number(numbers[-1]) if numbers else 0


def _numbers(pid: str) -> list[str]:
    """A process's number in each namespace, from the one that is seen here to its own."""
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith("NSpid:"):
            return line.split()[1:]
    return []
