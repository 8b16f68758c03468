"""Memory and process limits kept by the kernel, where this machine lets ARL make control groups.

Standard library only. Both layouts are known: one hierarchy for all (v2), or one each for
`memory` and `pids` (v1). Whatever cannot be set up is left to the watchdog, which samples.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Final

from targets import layout

_ROOT: Final = "/sys/fs/cgroup"
_PARENT: Final = "arl"
_LIMITS: Final = {
    "memory": ("memory.max", "memory.limit_in_bytes"),
    "pids": ("pids.max", "pids.max"),
}
"""By controller: the file of its limit in v2 and in v1."""
_SWAP: Final = ("memory.swap.max", "0")
_KILLS: Final = ("memory.events", "memory.oom_control")
"""Files with a line `oom_kill <number>`, in v2 and in v1."""
_REMOVE_TRIES: Final = 50
_REMOVE_RETRY_S: Final = 0.01

Group = tuple[str, Mapping[str, str]]
"""A directory, and what to write into its files."""
Places = Mapping[str, str]
"""Controller to the directory below which groups are made."""


def find_places(root: str = _ROOT) -> dict[str, str]:
    """Where groups with limits can be made, by controller; empty where this is not allowed."""
    found = {}
    for controller in _LIMITS:
        place = _unified_place(root, controller) or _own_place(root, controller)
        if place is not None:
            found[controller] = place
    return found


def _unified_place(root: str, controller: str) -> str | None:
    """Below a group of ours at the top, whose members may be limited."""
    parent = f"{root}/{_PARENT}"
    if controller not in _read(f"{root}/cgroup.subtree_control").split():
        return None
    try:
        os.makedirs(parent, exist_ok=True)
        _write(f"{parent}/cgroup.subtree_control", f"+{controller}")
    except OSError:
        return None
    return parent


def _own_place(root: str, controller: str) -> str | None:
    """Below the group that this process is in, so that limits set on it hold as well."""
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        parent = f"{root}/{controller}{path.rstrip('/')}"
        if controller in controllers.split(",") and os.access(f"{parent}/cgroup.procs", os.W_OK):
            return parent
    return None


def plan_groups(
    places: Places, name: str, *, memory_bytes: int | None, processes: int
) -> list[Group]:
    """The groups for one attempt."""
    wanted = {"memory": memory_bytes, "pids": processes}
    groups: dict[str, dict[str, str]] = {}
    for controller, place in places.items():
        limit = wanted[controller]
        if limit is not None:
            unified = place.endswith(f"/{_PARENT}")
            file = _LIMITS[controller][0 if unified else 1]
            groups.setdefault(f"{place}/{name}", {})[file] = str(limit)
            if unified and controller == "memory":
                groups[f"{place}/{name}"].update([_SWAP])
    return [*groups.items()]


def make_groups(groups: Sequence[Group]) -> None:
    """Make them with their limits. One that cannot be made is left out."""
    for path, files in groups:
        try:
            os.makedirs(path, exist_ok=True)
            for name, value in files.items():
                _write(f"{path}/{name}", value)
        except OSError:
            continue  # the watchdog samples what is not limited here


def count_kills(groups: Sequence[Group]) -> int:
    """How many processes the kernel killed in them because their memory was used up."""
    kills = 0
    for path, _ in groups:
        for file in _KILLS:
            for line in _read(f"{path}/{file}").splitlines():
                key, _, value = line.partition(" ")
                kills += int(value) if key == "oom_kill" and value.isdecimal() else 0
    return kills


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


def remove_groups_of(attempt: str) -> None:
    """Delete those of the attempt in a directory, whose subreaper did not live to do it."""
    try:
        launch = json.loads(_read(f"{attempt}/{layout.LAUNCH}"))
    except ValueError:
        return  # it never was launched
    remove_groups(launch.get("cgroups", []))


def sweep_groups(places: Places, prefix: str) -> None:
    """Delete the empty groups whose name starts with `prefix`, left by a killed subreaper."""
    for place in set(places.values()):
        try:
            names = [name for name in os.listdir(place) if name.startswith(prefix)]
        except OSError:
            continue
        for name in names:
            try:
                os.rmdir(f"{place}/{name}")
            except OSError:
                continue  # an attempt is in it


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
