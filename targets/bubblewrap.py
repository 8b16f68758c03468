"""Attempts as sandboxed processes: bubblewrap around each program, no daemon, no root needed."""

import functools
import glob
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from inner_trials import contract
from ledger.errors import InvalidInput, TargetUnavailable
from targets import layout
from targets.attempt_files import Side, Store, write_file
from targets.bubblewrap_argv import HOST_NAME, OPTIONAL, USER, Enclosure, bwrap_argv
from targets.disk_errors import disk_errors
from targets.interpreters import Interpreter, find_interpreter, is_below
from targets.local_process import LocalProcessTarget
from targets.protocol import AttemptSpec, Program

PLACE: Final = "/arl"
"""Where every program sees its attempt's directory."""
SIGNS: Final = "signs"
"""What the target tells the program while it runs: the stop file. Read-only inside."""
TMP: Final = "tmp"
_PROBE_PATIENCE_S: Final = 20.0
_SHARED_MEMORY_BYTES: Final = 1024**3
_SYSTEM: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_READ_ONLY: Final = ("/usr", "/etc/ld.so.cache", "/etc/alternatives")
_KERNEL: Final = ("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/scsi", "/proc/acpi")
"""Settings of the whole machine: the kernel lets root write them without any capability, and in
the sandbox of an ARL that root runs the program still is root to the kernel."""
_HIDDEN: Final = tuple(
    f"/proc/{name}"
    for name in ("kcore", "kallsyms", "keys", "iomem", "kpagecgroup", "kpagecount", "kpageflags")
)
"""Of the kernel's insides, which root may read."""
_NETWORK: Final = (
    *("/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/ssl", "/etc/pki"),
    "/etc/ca-certificates",
)
"""What name resolution and TLS read, for the attempts that have a network."""
_ETC: Final = {
    "passwd": f"{HOST_NAME}:x:{USER}:{USER}::{PLACE}/{layout.HOME}:/bin/sh\n",
    "group": f"{HOST_NAME}:x:{USER}:\n",
    "hosts": f"127.0.0.1 localhost {HOST_NAME}\n::1 localhost\n",
}
_GPU_DEVICES: Final = "/dev/nvidia*"
_INSTEAD: Final = "or write target.name: local for programs you trust"


class BubblewrapTarget(LocalProcessTarget):
    """See targets.protocol.Target. Started, watched and recorded as local processes are, with
    bubblewrap between the subreaper and the program."""

    name = "bubblewrap"

    def __init__(self, root: Path, store: Store, *, host: str) -> None:
        self._works = False
        super().__init__(root, store, host=host, sandbox=Sandbox(os.path.abspath(root)))

    def launch(self, spec: AttemptSpec) -> str:
        """As the local target's. Raises TargetUnavailable where there can be no sandbox."""
        if not self._works:
            reason = self.is_available() or _exposed(self._root)
            if reason is not None:
                raise TargetUnavailable(f"target bubblewrap: {reason}")
            self._works = True
        return super().launch(spec)

    @staticmethod
    def is_available() -> str | None:
        """Why no program can be sandboxed on this machine, and what to do; None when one can.

        Runs one, with every option that attempts get.
        """
        bwrap = shutil.which("bwrap")
        if bwrap is None:
            return (
                "the program bwrap is not installed: install the package bubblewrap "
                f"(apt-get install bubblewrap), {_INSTEAD}"
            )
        if os.geteuid() == 0 and "--disable-userns" not in _options(bwrap):
            return (
                f"{bwrap} is too old to be used by root: install bubblewrap 0.8 or newer, run "
                f"ARL as an ordinary user, {_INSTEAD}"
            )
        probe = Enclosure(
            argv=("/bin/sh", "-c", ":"),
            cwd="/",
            environment={},
            links=_system_links(),
            read_only=_system_mounts(network=False),
            shared_memory_bytes=_SHARED_MEMORY_BYTES,
        )
        said = _run_briefly(bwrap_argv(bwrap, probe, has=_options(bwrap)))
        if said is None:
            return None
        return (
            f"{bwrap} cannot make a sandbox here ({said}): it needs user namespaces; allow them "
            "(sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, on Ubuntu "
            "kernel.apparmor_restrict_unprivileged_userns=0; in a container a seccomp profile "
            f"that permits unshare and mount), {_INSTEAD}"
        )

    @staticmethod
    def describe_limits() -> str:
        """How the limits of an attempt are kept here, for a person."""
        sizes = "bounded" if "--size" in _options(shutil.which("bwrap") or "") else "not bounded"
        return (
            "wall time, silence, memory and the number of processes are measured and enforced by "
            "the attempt's own watcher, memory twice a second and processes once a second; "
            f"/dev/shm is {sizes}; no cgroups are used, processor time is not limited, and every "
            "GPU's device is visible to an attempt that has one"
        )


