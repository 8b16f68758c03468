"""What a program finds inside bubblewrap: the launch file of an attempt, made to run there."""

import functools
import hashlib
import os
import secrets
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from inner_trials import contract
from ledger.errors import InvalidInput
from targets import attempt_files, gpus, layout, seccomp
from targets.attempt_files import Side, write_file
from targets.bubblewrap_argv import HOST_NAME, OPTIONAL, USER, Enclosure, bwrap_argv
from targets.cgroups import find_places, joining, plan_groups, sweep_groups
from targets.disk_errors import disk_errors
from targets.egress import access
from targets.interpreters import Interpreter, find_interpreter, is_below
from targets.protocol import Program

_PROBE_PATIENCE_S: Final = 20.0
_COPY: Final = "bwrap"
"""Of bubblewrap, for one program when root runs ARL: the program can hold its first process's
executable open and, once that no longer runs, write to it."""
_PROCESS_ROOM: Final = 2
"""The kernel stops a bomb at this multiple of what the watchdog, which says why, allows."""
PLACE: Final = "/arl"
"""Where every program sees its attempt's directory."""
SIGNS: Final = "signs"
"""What the target tells the program while it runs: the stop file. Read-only inside."""
TMP: Final = "tmp"
SHARED_MEMORY_BYTES: Final = 1024**3
_SYSTEM: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_READ_ONLY: Final = ("/usr", "/etc/ld.so.cache", "/etc/alternatives")
_KERNEL: Final = ("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/scsi", "/proc/acpi")
"""Settings of the whole machine: the kernel lets root write them without any capability, and in
the sandbox of an ARL that root runs the program still is root to the kernel."""
_HIDDEN: Final = tuple(
    f"/proc/{name}"
    for name in (
        *("kcore", "kallsyms", "keys", "iomem", "kpagecgroup", "kpagecount", "kpageflags"),
        *("timer_list", "timer_stats", "latency_stats", "sched_debug"),
    )
)
"""Of the kernel's insides, which root may read."""
_CERTIFICATES: Final = (
    *("/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf"),
    *("/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/ca-trust/extracted"),
)
"""What TLS reads, for the attempts that may reach hosts; not the private keys beside it. Names
are resolved by their proxy."""
_ETC: Final = {
    "passwd": f"{HOST_NAME}:x:{USER}:{USER}::{PLACE}/{layout.HOME}:/bin/sh\n",
    "group": f"{HOST_NAME}:x:{USER}:\n",
    "hosts": f"127.0.0.1 localhost {HOST_NAME}\n::1 localhost\n",
}


def _bwrap() -> str:
    return shutil.which("bwrap") or "/usr/bin/bwrap"


def options_of(bwrap: str) -> frozenset[str]:
    """Which of the optional options it has; none where it cannot be asked just now."""
    try:
        return _options_of(bwrap)
    except (OSError, subprocess.SubprocessError):
        return frozenset()


@functools.cache
def _options_of(bwrap: str) -> frozenset[str]:
    asked = subprocess.run(
        [bwrap, "--help"], capture_output=True, timeout=_PROBE_PATIENCE_S, check=False
    )
    words = (asked.stdout + asked.stderr).decode("utf-8", "replace").split()
    return frozenset(option for option in OPTIONAL if option in words)


def system_links() -> dict[str, str]:
    return {path: os.readlink(path) for path in _SYSTEM if os.path.islink(path)}


def system_mounts(*, network: bool = False) -> dict[str, str]:
    directories = [path for path in _SYSTEM if os.path.isdir(path) and not os.path.islink(path)]
    wanted = (*_READ_ONLY, *_KERNEL, *directories, *(_CERTIFICATES if network else ()))
    shown = {path: path for path in wanted if os.path.exists(path)}
    return {**shown, **{path: os.devnull for path in _HIDDEN if os.path.exists(path)}}


