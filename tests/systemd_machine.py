"""A systemd of the tests' own, booted over a copy of this machine's files that does not last."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from tests.target_runs import wait_until

BOOT: Final = Path(__file__).with_name("systemd_boot.sh")
SYSTEMD: Final = Path("/lib/systemd/systemd")
PATIENCE_S: Final = 60.0


def machine_problem() -> str | None:
    """Why no systemd can be booted here; None where one can."""
    if os.geteuid() != 0:
        return "namespaces with a systemd need root"
    if not SYSTEMD.exists():
        return "systemd is not installed: apt-get install systemd"
    if _groups() is None:
        return "no cgroup v2 hierarchy is mounted"
    return None


class Machine:
    """Booted; its own files, processes, network, host name."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        """Of its first process, as this machine numbers it."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return int(children.read_text().split()[0])

    def run(self, *argv: str, check: bool = True, patience_s: float = PATIENCE_S) -> str:
        """As root there, from /; what it said on both streams."""
        inside = ["nsenter", "--all", f"--target={self.pid}", "env", "--chdir=/", *argv]
        done = subprocess.run(
            inside,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=patience_s,
            check=False,
        )
        assert not check or done.returncode == 0, f"{argv}: {done.stdout[-3000:]}"
        return done.stdout.strip()

    def is_up(self) -> bool:
        assert self._process.poll() is None, self._log.read_text(errors="replace")[-3000:]
        try:
            return self.run("systemctl", "is-system-running", check=False) == "running"
        except (FileNotFoundError, IndexError):
            return False

    def end(self) -> None:
        """At once, with all that runs in it."""
        with suppress(OSError, IndexError, ValueError):
            os.kill(self.pid, signal.SIGKILL)
        self._process.wait(PATIENCE_S)


@contextmanager
def booted(laid_out: str, given: Sequence[Path]) -> Iterator[Machine]:
    """`laid_out` is a shell script that runs before the boot, with / as it will be and with this
    machine's network; what is given, files and folders, is in /srv."""
    group = Path(str(_groups())) / f"arl-machine-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="arl-machine-", dir="/var/tmp") as name:
        folder, script = Path(name), Path(name, "laid_out")
        script.write_text(f"#!/bin/sh\nset -eu\n{laid_out}")
        script.chmod(0o755)
        (folder / "given").mkdir()
        for one in given:
            subprocess.run(["cp", "-r", one, folder / "given"], check=True)
        group.mkdir()
        log = folder / "log"
        # Dies with this process, whatever ends it, and its machine with it.
        argv = ["setpriv", "--pdeathsig=KILL", "bash", str(BOOT), name, str(group)]
        with log.open("wb") as output:
            process = subprocess.Popen(argv, stdout=output, stderr=output, process_group=0)
        machine = Machine(process, log)
        try:
            wait_until(machine.is_up, "it is booted", 180.0)
            yield machine
        finally:
            machine.end()
            wait_until(lambda: _is_removed(group), "its cgroup is empty", PATIENCE_S)


def require_machine() -> None:
    problem = machine_problem()
    if problem is not None:
        must = os.geteuid() == 0 and shutil.which("apt-get") is not None
        (pytest.fail if must else pytest.skip)(f"systemd: {problem}")


def _groups() -> str | None:
    """Where the cgroup v2 hierarchy is."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2":
            return place
    return None


def _is_removed(group: Path) -> bool:
    for folder in sorted(group.rglob("*/"), reverse=True):
        with suppress(OSError):
            folder.rmdir()
    with suppress(OSError):
        group.rmdir()
    return not group.exists()
