"""An attempt's directory: laid out before it is launched, deleted after it was collected."""

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from inner_trials import contract
from ledger.errors import InvalidInput
from ledger.records import AttemptKind, Json
from targets import layout
from targets.disk_errors import disk_errors
from targets.protocol import AttemptSpec, Program
from targets.spares import NOT_EMPTY, Spares, remove_tree

_PLACEHOLDER = re.compile(r"\{([A-Za-z0-9._-]+)\}")
MAX_PROCESSES: Final = 4096
"""At once in one attempt: more than any training run has, and fewer than a machine can take."""
_BARE: Final = (layout.WORK, layout.OUTPUT, layout.HOME, layout.INPUTS)
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


class Workspaces:
    """The attempt directories below one root. Thread-safe."""

    def __init__(self, root: str, store: Store, *, host: str, boot: str) -> None:
        self._root = root
        self._store = store
        self._place = {"host": host, "boot": boot}
        self._spares = Spares(f"{root}/{layout.TRASH}", _BARE)
        self._spares.sweep()

    def lay_out(self, spec: AttemptSpec) -> None:
        """Make the attempt's directory, whole or not at all, unless it was made before.

        Raises InvalidInput, DiskFull, and what the store raises.
        """
        _check_names(spec)
        final = f"{self._root}/{layout.ATTEMPTS}/{spec.name}"
        if os.path.lexists(final):
            if not self._is_stale(final):
                return
            self.discard(spec.name)
        with disk_errors(f"preparing attempt {spec.name}"):
            draft = self._spares.take()
            try:
                _fill(draft, final, spec, self._store, self._place)
                os.rename(draft, final)
            except BaseException as error:
                remove_tree(draft)
                if not (isinstance(error, OSError) and error.errno in NOT_EMPTY):
                    raise  # else another one was faster

    def _is_stale(self, attempt: str) -> bool:
        """Whether it was never started, and was prepared before the machine restarted: a file
        of it may not have reached the disk."""
        if layout.read_record(attempt) is not None:
            return False
        launch = read_launch(attempt)
        return launch.get("boot") != self._place["boot"]

    def discard(self, name: str) -> None:
        """Delete an attempt's directory: out of sight in one step, then file by file."""
        grave = self._spares.new_path()
        try:
            os.rename(f"{self._root}/{layout.ATTEMPTS}/{name}", grave)
        except FileNotFoundError:
            return  # another one did it
        self._spares.put(grave)

    def close(self) -> None:
        """Delete the directories kept for later attempts."""
        self._spares.clear()


def _check_names(spec: AttemptSpec) -> None:
    if not layout.is_name(spec.name):
        raise InvalidInput(f"attempt name {spec.name!r}: must be {layout.NAME_RULE}")
    mounts = {**spec.inputs, **spec.answerer_inputs}
    for mount in mounts:
        if not layout.is_name(mount):
            raise InvalidInput(f"input name {mount!r}: must be {layout.NAME_RULE}")
    _check_places(spec.program, spec.inputs)
    if spec.answerer is not None:
        _check_places(spec.answerer, spec.answerer_inputs)


def _check_places(program: Program, inputs: Mapping[str, str]) -> None:
    if program.working_input is not None and program.run_in is not None:
        raise InvalidInput(
            f"program.run_in {program.run_in!r} excludes program.working_input "
            f"{program.working_input!r}: give one of them"
        )
    for field in ("working_input", "run_in"):
        mount = getattr(program, field)
        if mount is not None and mount not in inputs:
            raise InvalidInput(f"program.{field} {mount!r} is not one of the inputs")


def _fill(
    draft: str, final: str, spec: AttemptSpec, store: Store, place: Mapping[str, str]
) -> None:
    """`draft` becomes `final`: paths inside it are written as they will be."""
    checkouts = _mount(draft, spec.program, spec.inputs, store)
    _write(f"{draft}/{layout.PARAMS}", json.dumps(_params(final, spec)).encode())
    scored = spec.kind in _SCORED
    launch = {
        "owner": spec.owner,
        "kind": spec.kind,
        **place,
        **_program(final, spec.program, checkouts, _environment(final, spec, scored=scored)),
        "score": scored,
        "answerer": _answerer(draft, final, spec, store),
        "timeout_s": spec.limits.timeout_s,
        "stall_s": spec.limits.stall_s,
        "grace_s": spec.limits.grace_s,
        "memory_bytes": spec.limits.memory_bytes,
        "max_processes": MAX_PROCESSES,
        "log_bytes": spec.limits.log_bytes,
        "report_bytes": spec.limits.report_bytes,
    }
    _write(f"{draft}/{layout.LAUNCH}", json.dumps(launch).encode())


