"""The host around a hostile study: things worth attacking, and whether they are unharmed."""

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.target_runs import is_alive

CANARY = "held-out answer 7f3a"
SECRET = "c4nary-secret"
SHARED_PLACES = ("/tmp", "/dev/shm", "/var/tmp", "/run", "/", "/usr/lib", "/etc")


class World:
    """One base directory with a canary, three listening sockets and a victim process."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.mark = f"arl-corpus-{secrets.token_hex(6)}"
        self.left = f"61.{secrets.randbelow(10**9):09d}"
        """Argument of `sleep` by which daemons are recognised: they empty their environment."""
        self._exit = ExitStack()
        (base / "canary").write_text(CANARY + "\n")
        self.victim = subprocess.Popen(["sleep", "3600"])
        self._listeners = [self._listening(socket.AF_INET, ("127.0.0.1", 0))]
        self._listeners.append(self._listening(socket.AF_UNIX, f"\0{self.mark}"))
        with _inside(base):
            self._listeners.append(self._listening(socket.AF_UNIX, "socket"))
        self.port: int = self._listeners[0].getsockname()[1]
        self._before = self._canaries()
        self._shared = _entries()

    def _listening(self, family: int, address: tuple[str, int] | str) -> socket.socket:
        made = self._exit.enter_context(socket.socket(family))
        made.bind(address)
        made.listen()
        made.setblocking(False)
        return made

    def _canaries(self) -> dict[str, tuple[int, int, bytes]]:
        """Mode, owner and content of what nobody but us may touch."""
        found = {}
        for path in (self.base / "canary", *sorted((self.base / "evaluator").rglob("*"))):
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found[path.name] = (status.st_mode, status.st_uid, content)
        return found

    def remember(self) -> None:
        """Take what is there now as what must be there at the end."""
        self._before = self._canaries()

    def harm(self) -> Iterator[str]:
        """What a study did to the host."""
        for listener in self._listeners:
            try:
                connection, _ = listener.accept()
            except BlockingIOError:
                continue
            connection.close()
            yield f"a socket of the host was reached: {listener.getsockname()!r}"
        if self._canaries() != self._before:
            yield "a file of the host was changed"
        if not is_alive(self.victim.pid):
            yield "a process of the host was killed"
        for path in sorted(_entries() - self._shared):
            if self.mark in path:
                yield f"{path} was left"

    def leftovers(self) -> list[int]:
        """Processes that a program left running, by argument."""
        needle = self.left.encode()
        found = []
        for name in os.listdir("/proc"):
            try:
                if name.isdecimal() and needle in Path("/proc", name, "cmdline").read_bytes():
                    found.append(int(name))
            except OSError:
                continue
        return [pid for pid in found if is_alive(pid)]

    def close(self) -> None:
        self.victim.kill()
        self.victim.wait()
        self._exit.close()
        for path in _entries():
            if self.mark in path:
                Path(path).unlink(missing_ok=True)


def new_base() -> Path:
    """On the disk: an engine mounts it, and quotas are of disks."""
    return Path(tempfile.mkdtemp(prefix="arl-hostile-"))


def delete_base(base: Path) -> None:
    shutil.rmtree(base, ignore_errors=True)


def _entries() -> set[str]:
    found = set()
    for place in SHARED_PLACES:
        try:
            found |= {f"{place}/{name}" for name in os.listdir(place)}
        except OSError:
            continue
    return found


class _inside:
    """A working directory for the length of a block: a socket's path must be short."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __enter__(self) -> None:
        self._before = os.getcwd()
        os.chdir(self._directory)

    def __exit__(self, *_: object) -> None:
        os.chdir(self._before)
