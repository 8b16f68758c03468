"""How the programs of an attempt are shut in containers: its launch file, made for the keeper."""

import hashlib
import os
import resource
import secrets
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from inner_trials import contract
from ledger.errors import InvalidInput
from targets import attempt_files, layout
from targets.attempt_files import Side, write_file
from targets.disk_use import longest_file
from targets.docker_container.body import Marks, Shown, Terms, container_body
from targets.docker_container.skeleton import system_image, trial_user
from targets.egress import access
from targets.interpreters import is_below
from targets.protocol import AttemptSpec, Limits, Program
from targets.sandbox import PLACE, SIGNS, Sandbox, system_mounts

ASK: Final = "ask"
ANSWER: Final = "answer"
"""Pipes in the attempt's directory between an evaluator and the answerer."""
CONTAINER: Final = "container"
"""In a program's part of launch.json: its name and what the engine is asked for."""
NETWORK: Final = "network"
"""The same of the container that is there before the program, where that may reach hosts."""
_NETWORK_LIMITS: Final = Limits(timeout_s=0.0, memory_bytes=128 * 1024**2, log_bytes=65536)
_NETWORK_PROCESSES: Final = 16
_OPEN_FILES: Final = 65536
_RUNTIME: Final = "runtime"
_SHELL: Final = ("/bin/sh", "-c", ":", "sh")
"""Stands before every argv until it is known which descriptors the program gets."""
_NO_GPU: Final = "void"
"""An image may ask for every GPU of the machine in NVIDIA_VISIBLE_DEVICES."""
_OF_THE_ENGINE: Final = ("/proc", "/etc/resolv.conf", "/sbin")
"""What it shows, or hides, by itself."""


def answerer_name(attempt: str) -> str:
    return f"{attempt}.{layout.ANSWERER}"


def network_name(attempt: str) -> str:
    return f"{attempt}.{NETWORK}"


def root_mark(root: str) -> str:
    """By which the containers of one root are told from those of others on the same engine."""
    return hashlib.sha256(os.path.realpath(root).encode()).hexdigest()[:16]


class Containment(Sandbox):
    """See targets.attempt_files.Sandbox. What of this machine a program sees is decided as for
    bubblewrap; how it is held is the engine's part."""

    def __init__(
        self, root: str, open_ranges: Sequence[str] = (), own_image: str | None = None
    ) -> None:
        """`open_ranges`: see targets.egress.access.lay_out. `own_image`: the image that this
        very process runs in, whose files the engine has under no path of its machine."""
        self._root = root
        self._own_image = own_image
        self.open_ranges = open_ranges
        self._interpreters = {}
        self._expected = threading.local()
        """By thread: several may lay the same attempt out at once, of which one succeeds."""

    def expect(self, spec: AttemptSpec) -> None:
        """The attempt is about to be laid out. Raises InvalidInput."""
        runtime_of(spec.options)
        self._expected.spec = spec

    def forget(self) -> None:
        self._expected.spec = None

    def furnish(self, draft: str, *, is_answerer: bool) -> None:
        if is_answerer:
            for name in (ASK, ANSWER):
                os.mkfifo(f"{os.path.dirname(draft)}/{name}", 0o600)
            return
        write_file(f"{draft}/{layout.REPORTS}", b"")
        write_file(f"{draft}/{layout.SCORE}", b"")
        os.chmod(f"{draft}/{SIGNS}", 0o755)
        os.symlink(f"{SIGNS}/{layout.STOP}", f"{draft}/{layout.STOP}")

    def locate(self, program: Program) -> Program:
        """In an image only the image knows where a program is."""
        located = super().locate(program) if program.image is None else program
        if not program.argv or not program.argv[0]:
            return located  # refused by its name
        return replace(located, argv=(*_SHELL, *located.argv))

    def enclose(self, found: dict[str, Any], side: Side, attempt: str) -> dict[str, Any]:
        spec: AttemptSpec = self._expected.spec
        limits = side.limits
        argv = tuple(found["argv"][len(_SHELL) :])
        environment = _environment(found["env"], side)
        name = answerer_name(attempt) if side.is_answerer else attempt
        body = container_body(
            Shown(
                argv=argv,
                streams=_streams(environment, is_answerer=side.is_answerer),
                cwd=found["cwd"],
                environment=environment,
                read_only=self._shown_read_only(argv[0], side),
                writable=_writable(side, environment),
            ),
            self._marks(spec),
            limits,
            Terms(
                image=side.program.image or self._system_image(),
                user=trial_user(),
                processes=attempt_files.MAX_PROCESSES,
                open_files=_open_files(),
                longest_file=longest_file(limits.output_bytes, limits.scratch_bytes),
                runtime=runtime_of(spec.options),
                network_of=network_name(attempt) if side.network else None,
            ),
        )
        return {
            CONTAINER: {"name": name, "body": body},
            **({NETWORK: self._network(spec, side)} if side.network else {}),
            "argv": list(argv),
            "missing": False,
            "cwd": "/",
            "env": {},
        }

    def _marks(self, spec: AttemptSpec) -> Marks:
        return Marks(
            owner=spec.owner,
            attempt=spec.name,
            root=root_mark(self._root),
            fence=secrets.token_hex(8),
        )

    def _network(self, spec: AttemptSpec, side: Side) -> dict[str, Any]:
        """The container whose network the program's shares: there is one way out of it."""
        car = access.side_car(
            f"{side.directory}/{layout.EGRESS}",
            python=sys.executable,
            is_installed=self._own_image is not None,
        )
        python = Program(argv=("{python}",), python=sys.executable)
        user, _, group = car.user.partition(":")
        body = container_body(
            Shown(
                argv=car.argv,
                streams=("2>&1",),
                cwd="/",
                environment={"PATH": layout.CLEAN_PATH},
                read_only={
                    **self._machine(side, sys.executable, python),
                    **car.mounts,
                },
                writable={},
            ),
            self._marks(spec),
            _NETWORK_LIMITS,
            Terms(
                image=self._system_image(),
                user=(int(user), int(group)),
                processes=_NETWORK_PROCESSES,
                open_files=_open_files(),
                runtime=runtime_of(spec.options),
            ),
        )
        return {"name": network_name(spec.name), "body": body}

    def _shown_read_only(self, executable: str, side: Side) -> dict[str, str]:
        at, of = PLACE, side.directory
        mounts = {f"{at}/{layout.INPUTS}/{name}": path for name, path in side.checkouts.items()}
        if not side.is_answerer:
            mounts[f"{at}/{layout.PARAMS}"] = f"{of}/{layout.PARAMS}"
            mounts[f"{at}/{SIGNS}"] = f"{of}/{SIGNS}"
        if side.program.image is None:
            mounts.update(self._machine(side, executable, side.program))
        return mounts

    def _system_image(self) -> str:
        """What stands for the system that this process runs on."""
        return self._own_image or system_image()

    def _machine(self, side: Side, executable: str, program: Program) -> dict[str, str]:
        """What of that system is mounted: nothing of it where it is an image itself."""
        if self._own_image is not None:
            return {}
        return {**self._system(side), **self._interpreter_mounts(executable, program)}

    def _system(self, side: Side) -> dict[str, str]:
        """This machine's own. Raises InvalidInput where that would show every attempt."""
        mounts = {
            at: of
            for at, of in system_mounts(network=side.network).items()
            if not any(is_below(at, other) for other in _OF_THE_ENGINE)
        }
        for path in mounts.values():
            if is_below(os.path.realpath(self._root), os.path.realpath(path)):
                raise InvalidInput(
                    f"ARL_HOME: {self._root} lies in {path}, which every program can read: move it"
                )
        return mounts


