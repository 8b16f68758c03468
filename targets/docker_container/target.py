"""Attempts in containers of a Docker engine on this machine: hardened, and without a network."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ledger.errors import DiskFull, InvalidInput, TargetUnavailable
from ledger.records import Json
from targets import layout
from targets.docker_container.address import address_of, find_problem, runtime_problem
from targets.docker_container.containment import Containment, root_mark, runtime_of
from targets.docker_container.images import EngineQuestions
from targets.docker_container.promises import docker_promises
from targets.docker_container.trouble import find_standing
from targets.local_process import LocalProcessTarget
from targets.promises import Promises
from targets.protocol import AttemptSpec, Found, Observation, Program
from targets.supervisor_link import Daemon
from targets.workspace import Store

_START: Final = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from targets.docker_container.keeper_start import main; "
    "main(sys.argv[2], int(sys.argv[3]), *sys.argv[4:])"
)
_OWN_SOURCES: Final = (
    *("address", "attach", "attempt", "body", "box", "calls", "containment", "events"),
    *("keeper", "keeper_start", "lending", "making", "network", "parts", "pull"),
    *("record", "skeleton", "surroundings", "trouble", "turns", "usage", "verdict"),
    "watch",
)
_SOURCES: Final = (
    *(f"docker_container/{name}" for name in _OWN_SOURCES),
    *("client_sockets", "disk_use", "disk_walk", "layout", "linux", "program_log"),
    *("report_watch", "watchdog"),
)
_CONTAINER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]+")
_OLDEST_API: Final = (1, 41)
"""Docker 20.10: bind mounts, device requests and refused system calls as they are used here."""
_OLDEST_KEPT: Final = (25,)
_OLDEST_RUNC: Final = (1, 1, 12)


class DockerTarget(LocalProcessTarget):
    """See targets.protocol.Target. An attempt's directory is laid out as the local target's; a
    keeper, one per `root`, takes the supervisor's place.

    Options: `engine`, the engine's address, which must be a socket of this machine.
    """

    name = "docker"
    is_sandbox = True

    def __init__(
        self,
        root: Path,
        store: Store,
        *,
        host: str,
        options: Mapping[str, str] | None = None,
        open_ranges: Sequence[str] = (),
        own_image: str | None = None,
    ) -> None:
        """`open_ranges`, `own_image`: see Containment. Raises InvalidInput."""
        self._address = address_of(options or {})
        self._questions = EngineQuestions(self._address)
        self._containment = Containment(os.path.abspath(root), open_ranges, own_image)
        self._mark = root_mark(str(root))
        super().__init__(
            root, store, host=host, sandbox=self._containment, daemon=_keeper(self._address)
        )

    def launch(self, spec: AttemptSpec) -> str:
        """As the local target's. Raises TargetUnavailable while no engine answers."""
        if layout.is_name(spec.name) and _CONTAINER_NAME.fullmatch(spec.name) is None:
            raise InvalidInput(
                f"attempt name {spec.name!r}: a container's name must be two characters or more, "
                "the first a letter or digit"
            )
        self._containment.expect(spec)
        try:
            return super().launch(spec)
        finally:
            self._containment.forget()

    def observe(self, handle: str, *, cursor: str) -> Observation:
        """As the local target's. Raises TargetUnavailable or DiskFull while a program cannot be
        started, or its end not be learnt, because the engine is away or its disk is full."""
        seen = super().observe(handle, cursor=cursor)
        trouble = None if seen.exit is not None else find_standing(self._root)
        if trouble is None:
            return seen
        text = f"Docker at {self._address}: {trouble.detail}"
        raise DiskFull(text) if trouble.is_full else TargetUnavailable(text)

    def kill(self, handle: str) -> None:
        super().kill(handle)
        if not os.path.isdir(self._directory(handle)):
            self._link.call("release", handle)  # a container whose directory vanished

    def release(self, handle: str) -> None:
        """Its containers are deleted in the background, if they are not yet."""
        known = os.path.isdir(self._directory(handle))
        super().release(handle)
        if known:
            self._link.call("release", handle)

    def list_owned(self, owner: str) -> Sequence[Found]:
        """Containers whose directory vanished included, while the engine can be asked."""
        found = {f.name: f for f in super().list_owned(owner)}
        try:
            containers = self._questions.list_containers(self._mark, owner)
        except TargetUnavailable:
            containers = {}
        for name, runs in containers.items():
            if not os.path.isdir(self._directory(name)):
                found.setdefault(name, Found(handle=name, name=name, running=runs))
        return [found[name] for name in sorted(found)]

    def check_options(self, options: Mapping[str, Json]) -> None:
        runtime = runtime_of(options)
        if runtime is None:
            return
        known = self._questions.info().get("Runtimes") or {}
        problem = runtime_problem(runtime, known, self._address)
        if problem is not None:
            raise InvalidInput(problem)

    def pin(self, program: Program) -> Program:
        if program.image is None:
            return program
        return replace(program, image=self._questions.find_digest(program.image))

    def fingerprint(self, program: Program) -> str:
        """An image's digest and what the engine runs it for; without one as the local target."""
        if program.image is None:
            return super().fingerprint(program)
        return f"image {program.image} {self._questions.platform()}"

    @staticmethod
    def is_available(options: Mapping[str, str] | None = None) -> str | None:
        """Why there can be no containers here, and what to do; None when an engine answers."""
        return find_problem(options or {})

    def promises(self) -> Promises:
        return docker_promises(self._questions.info())

    def describe_limits(self) -> str:
        """How the limits of an attempt are kept here, for a person."""
        info = self._questions.info()
        lacking = [
            what
            for what, key in (
                ("memory", "MemoryLimit"),
                ("processor time", "CpuCfsQuota"),
                ("processes", "PidsLimit"),
            )
            if not info.get(key)
        ]
        kernel = f"; not limited by this kernel: {', '.join(lacking)}" if lacking else ""
        return "; ".join(
            (
                "memory, processor time and processes are limited by the kernel for each "
                f"container{kernel}",
                "wall time, silence and disk space are measured and enforced by the keeper",
                "what a program may have in memory includes /tmp and the pages of its files",
                *self.warnings(),
            )
        )

    def warnings(self) -> list[str]:
        """What is wrong with the engine though it works, a sentence each."""
        return engine_warnings(self._questions.version())


def _keeper(address: str) -> Daemon:
    """Where a registry wants to know who asks, the keeper reads what `docker login` wrote."""
    return Daemon(
        what="keeper",
        start=_START,
        sources=_SOURCES,
        arguments=(address,),
        inherits=("HOME", "DOCKER_CONFIG"),
    )


def engine_warnings(version: Mapping[str, Any]) -> list[str]:
    """What is wrong with an engine that tells this of itself, a sentence each."""
    said = []
    engine = str(version.get("Version", ""))
    if _numbers(str(version.get("ApiVersion", ""))) < _OLDEST_API:
        said.append(f"Docker {engine} is older than 20.10, which this ARL needs: update it")
    elif _numbers(engine) < _OLDEST_KEPT:
        said.append(
            f"Docker {engine} gets no corrections from its makers any more: update it to 25 or "
            "newer, unless your distribution maintains it"
        )
    for part in version.get("Components") or ():
        found = str(part.get("Version", ""))
        if part.get("Name") == "runc" and _numbers(found) < _OLDEST_RUNC:
            said.append(
                f"runc {found}: a container could leave it before 1.1.12 (CVE-2024-21626): update "
                "it, unless your distribution corrected it"
            )
    return said


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found is not None else ()
