"""Limits on memory, processes and processor time kept by the kernel, where this machine lets ARL
make control groups.

Standard library only. Both layouts are known: one hierarchy for all (v2), or one for each
controller (v1). Memory and processes that cannot be limited here are left to the watchdog, which
samples them; processor time then is not limited at all.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from targets import layout

_ROOT: Final = "/sys/fs/cgroup"
_OWN: Final = "/proc/self/cgroup"
_PARENT: Final = "arl"
_PERIOD_US: Final = 100_000
"""In which a group may use its share of processor time."""
_SHORTEST_US: Final = 1000
_LIMITS: Final[Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]]] = {
    "memory": (
        {"memory.max": "{}", "memory.swap.max": "0"},
        {"memory.limit_in_bytes": "{}"},
    ),
    "pids": ({"pids.max": "{}"}, {"pids.max": "{}"}),
    "cpu": (
        {"cpu.max": f"{{}} {_PERIOD_US}"},
        {"cpu.cfs_period_us": str(_PERIOD_US), "cpu.cfs_quota_us": "{}"},
    ),
}
"""By controller: the files of its limit and what they say, in v2 and in v1."""
_NO_QUOTA: Final = {"cpu.max": "max", "cpu.cfs_quota_us": "-1"}
_KILLS: Final = ("memory.events", "memory.oom_control")
"""Files with a line `oom_kill <number>`, in v2 and in v1."""
_REMOVE_TRIES: Final = 50
_REMOVE_RETRY_S: Final = 0.01
_MAKE_TRIES: Final = 5

Group = tuple[str, Mapping[str, str]]
"""A directory, and what to write into its files."""
Places = Mapping[str, str]
"""Controller to the directory below which groups are made."""


def find_places(root: str = _ROOT, own: str = _OWN) -> dict[str, str]:
    """Where groups with limits can be made, by controller; empty where this is not allowed.
    `own` tells which groups this process is in."""
    found = {}
    for controller in _LIMITS:
        place = _unified_place(root, own, controller) or _own_place(root, own, controller)
        if place is not None:
            found[controller] = place
    return found


def _unified_place(root: str, own: str, controller: str) -> str | None:
    """A group of ours whose members may be limited: at the top, else in the nearest group around
    this process that its user was given (as systemd gives one to each user)."""
    for around in (root, *_groups_around(root, own)):
        parent = f"{around}/{_PARENT}"
        if controller not in _read(f"{around}/cgroup.subtree_control").split():
            continue
        if around != root and not os.access(f"{around}/cgroup.procs", os.W_OK):
            continue  # nobody could be moved there
        try:
            os.makedirs(parent, exist_ok=True)
            _write(f"{parent}/cgroup.subtree_control", f"+{controller}")
        except OSError:
            continue
        finally:
            _remove_empty(parent)
        return parent
    return None


def _groups_around(root: str, own: str) -> Iterator[str]:
    """From the parent of the group that this process is in up to below the top."""
    for line in _read(own).splitlines():
        number, _, path = line.split(":", 2)
        if number == "0":
            while (path := os.path.dirname(path)) not in ("/", ""):
                yield f"{root}{path}"


def _own_place(root: str, own: str, controller: str) -> str | None:
    """Below the group that this process is in, so that limits set on it hold as well."""
    for line in _read(own).splitlines():
        _, controllers, path = line.split(":", 2)
        parent = f"{root}/{controller}{path.rstrip('/')}"
        if controller in controllers.split(",") and os.access(f"{parent}/cgroup.procs", os.W_OK):
            return parent
    return None


def _is_unified(place: str) -> bool:
    return os.path.basename(place) == _PARENT


def plan_groups(
    places: Places,
    name: str,
    *,
    memory_bytes: int | None,
    processes: int,
    cpus: float | None = None,
) -> list[Group]:
    """The groups for one attempt."""
    quota_us = None if cpus is None else max(round(cpus * _PERIOD_US), _SHORTEST_US)
    wanted = {"memory": memory_bytes, "pids": processes, "cpu": quota_us}
    groups: dict[str, dict[str, str]] = {}
    for controller, place in places.items():
        limit = wanted[controller]
        if limit is not None:
            files = _LIMITS[controller][0 if _is_unified(place) else 1]
            said = {file: text.format(limit) for file, text in files.items()}
            groups.setdefault(f"{place}/{name}", {}).update(said)
    return [*groups.items()]


def make_groups(groups: Sequence[Group]) -> None:
    """Make them with their limits. What cannot be set is left out."""
    for path, files in groups:
        if not _make(path, {name.partition(".")[0] for name in files}):
            continue  # the watchdog samples what is not limited here
        for name, value in files.items():
            with suppress(OSError):
                _write(f"{path}/{name}", value)


def _make(path: str, controllers: set[str]) -> bool:
    """Whether the group is there now."""
    parent = os.path.dirname(path)
    for _ in range(_MAKE_TRIES):
        try:
            if _is_unified(parent):
                os.makedirs(parent, exist_ok=True)
                _write(f"{parent}/cgroup.subtree_control", _all_of(controllers))
            os.makedirs(path, exist_ok=True)
            return True
        except FileNotFoundError:
            continue  # another ARL removed the empty parent just now
        except OSError:
            return False
    return False


def _all_of(controllers: set[str]) -> str:
    return " ".join(f"+{controller}" for controller in sorted(controllers))


def count_kills(groups: Sequence[Group]) -> int:
    """How many processes the kernel killed in them because their memory was used up."""
    kills = 0
    for path, _ in groups:
        for file in _KILLS:
            for line in _read(f"{path}/{file}").splitlines():
                key, _, value = line.partition(" ")
                kills += int(value) if key == "oom_kill" and value.isdecimal() else 0
    return kills


def lift_quotas(groups: Sequence[Group]) -> None:
    """Let what was killed in them die: thousands of processes take minutes to do so within a
    tenth of a processor."""
    for path, files in groups:
        for name in files.keys() & _NO_QUOTA.keys():
            with suppress(OSError):
                _write(f"{path}/{name}", _NO_QUOTA[name])


def remove_groups(groups: Sequence[Group]) -> None:
    """Delete groups whose processes are gone; the kernel may take a moment to notice."""
    for path, _ in groups:
        for _ in range(_REMOVE_TRIES):
            try:
                os.rmdir(path)
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(_REMOVE_RETRY_S)
        _remove_empty(os.path.dirname(path))


def _remove_empty(parent: str) -> None:
    """Delete our own group around others once there are none; any other is not ours."""
    if _is_unified(parent):
        with suppress(OSError):
            os.rmdir(parent)


def remove_groups_of(attempt: str) -> None:
    """Delete those of the attempt in a directory, whose subreaper did not live to do it."""
    if not layout.is_copy(attempt):
        remove_groups(layout.read_launch(attempt).get("cgroups", []))


def sweep_groups(places: Places, prefix: str) -> None:
    """Delete the empty groups whose name starts with `prefix`, left by a killed subreaper."""
    for place in set(places.values()):
        try:
            names = [name for name in os.listdir(place) if name.startswith(prefix)]
        except OSError:
            continue
        for name in names:
            with suppress(OSError):  # an attempt is in it
                os.rmdir(f"{place}/{name}")
        _remove_empty(place)


def joining(groups: Sequence[Group], argv: Sequence[str]) -> list[str]:
    """`argv`, started so that the program is in the groups before it has any child."""
    if not groups:
        return list(argv)
    files = " ".join(f"{path}/cgroup.procs" for path, _ in groups)
    script = 'for f in $0; do { echo $$ >"$f"; } 2>/dev/null; done; exec "$@"'
    return ["/bin/sh", "-c", script, files, *argv]


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