def _environment(given: Mapping[str, str], side: Side) -> dict[str, str]:
    """As the program finds it. An image has its own PATH, and in a container the GPUs that it
    was given are numbered from 0."""
    environment = dict(given)
    if side.program.image is not None and "PATH" not in side.program.environment:
        environment.pop("PATH", None)
    if contract.STOP in environment:
        environment[contract.STOP] = f"{PLACE}/{SIGNS}/{layout.STOP}"
    gpus = side.limits.gpu_ids
    environment["CUDA_VISIBLE_DEVICES"] = ",".join(str(n) for n in range(len(gpus)))
    if not gpus:
        environment["NVIDIA_VISIBLE_DEVICES"] = _NO_GPU
    # The init passes a SIGTERM on to the program's whole group, as to a plain process.
    environment["TINI_KILL_PROCESS_GROUP"] = "1"
    return environment


def _streams(environment: Mapping[str, str], *, is_answerer: bool) -> tuple[str, ...]:
    """The pipes are opened in the same order on both sides: each open waits for the other."""
    if is_answerer:
        return (f"<{PLACE}/{ASK}", f">{PLACE}/{ANSWER}")
    streams = ["2>&1"]
    if contract.SCORE_FD in environment:
        streams.append(f"{layout.SCORE_FD}>{PLACE}/{layout.SCORE}")
    if contract.ASK_FD in environment:
        streams.append(f"{layout.ASK_FD}>{PLACE}/{ASK}")
        streams.append(f"{layout.ANSWER_FD}<{PLACE}/{ANSWER}")
    return tuple(streams)


def _writable(side: Side, environment: Mapping[str, str]) -> dict[str, str]:
    parts = [layout.WORK, layout.HOME]
    if side.program.run_in is not None:
        parts.remove(layout.WORK)
    if not side.is_answerer:
        parts += [layout.OUTPUT, layout.REPORTS]
    if contract.SCORE_FD in environment:
        parts.append(layout.SCORE)
    mounts = {f"{PLACE}/{part}": f"{side.directory}/{part}" for part in parts}
    if side.is_answerer or contract.ASK_FD in environment:
        above = os.path.dirname(side.directory) if side.is_answerer else side.directory
        mounts.update({f"{PLACE}/{name}": f"{above}/{name}" for name in (ASK, ANSWER)})
    return mounts


def _open_files() -> int:
    """What this process may not have more of the engine's may not either, where root is not
    almighty."""
    return min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], _OPEN_FILES)


def runtime_of(options: Mapping[str, object]) -> str | None:
    """The runtime that is asked for. Raises InvalidInput for what is no name."""
    runtime = options.get(_RUNTIME)
    if runtime is None or isinstance(runtime, str):
        return runtime
    raise InvalidInput(
        f"target.runtime {runtime!r}: write the name of a runtime that the engine knows, "
        "like runsc"
    )