class Sandbox:
    """How programs are shut in; see targets.attempt_files.Sandbox. Thread-safe: what it caches
    is the same whoever finds it."""

    place = PLACE
    parts = (TMP, SIGNS)

    def __init__(
        self, root: str, open_ranges: Sequence[str] = (), *, driver: str = gpus.DRIVER
    ) -> None:
        """`open_ranges`: see egress.access.lay_out; `driver`: where NVIDIA's says what it has."""
        self._root = root
        self._gpus = gpus.find_gpus(driver)
        self.open_ranges = open_ranges
        self._groups = find_places()
        self._prefix = f"arl-{hashlib.sha256(root.encode()).hexdigest()[:8]}-"
        sweep_groups(self._groups, self._prefix)
        self._etc = f"{root}/etc"
        self._interpreters: dict[str, Interpreter] = {}

    def furnish(self, draft: str, *, is_answerer: bool) -> None:
        """The reports file must be there to be mounted. The stop file appears later, so its
        directory is mounted, and the supervisor finds it through a link."""
        if os.geteuid() == 0:
            shutil.copyfile(_bwrap(), f"{draft}/{_COPY}")
            os.chmod(f"{draft}/{_COPY}", 0o500)
        if is_answerer:
            return
        write_file(f"{draft}/{layout.REPORTS}", b"")
        os.symlink(f"{SIGNS}/{layout.STOP}", f"{draft}/{layout.STOP}")

    def locate(self, program: Program) -> Program:
        interpreter = self._interpreter(program.python) if _uses_python(program) else None
        return program if interpreter is None else replace(program, python=interpreter.executable)

    def enclose(self, found: dict[str, Any], side: Side, attempt: str) -> dict[str, Any]:
        """bubblewrap's own environment holds nothing of the program's: LD_PRELOAD would act
        outside of the sandbox there. It carries the marks by which leftovers are found."""
        bwrap = _bwrap()
        started = f"{side.directory}/{_COPY}" if os.geteuid() == 0 else bwrap
        environment = dict(found["env"])
        if contract.STOP in environment:
            environment[contract.STOP] = f"{PLACE}/{SIGNS}/{layout.STOP}"
        granted = gpus.pick_gpus(side.limits.gpu_ids, self._gpus) if side.limits.gpu_ids else []
        environment["CUDA_VISIBLE_DEVICES"] = gpus.visible_devices(granted)
        enclosure = Enclosure(
            argv=tuple(found["argv"]),
            cwd=found["cwd"],
            environment=environment,
            links=system_links(),
            read_only=self._read_only(found["argv"][0], side),
            writable=_writable(side),
            devices=gpus.device_files(granted),
            enter=access.enter_argv(f"{side.directory}/{layout.EGRESS}") if side.network else (),
            shared_memory_bytes=side.limits.memory_bytes or SHARED_MEMORY_BYTES,
            status_fd=None if side.is_answerer else layout.STATUS_FD,
            filter_fd=None if self._filter() is None else seccomp.DESCRIPTOR,
        )
        groups = plan_groups(
            self._groups,
            self._prefix + attempt,
            memory_bytes=side.limits.memory_bytes,
            processes=_PROCESS_ROOM * attempt_files.MAX_PROCESSES,
            cpus=side.limits.cpus if side.limits.cpus < (os.cpu_count() or 1) else None,
        )
        return {
            "argv": joining(groups, bwrap_argv(started, enclosure, has=options_of(bwrap))),
            "cgroups": groups,
            "opens": [] if self._filter() is None else [[seccomp.DESCRIPTOR, self._filter()]],
            "missing": False,
            "cwd": "/",
            "env": {
                "PATH": layout.CLEAN_PATH,
                contract.ATTEMPT: attempt,
                layout.MARK: layout.mark_of(side.directory.removesuffix(f"/{layout.ANSWERER}")),
            },
        }

    def _filter(self) -> str | None:
        """Where the program that judges calls to the kernel is; None where there is none."""
        code = seccomp.filter_here()
        if code is None:
            return None
        path = f"{self._root}/seccomp-{hashlib.sha256(code).hexdigest()[:16]}"
        if not os.path.exists(path):
            with disk_errors(f"making {path}"):
                beside = f"{path}.{secrets.token_hex(4)}"
                write_file(beside, code)
                os.rename(beside, path)
        return path

    def _read_only(self, executable: str, side: Side) -> dict[str, str]:
        at, of = PLACE, side.directory
        mounts = {
            **system_mounts(network=side.network),
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
        """One that could not be run is asked again: the machine may only have been busy."""
        found = self._interpreters.get(python) or find_interpreter(python)
        if found is not None:
            self._interpreters[python] = found
        return found


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
