"""What container trials leave behind: everything there was before is subtracted."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.noop_arl import run_study

if TYPE_CHECKING:
    from docker import DockerClient

KEPT: Final = ("artifacts", "logs", "ledger.db", "heads.jsonl")
"""Below ARL's home by design: the record of what was."""
_WORKED: Final = ("attempts", "trash")
"""Below a target's own directory: an entry for each attempt that is not released."""


@dataclass(frozen=True)
class Surroundings:
    """What there is of a kind, by name."""

    containers: frozenset[str]
    volumes: frozenset[str]
    networks: frozenset[str]
    mounts: frozenset[str]
    cgroups: frozenset[str]
    processes: frozenset[str]
    temporary_files: frozenset[str]


def look(client: "DockerClient", home: Path) -> Surroundings:
    return Surroundings(
        containers=frozenset(c["Id"] for c in client.api.containers(all=True)),
        volumes=frozenset(v["Name"] for v in client.api.volumes()["Volumes"] or ()),
        networks=frozenset(n["Id"] for n in client.api.networks()),
        mounts=frozenset(_mounts()),
        cgroups=frozenset(_cgroups()),
        processes=frozenset(_processes(str(home))),
        temporary_files=frozenset(path.name for path in Path(tempfile.gettempdir()).glob("arl-*")),
    )


def run_for_leaks(
    client: "DockerClient", folder: Path, *, trials: int, image: str
) -> dict[str, list[str]]:
    """Run so many container trials, four at once; what is left, by kind, empty where nothing
    is. Raises RuntimeError when the study fails."""
    home = folder / "home"
    before = look(client, home)
    sections = {"target": {"name": "docker", "image": image}}
    run_study(folder, trials=trials, parallel=4, sections=sections, keep=True)
    left = {"files": _files(home)}
    _end_daemons(home)
    after = look(client, home)
    for kind in fields(Surroundings):
        left[kind.name] = sorted(getattr(after, kind.name) - getattr(before, kind.name))
    return left


def _files(home: Path) -> list[str]:
    """Of attempts: they should have been released by now."""
    return sorted(
        str(path.relative_to(home))
        for place in home.iterdir()
        if place.is_dir() and place.name not in KEPT
        for part in _WORKED
        for path in (place / part).glob("*")
    )


def _mounts() -> list[str]:
    with open("/proc/self/mounts", encoding="utf-8") as file:
        return [line.split()[1] for line in file]


def _cgroups() -> list[str]:
    """Of containers and of ARL: others come and go on a machine that is used."""
    return [
        directory
        for directory, _, _ in os.walk("/sys/fs/cgroup")
        if "/docker/" in directory or "/arl" in directory
    ]


def _processes(mark: str) -> list[str]:
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            words = Path("/proc", pid, "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, UnicodeDecodeError):
            continue
        if mark in words and int(pid) != os.getpid():
            found.append(f"{pid} {words[:100]}")
    return found


def _end_daemons(home: Path) -> None:
    """What a target keeps running for a while by design, for the next study, is no leak."""
    code = (
        "import os, signal, sys\n"
        "from targets.supervisor_link import Connection\n"
        "connection = Connection(sys.argv[1])\n"
        "pid = connection.hello['pid']\n"
        "connection.close()\n"
        "waiting = os.pidfd_open(pid)\n"
        "os.kill(pid, signal.SIGTERM)\n"
        "import select\n"
        "select.select([waiting], [], [], 20)\n"
    )
    for place in home.iterdir():
        if (place / "supervisor.sock").exists():
            root = Path(__file__).resolve().parents[1]
            subprocess.run([sys.executable, "-c", code, str(place)], check=False, cwd=root)


def tell(left: dict[str, list[str]], trials: int) -> str:
    kinds = {kind: names for kind, names in left.items() if names}
    if not kinds:
        return f"{trials} container trials left nothing: {', '.join(left)} are as before"
    return f"{trials} container trials left {json.dumps(kinds, indent=1)}"
