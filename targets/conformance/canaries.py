"""What a check puts on this machine for a program to find, and looks for there afterwards."""

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from targets import layout

SECRET_NAME: Final = "ARL_SECRET_DOCTOR_CANARY"
_READ_BYTES: Final = 256
_POLL_S: Final = 0.2


class Listeners:
    """Servers on this machine's loopback, remembering what reached them."""

    def __init__(self, work: Path, word: str) -> None:
        self.reached: list[str] = []
        """Names of those that heard the word."""
        self._word = word.encode()
        self._ended = threading.Event()
        self._sockets: list[tuple[str, socket.socket]] = []
        self.abstract = f"arl-doctor-{word}"
        self.file = work / f"s-{word}"
        self.port4 = self._listen("127.0.0.1", socket.AF_INET, ("127.0.0.1", 0))
        self.port6 = self._listen_6()
        self.udp = self._bind_udp()
        self._listen("an abstract socket", socket.AF_UNIX, f"\0{self.abstract}")
        with layout.short_path(str(work)) as short:
            self._listen("a socket file", socket.AF_UNIX, f"{short}/{self.file.name}")
        self._threads = [
            threading.Thread(target=self._serve, args=pair, daemon=True) for pair in self._sockets
        ]
        for thread in self._threads:
            thread.start()

    def _listen(
        self, name: str, family: socket.AddressFamily, address: str | tuple[str, int]
    ) -> int:
        server = socket.socket(family, socket.SOCK_STREAM)
        server.bind(address)
        server.listen(8)
        server.settimeout(_POLL_S)
        self._sockets.append((name, server))
        bound = server.getsockname()
        return int(bound[1]) if isinstance(bound, tuple) else 0

    def _listen_6(self) -> int:
        try:
            return self._listen("::1", socket.AF_INET6, ("::1", 0))
        except OSError:  # a machine without IPv6
            return 0

    def _bind_udp(self) -> int:
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server.bind(("127.0.0.1", 0))
        server.settimeout(_POLL_S)
        self._sockets.append(("udp", server))
        return int(server.getsockname()[1])

    def _serve(self, name: str, server: socket.socket) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(OSError):
                if server.type == socket.SOCK_DGRAM:
                    heard = server.recv(_READ_BYTES)
                else:
                    connection, _ = server.accept()
                    with connection:
                        connection.settimeout(_POLL_S)
                        heard = connection.recv(_READ_BYTES)
                if self._word in heard:
                    self.reached.append(name)

    def environment(self) -> dict[str, str]:
        """How a program is told where they are."""
        return {
            "PORT4": str(self.port4),
            "PORT6": str(self.port6),
            "UDP": str(self.udp),
            "ABSTRACT": self.abstract,
            "SOCKET": str(self.file),
            "WORD": self._word.decode(),
        }

    def close(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        for _, server in self._sockets:
            server.close()
        self.file.unlink(missing_ok=True)


@contextlib.contextmanager
def sleeper(mark: str, secret: str) -> Iterator[int]:
    """The pid of a process of this machine whose command line is `mark`, with the controller's
    secret in its environment, for a while."""
    environment = {SECRET_NAME: secret}
    process = subprocess.Popen([mark, "600"], executable="/bin/sleep", env=environment)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def processes_with(mark: str) -> list[int]:
    """Live processes of this machine, but this one, whose command line or environment, as far as
    they may be read, holds `mark`."""
    needle = mark.encode()
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        if int(pid) != os.getpid() and any(needle in text for text in _texts(pid)):
            if layout.process_start(pid) is not None:
                found.append(int(pid))
    return found


def processes_running(argv: Sequence[str]) -> list[int]:
    """Live processes of this machine with exactly these arguments."""
    wanted = b"".join(part.encode() + b"\0" for part in argv)
    return [
        int(pid)
        for pid in filter(str.isdecimal, os.listdir("/proc"))
        if _read(f"/proc/{pid}/cmdline") == wanted and layout.process_start(pid) is not None
    ]


def _texts(pid: str) -> Iterator[bytes]:
    yield _read(f"/proc/{pid}/cmdline")
    yield _read(f"/proc/{pid}/environ")


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def left_behind(roots: Sequence[Path], token: str) -> list[str]:
    """Directories, files, mounts and control groups of this machine that are named after a run's
    attempts, besides the logs that a target keeps."""
    found: list[str] = []
    for root in (*roots, Path("/sys/fs/cgroup")):
        for directory, parts, files in os.walk(root):
            if directory.endswith(f"/{layout.LOGS}"):
                parts.clear()
                continue
            found += [f"{directory}/{name}" for name in (*parts, *files) if token in name]
            parts[:] = [name for name in parts if token not in name]
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
            if token in line:
                found.append(f"mount {line.split()[1]}")
    return found