def _run_briefly(argv: tuple[str, ...]) -> str | None:
    """What went wrong; None when it succeeded."""
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            timeout=_PROBE_PATIENCE_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env={"PATH": layout.CLEAN_PATH},
        )
    except (OSError, subprocess.SubprocessError) as error:
        return layout.one_line(str(error))
    if done.returncode == 0:
        return None
    said = layout.one_line(done.stderr.decode("utf-8", "replace"))
    return said or f"exit status {done.returncode}"


@functools.cache
def _options(bwrap: str) -> frozenset[str]:
    """Which of the optional options it has."""
    try:
        asked = subprocess.run(
            [bwrap, "--help"], capture_output=True, timeout=_PROBE_PATIENCE_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return frozenset()
    words = (asked.stdout + asked.stderr).decode("utf-8", "replace").split()
    return frozenset(option for option in OPTIONAL if option in words)


def _system_links() -> dict[str, str]:
    return {path: os.readlink(path) for path in _SYSTEM if os.path.islink(path)}


def _system_mounts(*, network: bool) -> dict[str, str]:
    directories = [path for path in _SYSTEM if os.path.isdir(path) and not os.path.islink(path)]
    wanted = (*_READ_ONLY, *_KERNEL, *directories, *(_NETWORK if network else ()))
    shown = {path: path for path in wanted if os.path.exists(path)}
    return {**shown, **{path: os.devnull for path in _HIDDEN if os.path.exists(path)}}


def _exposed(root: str) -> str | None:
    """A root inside of what every program may read would show it every attempt."""
    for path in _system_mounts(network=False):
        if is_below(os.path.realpath(root), os.path.realpath(path)):
            return f"ARL's own directory {root} lies in {path}, which programs can read: move it"
    return None


class Sandbox:
    """How programs are shut in; see targets.attempt_files.Sandbox. Thread-safe: what it caches
    is the same whoever finds it."""

    place = PLACE
    parts = (TMP, SIGNS)

    def __init__(self, root: str) -> None:
        self._root = root
        self._etc = f"{root}/etc"
        self._interpreters: dict[str, Interpreter | None] = {}

    def furnish(self, draft: str) -> None:
        """The reports file must be there to be mounted. The stop file appears later, so its
        directory is mounted, and the supervisor finds it through a link."""
        write_file(f"{draft}/{layout.REPORTS}", b"")
        os.symlink(f"{SIGNS}/{layout.STOP}", f"{draft}/{layout.STOP}")

    def locate(self, program: Program) -> Program:
        interpreter = self._interpreter(program.python) if _uses_python(program) else None
        return program if interpreter is None else replace(program, python=interpreter.executable)

    def enclose(self, found: dict[str, Any], side: Side, attempt: str) -> dict[str, Any]:
        """bubblewrap's own environment holds nothing of the program's: LD_PRELOAD would act
        outside of the sandbox there. It carries the mark by which leftovers are found."""
        bwrap = shutil.which("bwrap") or "bwrap"
        environment = dict(found["env"])
        if contract.STOP in environment:
            environment[contract.STOP] = f"{PLACE}/{SIGNS}/{layout.STOP}"
        enclosure = Enclosure(
            argv=tuple(found["argv"]),
            cwd=found["cwd"],
            environment=environment,
            links=_system_links(),
            read_only=self._read_only(found["argv"][0], side),
            writable=_writable(side),
            devices=tuple(sorted(glob.glob(_GPU_DEVICES))) if side.limits.gpu_ids else (),
            network=side.network,
            shared_memory_bytes=side.limits.memory_bytes or _SHARED_MEMORY_BYTES,
            status_fd=None if side.is_answerer else layout.STATUS_FD,
        )
        return {
            "argv": list(bwrap_argv(bwrap, enclosure, has=_options(bwrap))),
            "missing": False,
            "cwd": "/",
            "env": {"PATH": layout.CLEAN_PATH, contract.ATTEMPT: attempt},
        }

    def _read_only(self, executable: str, side: Side) -> dict[str, str]:
        at, of = PLACE, side.directory
        mounts = {
            **_system_mounts(network=side.network),
            **self._etc_files(),
            **self._interpreter_mounts(executable, side.program),
            **{f"{at}/{layout.INPUTS}/{name}": path for name, path in side.checkouts.items()},
        }
        if not side.checkouts:
            mounts[f"{at}/{layout.INPUTS}"] = f"{of}/{layout.INPUTS}"
        if not side.is_answerer:
            mounts[f"{at}/{layout.PARAMS}"] = f"{of}/{layout.PARAMS}"
            mounts[f"{at}/{SIGNS}"] = f"{of}/{SIGNS}"
        return mounts

    def _etc_files(self) -> dict[str, str]:
        if not os.path.exists(f"{self._etc}/hosts"):
            with disk_errors(f"making {self._etc}"):
                os.makedirs(self._etc, exist_ok=True)
                for name, text in _ETC.items():
                    Path(self._etc, name).write_text(text, encoding="ascii")
        return {f"/etc/{name}": f"{self._etc}/{name}" for name in _ETC}

    def _interpreter_mounts(self, executable: str, program: Program) -> dict[str, str]:
        """What of the machine its interpreters need, at the same paths, past /usr."""
        asked = {program.python} if _uses_python(program) else set()
        if executable.startswith("/") and os.path.basename(executable).startswith("python"):
            asked.add(executable)
        mounts = {}
        for python in asked:
            interpreter = self._interpreter(python)
            if interpreter is not None:
                for path in interpreter.directories:
                    self._check_prefix(path, python)
                places = (*interpreter.directories, *interpreter.links)
                mounts.update({p: os.path.realpath(p) for p in places if not _is_in_usr(p)})
        inside = [p for p in mounts if any(is_below(p, q) for q in mounts if q != p)]
        return {p: of for p, of in mounts.items() if p not in inside}

    def _check_prefix(self, path: str, python: str) -> None:
        if is_below(os.path.realpath(self._root), os.path.realpath(path)):
            raise InvalidInput(
                f"program.python {python!r} is installed in {path}, which holds ARL's own "
                "directory: a sandbox that shows the one would show the other; use another "
                "environment or another ARL_HOME"
            )

    def _interpreter(self, python: str) -> Interpreter | None:
        if python not in self._interpreters:
            self._interpreters[python] = find_interpreter(python)
        return self._interpreters[python]


def _is_in_usr(path: str) -> bool:
    return is_below(path, "/usr") or is_below(os.path.realpath(os.path.dirname(path)), "/usr")


def _uses_python(program: Program) -> bool:
    texts = (*program.argv, *program.environment.values())
    return any("{python}" in text for text in texts)


def _writable(side: Side) -> dict[str, str]:
    """Its own directories, and /tmp on the disk, where what it writes is not the machine's
    memory."""
    parts = [layout.WORK, layout.HOME]
    if not side.is_answerer:
        parts += [layout.OUTPUT, layout.REPORTS]
    if side.program.run_in is not None:
        parts.remove(layout.WORK)
    mounts = {f"{PLACE}/{part}": f"{side.directory}/{part}" for part in parts}
    return {**mounts, "/tmp": f"{side.directory}/{TMP}"}
