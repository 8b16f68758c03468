"""What an attempt's directory holds when it is launched: inputs, params.json and launch.json."""

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from inner_trials import contract
from ledger.errors import InvalidInput
from ledger.records import AttemptKind, Json
from targets import layout
from targets.disk_use import longest_file
from targets.egress import access
from targets.protocol import AttemptSpec, Limits, Program

_PLACEHOLDER = re.compile(r"\{([A-Za-z0-9._-]+)\}")
MAX_PROCESSES: Final = 4096
"""At once in one attempt: more than any training run has, and fewer than a machine can take."""
_BARE_ANSWERER: Final = (layout.WORK, layout.HOME, layout.INPUTS)
_SCORED: Final = frozenset({AttemptKind.PREPARE, AttemptKind.EVALUATE})
_BASE_ENVIRONMENT: Final = {
    "PATH": layout.CLEAN_PATH,
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONHASHSEED": "0",
}


class Store(Protocol):
    """What a workspace needs of ledger.artifacts.ArtifactStore."""

    def checkout(self, tree: str) -> Path:
        """A read-only directory holding the tree."""
        ...

    def copy_tree(self, tree: str, destination: Path) -> None:
        """A private writable copy."""
        ...

    def read_bytes(self, digest: str) -> bytes:
        """Verified content; that of a tree is the JSON list of its (path, mode, size, sha256)."""
        ...


@dataclass(frozen=True, slots=True)
class Side:
    """One of an attempt's programs: its own, or the answerer."""

    program: Program
    directory: str
    """On this machine, once the draft has its final name."""
    seen: str
    """The same directory as the program sees it."""
    checkouts: Mapping[str, str]
    """Where on this machine each of its inputs is."""
    is_answerer: bool
    network: bool
    """Whether it may reach hosts, through its proxy."""
    limits: Limits


class Sandbox(Protocol):
    """How a target shuts its programs in."""

    @property
    def place(self) -> str:
        """Where a program inside sees its attempt's directory."""
        ...

    @property
    def open_ranges(self) -> Sequence[str]:
        """Address ranges, not public ones, that programs may reach all the same."""
        ...

    @property
    def parts(self) -> tuple[str, ...]:
        """Directories each program needs besides those that every target gives it."""
        ...

    def furnish(self, draft: str, *, is_answerer: bool) -> None:
        """Make the files it needs in the directory of one of an attempt's programs."""
        ...

    def locate(self, program: Program) -> Program:
        """The program with its interpreter as it is called inside."""
        ...

    def enclose(self, found: dict[str, Any], side: Side, attempt: str) -> dict[str, Any]:
        """A program as the subreaper reads it, made to run inside."""
        ...


class Filler:
    """Fills one attempt's draft directory, which becomes `final`: paths inside it are written
    as the program will see them."""

    def __init__(
        self, draft: str, final: str, spec: AttemptSpec, store: Store, sandbox: Sandbox | None
    ) -> None:
        self._draft = draft
        self._final = final
        self._spec = spec
        self._store = store
        self._sandbox = sandbox
        self._hosts = access.wanted_hosts(spec) if sandbox is not None else ()

    def fill(self, place: Mapping[str, str]) -> None:
        """Raises InvalidInput, what the store raises, and OSError."""
        spec, limits = self._spec, self._spec.limits
        side = self._own_side()
        write_file(f"{self._draft}/{layout.PARAMS}", json.dumps(_params(side, spec)).encode())
        if self._sandbox is not None:
            self._sandbox.furnish(self._draft, is_answerer=False)
        launch = {
            "owner": spec.owner,
            "kind": spec.kind,
            **place,
            **self._program(side, _environment(side, spec)),
            "sandboxed": self._sandbox is not None,
            "score": spec.kind in _SCORED,
            "answerer": self._answerer(),
            "proxy": self._proxy(),
            "timeout_s": limits.timeout_s,
            "stall_s": limits.stall_s,
            "grace_s": limits.grace_s,
            "memory_bytes": limits.memory_bytes,
            "max_processes": MAX_PROCESSES,
            "log_bytes": limits.log_bytes,
            "report_bytes": limits.report_bytes,
            "output_bytes": limits.output_bytes,
            "scratch_bytes": limits.scratch_bytes,
        }
        write_file(f"{self._draft}/{layout.LAUNCH}", json.dumps(launch).encode())

    def _proxy(self) -> dict[str, Any] | None:
        """How the subreaper starts it; None: the attempt may reach no host."""
        if self._sandbox is None or not self._hosts:
            return None
        access.lay_out(f"{self._draft}/{layout.EGRESS}", self._hosts, self._sandbox.open_ranges)
        return {
            "argv": access.proxy_argv(f"{self._final}/{layout.EGRESS}"),
            "missing": False,
            "cwd": "/",
            "env": access.proxy_environment(self._spec.name, self._final),
        }

    def _own_side(self) -> Side:
        spec = self._spec
        checkouts = _mount(self._draft, spec.program, spec.inputs, self._store)
        return self._side(spec.program, self._final, checkouts, is_answerer=False)

    def _side(
        self, program: Program, final: str, checkouts: Mapping[str, str], *, is_answerer: bool
    ) -> Side:
        sandbox = self._sandbox
        return Side(
            program=program if sandbox is None else sandbox.locate(program),
            directory=final,
            seen=final if sandbox is None else sandbox.place,
            checkouts=checkouts,
            is_answerer=is_answerer,
            network=bool(self._hosts) and not is_answerer,
            limits=self._spec.limits,
        )

    def _answerer(self) -> dict[str, Any] | None:
        spec = self._spec
        if spec.answerer is None:
            return None
        draft = f"{self._draft}/{layout.ANSWERER}"
        os.mkdir(draft)
        more = self._sandbox.parts if self._sandbox is not None else ()
        for part in _BARE_ANSWERER + more:
            os.mkdir(f"{draft}/{part}")
        if self._sandbox is not None:
            self._sandbox.furnish(draft, is_answerer=True)
        checkouts = _mount(draft, spec.answerer, spec.answerer_inputs, self._store)
        final = f"{self._final}/{layout.ANSWERER}"
        side = self._side(spec.answerer, final, checkouts, is_answerer=True)
        environment = {
            **_environment_of(side),
            contract.INPUTS: f"{side.seen}/{layout.INPUTS}",
            contract.ATTEMPT: spec.name,
        }
        return self._program(side, environment)

    def _program(self, side: Side, environment: dict[str, str]) -> dict[str, Any]:
        found = _program(side, environment, is_enclosed=self._sandbox is not None)
        if self._sandbox is not None and not found["missing"]:
            found = self._sandbox.enclose(found, side, self._spec.name)
        limits = side.limits
        longest = longest_file(limits.output_bytes, limits.scratch_bytes)
        return {**found, "longest_file": longest}


