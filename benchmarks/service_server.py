"""`arl serve` in a process of its own, and what can be told of it from outside."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

PATIENCE_S = 120.0
MIB = 1024 * 1024


class Server:
    """One `arl serve` over the ledger in `home`."""

    def __init__(self, home: Path, *options: str, **environment: str) -> None:
        self.home = home
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = home.parent / f"{home.name}-serve.log"
        self._options = options
        self._environment = {**os.environ, "ARL_HOME": str(home), **environment}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, first: str = "/readyz") -> float:
        """Start it; seconds until it answered the `first` request. Raises RuntimeError."""
        argv = [sys.executable, "-m", "controller.cli", "serve", "--port", str(self.port)]
        began = time.monotonic()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*argv, *self._options], env=self._environment, stdout=log, stderr=log
            )
        while time.monotonic() < began + PATIENCE_S and self._process.poll() is None:
            try:
                if httpx.get(f"{self.url}{first}", timeout=60, trust_env=False).is_success:
                    return time.monotonic() - began
            except httpx.TransportError:
                time.sleep(0.005)
        raise RuntimeError(f"arl serve does not answer, see {self.log}")

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(PATIENCE_S)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def memory_mb(self) -> float:
        return memory_mb(self.pid)

    def peak_mb(self) -> float:
        return memory_mb(self.pid, "VmHWM")

    def cpu_s(self) -> dict[str, float]:
        """Processor time of the server, and of the worker beside it."""
        found = {"server": _cpu_s(self.pid)}
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found["worker"] = _cpu_s(int(child))
        return found

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def server_ms(self) -> dict[str, float]:
        """What the server's own log says that each request took, by the request's id."""
        found = re.findall(rb" ([0-9.]+) ms ([0-9a-f]{16})$", self.log.read_bytes(), re.M)
        return {request.decode(): float(took) for took, request in found}


@contextmanager
def serving(home: Path, *options: str, **environment: str) -> Iterator[Server]:
    """A running server; stopped at the end."""
    server = Server(home, *options, **environment)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def memory_mb(pid: int, line: str = "VmRSS") -> float:
    """Resident memory of a process, or its peak (VmHWM)."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition(f"{line}:")[2].split()[0]) / 1024


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