def _answerer(draft: str, final: str, spec: AttemptSpec, store: Store) -> dict[str, Any] | None:
    if spec.answerer is None:
        return None
    draft, final = f"{draft}/{layout.ANSWERER}", f"{final}/{layout.ANSWERER}"
    os.mkdir(draft)
    for part in _BARE_ANSWERER:
        os.mkdir(f"{draft}/{part}")
    checkouts = _mount(draft, spec.answerer, spec.answerer_inputs, store)
    environment = {
        **_environment_of(final, spec.answerer, spec),
        contract.INPUTS: f"{final}/{layout.INPUTS}",
        contract.ATTEMPT: spec.name,
    }
    return _program(final, spec.answerer, checkouts, environment)


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


def _program(
    final: str, program: Program, checkouts: Mapping[str, str], environment: dict[str, str]
) -> dict[str, Any]:
    """argv, cwd, environment and whether it was found, as the subreaper reads them."""
    places = {mount: f"{final}/{layout.INPUTS}/{mount}" for mount in checkouts}
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
    cwd = f"{final}/{layout.WORK}" if program.run_in is None else checkouts[program.run_in]
    return {
        "argv": [found or argv[0], *argv[1:]],
        "missing": found is None,
        "cwd": cwd,
        "env": environment,
    }


def _environment_of(final: str, program: Program, spec: AttemptSpec) -> dict[str, str]:
    """Everything a program finds in its environment but the ARL names: nothing is inherited."""
    home = f"{final}/{layout.HOME}"
    return {
        **_BASE_ENVIRONMENT,
        "HOME": home,
        "TMPDIR": home,
        "OMP_NUM_THREADS": str(max(1, int(spec.limits.cpus))),
        **program.environment,
        "CUDA_VISIBLE_DEVICES": ",".join(spec.limits.gpu_ids),
    }


def _environment(final: str, spec: AttemptSpec, *, scored: bool) -> dict[str, str]:
    environment = {
        **_environment_of(final, spec.program, spec),
        contract.ATTEMPT: spec.name,
        contract.PARAMS: f"{final}/{layout.PARAMS}",
        contract.REPORTS: f"{final}/{layout.REPORTS}",
        contract.STOP: f"{final}/{layout.STOP}",
        contract.OUTPUT: f"{final}/{layout.OUTPUT}",
        contract.INPUTS: f"{final}/{layout.INPUTS}",
    }
    if scored:
        environment[contract.SCORE_FD] = str(layout.SCORE_FD)
    if spec.answerer is not None:
        environment[contract.ASK_FD] = str(layout.ASK_FD)
        environment[contract.ANSWER_FD] = str(layout.ANSWER_FD)
    return environment


def _params(final: str, spec: AttemptSpec) -> dict[str, Json]:
    """The program's document, completed with the paths that only a target knows."""
    inputs: dict[str, Json] = {mount: f"{final}/{layout.INPUTS}/{mount}" for mount in spec.inputs}
    return {
        **spec.document,
        "inputs": inputs,
        "output": f"{final}/{layout.OUTPUT}",
        "workspace": f"{final}/{layout.WORK}",
        "resume": inputs.get(contract.RESUME_DIR),
    }


def read_launch(attempt: str) -> dict[str, Any]:
    """The content of launch.json of the attempt in a directory; empty when there is none that
    can be read."""
    try:
        with open(f"{attempt}/{layout.LAUNCH}", "rb", buffering=0) as file:
            launch = json.loads(file.read())
    except (OSError, ValueError):
        return {}
    return launch if isinstance(launch, dict) else {}


def _write(path: str, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)
