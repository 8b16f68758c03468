"""What container trials leave behind: everything there was before is subtracted."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.container_bare import container_pair_ms
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
    files: frozenset[str]


@dataclass(frozen=True)
class Scope:
    """What is looked at: this engine's and this ARL's, since others come and go."""

    home: Path
    temporary: Path
    """The only directory for temporary files that the study has."""
    engine: str
    """Where the engine keeps its files."""
    cgroups: str
    """In the path of every control group of the engine's containers."""

    @staticmethod
    def of(client: "DockerClient", folder: Path) -> "Scope":
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / "tmp"
        temporary.mkdir(exist_ok=True)
        private = os.environ.get("ARL_ENGINE_DIR")
        return Scope(
            home=folder / "home",
            temporary=temporary,
            engine=private or client.api.info()["DockerRootDir"],
            cgroups=os.environ.get("ARL_ENGINE_NAMESPACE", "docker") if private else "docker",
        )


def look(client: "DockerClient", scope: Scope) -> Surroundings:
    return Surroundings(
        containers=frozenset(c["Id"] for c in client.api.containers(all=True)),
        volumes=frozenset(v["Name"] for v in client.api.volumes()["Volumes"] or ()),
        networks=frozenset(n["Id"] for n in client.api.networks()),
        mounts=frozenset(m for m in _mounts() if m.startswith((scope.engine, str(scope.home)))),
        cgroups=frozenset(_cgroups(scope)),
        processes=frozenset(_processes(str(scope.home))),
        files=frozenset(_files(scope)),
    )


def run_for_leaks(
    client: "DockerClient", folder: Path, *, trials: int, image: str
) -> dict[str, list[str]]:
    """Run so many container trials, four at once; what is left, by kind, empty where nothing
    is. Raises RuntimeError when the study fails."""
    container_pair_ms(client, image, "none")  # the engine makes what it keeps for good
    scope = Scope.of(client, folder)
    before = look(client, scope)
    sections = {"target": {"name": "docker", "image": image}}
    usual = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(scope.temporary)
    try:
        run_study(folder, trials=trials, parallel=4, sections=sections, keep=True)
    finally:
        os.environ.pop("TMPDIR")
        if usual is not None:
            os.environ["TMPDIR"] = usual
    _end_daemons(scope.home)
    after = look(client, scope)
    return {
        kind.name: sorted(getattr(after, kind.name) - getattr(before, kind.name))
        for kind in fields(Surroundings)
    }


def _files(scope: Scope) -> list[str]:
    """Of attempts, which should have been released by now, and temporary ones."""
    places = [p for p in scope.home.glob("*") if p.is_dir() and p.name not in KEPT]
    found = [path for place in places for part in _WORKED for path in (place / part).glob("*")]
    return [str(path) for path in (*found, *scope.temporary.rglob("*"))]


def _mounts() -> list[str]:
    with open("/proc/self/mounts", encoding="utf-8") as file:
        return [line.split()[1] for line in file]


def _cgroups(scope: Scope) -> list[str]:
    return [
        directory
        for directory, _, _ in os.walk("/sys/fs/cgroup")
        if f"/{scope.cgroups}/" in f"{directory}/"
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
