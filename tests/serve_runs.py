"""`arl serve` as a process of its own, which tests may kill and start again."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

PATIENCE_S = 60.0


class Served:
    """One server over the ledger in `home`, always at the same address."""

    def __init__(self, home: Path, *options: str, **environment: str) -> None:
        self.home = home
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._options = options
        self._environment = {
            **os.environ,
            "ARL_HOME": str(home),
            "ARL_TARGET": "local",
            "ARL_API_ALLOW_LOCAL": "1",
            "OMP_NUM_THREADS": "1",
            **environment,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        argv = [sys.executable, "-m", "controller.cli", "serve", "--port", str(self.port)]
        with (self.home.parent / "serve.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*argv, *self._options],
                env=self._environment,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.url}/readyz", timeout=2).is_success:
                    return
            except httpx.TransportError:
                pass
            assert self._process.poll() is None, self.log()
            time.sleep(0.1)
        raise AssertionError(f"no answer: {self.log()}")

    def kill(self) -> None:
        """SIGKILL the server; its worker sees that and leaves by itself."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """As Ctrl-C does; the exit status."""
        if self._process is None or self._process.poll() is not None:
            return 0
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise

    def workers(self) -> list[int]:
        """Workers over this ledger, whoever started them, once those that leave are gone."""
        deadline = time.monotonic() + PATIENCE_S
        while len(found := self._workers()) > 1 and time.monotonic() < deadline:
            time.sleep(0.1)
        return found

    def _workers(self) -> list[int]:
        wanted, found = f"ARL_HOME={self.home}".encode(), []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                argv = (process / "cmdline").read_bytes().split(b"\0")
                environment = (process / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"--until-stdin-closes" in argv and wanted in environment:
                found.append(int(process.name))
        return found

    def log(self) -> str:
        return (self.home.parent / "serve.log").read_text(encoding="utf-8", errors="replace")


@contextmanager
def served(home: Path, *options: str, **environment: str) -> Iterator[Served]:
    """A running server; stopped at the end."""
    server = Served(home, *options, **environment)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