def _mount(
    draft: str, program: Program, inputs: Mapping[str, str], store: Store
) -> dict[str, str]:
    """Link a program's inputs and fill its working directory; the path of each input's tree."""
    checkouts = {mount: str(store.checkout(digest)) for mount, digest in inputs.items()}
    for mount, path in checkouts.items():
        os.symlink(path, f"{draft}/{layout.INPUTS}/{mount}")
    if program.working_input is not None:
        os.rmdir(f"{draft}/{layout.WORK}")
        store.copy_tree(inputs[program.working_input], Path(draft, layout.WORK))
    return checkouts


def _program(side: Side, environment: dict[str, str], *, is_enclosed: bool) -> dict[str, Any]:
    """argv, cwd, environment and whether it was found, as the subreaper reads them."""
    program = side.program
    places = {mount: f"{side.seen}/{layout.INPUTS}/{mount}" for mount in side.checkouts}
    run_in = places if is_enclosed else side.checkouts
    cwd = f"{side.seen}/{layout.WORK}" if program.run_in is None else run_in[program.run_in]
    places["python"] = program.python

    def placed(text: str) -> str:
        return _PLACEHOLDER.sub(lambda m: places.get(m[1], m[0]), text)

    argv = [placed(part) for part in program.argv]
    environment = {name: placed(value) for name, value in environment.items()}
    if not argv or not argv[0]:
        raise InvalidInput("program.argv is empty: write the command to run")
    if any("\0" in part for part in (*argv, *environment, *environment.values())):
        raise InvalidInput("program.argv and program.environment must not hold NUL characters")
    if any(not name or "=" in name for name in environment):
        raise InvalidInput("program.environment: a name must not be empty nor hold a '='")
    found = argv[0] if "/" in argv[0] else shutil.which(argv[0], path=environment["PATH"])
    return {
        "argv": [found or argv[0], *argv[1:]],
        "missing": found is None,
        "cwd": cwd,
        "env": environment,
    }


def _environment_of(side: Side) -> dict[str, str]:
    """Everything a program finds in its environment but the ARL names: nothing is inherited."""
    home = f"{side.seen}/{layout.HOME}"
    gpus = side.limits.gpu_ids
    return {
        **_BASE_ENVIRONMENT,
        "HOME": home,
        "TMPDIR": home,
        "OMP_NUM_THREADS": str(max(1, int(side.limits.cpus))),
        **side.program.environment,
        **(access.ENVIRONMENT if side.network else {}),
        **({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if gpus else {}),  # as nvidia-smi counts
        "CUDA_VISIBLE_DEVICES": ",".join(gpus),
    }


def _environment(side: Side, spec: AttemptSpec) -> dict[str, str]:
    seen = side.seen
    environment = {
        **_environment_of(side),
        contract.ATTEMPT: spec.name,
        contract.PARAMS: f"{seen}/{layout.PARAMS}",
        contract.REPORTS: f"{seen}/{layout.REPORTS}",
        contract.STOP: f"{seen}/{layout.STOP}",
        contract.OUTPUT: f"{seen}/{layout.OUTPUT}",
        contract.INPUTS: f"{seen}/{layout.INPUTS}",
    }
    if spec.kind in _SCORED:
        environment[contract.SCORE_FD] = str(layout.SCORE_FD)
    if spec.answerer is not None:
        environment[contract.ASK_FD] = str(layout.ASK_FD)
        environment[contract.ANSWER_FD] = str(layout.ANSWER_FD)
    return environment


def _params(side: Side, spec: AttemptSpec) -> dict[str, Json]:
    """The program's document, completed with the paths that only a target knows."""
    inputs: dict[str, Json] = {
        mount: f"{side.seen}/{layout.INPUTS}/{mount}" for mount in spec.inputs
    }
    return {
        **spec.document,
        "inputs": inputs,
        "output": f"{side.seen}/{layout.OUTPUT}",
        "workspace": f"{side.seen}/{layout.WORK}",
        "resume": inputs.get(contract.RESUME_DIR),
    }


def write_file(path: str, data: bytes) -> None:
    """A new private file. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)
