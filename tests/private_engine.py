"""A private Docker engine for tests, which they may kill, stop and start: never the machine's."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.target_runs import is_alive, wait_until

if TYPE_CHECKING:
    from docker import DockerClient

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "docker_engine.sh"
_TELL_AND_WAIT = 'echo "$ARL_ENGINE_DIR $ARL_ENGINE_NAMESPACE"; read line'
_PATIENCE_S = 60.0


class Engine:
    """One running engine."""

    def __init__(self, host: str, directory: Path | None, namespace: str | None) -> None:
        self.host = host
        """As DOCKER_HOST."""
        self.directory = directory
        """Where a private engine keeps its files; None: it is not ours to kill."""
        self.namespace = namespace
        """The name of its network namespace (ip netns)."""
        self._clients: list[DockerClient] = []
        self._argv: list[str] = [] if directory is None else _command_of(self.pid)

    @property
    def pid(self) -> int:
        """Of the daemon."""
        assert self.directory is not None, "this engine is not private"
        return int((self.directory / "dockerd.pid").read_text(encoding="ascii"))

    @property
    def socket(self) -> Path:
        return Path(self.host.removeprefix("unix://"))

    def client(self, timeout_s: float = 30.0) -> "DockerClient":
        """A client of its own, closed when the engine is let go."""
        import docker

        made = docker.DockerClient(base_url=self.host, timeout=timeout_s)
        self._clients.append(made)
        return made

    def close_clients(self) -> None:
        while self._clients:
            self._clients.pop().close()

    def kill(self) -> None:
        """SIGKILL the daemon: its containers go on for the time being."""
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(pid), "the engine is gone", _PATIENCE_S)

    def terminate(self) -> None:
        """SIGTERM, as `systemctl stop docker` does."""
        pid = self.pid
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not is_alive(pid), "the engine is gone", _PATIENCE_S)

    def start(self, *, live_restore: bool = True) -> None:
        """Start the daemon again. With live_restore it finds the containers that run; without,
        it ends them."""
        assert self.directory is not None
        assert self.namespace is not None
        argv = [part for part in self._argv if part != "--live-restore"]
        if live_restore:
            argv.append("--live-restore")
        (self.directory / "dockerd.pid").unlink(missing_ok=True)
        # Its containerd died with it; where nobody reaps that, a new engine takes it for alive.
        (self.directory / "exec" / "containerd" / "containerd.pid").unlink(missing_ok=True)
        with (self.directory / "dockerd.log").open("ab") as log:
            subprocess.run(
                ["setsid", "--fork", "nsenter", f"--net=/run/netns/{self.namespace}", *argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=True,
            )
        wait_until(self.is_answering, "the engine answers", _PATIENCE_S)

    def is_answering(self) -> bool:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(2)
            try:
                asking.connect(str(self.socket))
                asking.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return b" 200 " in asking.recv(4096)
            except OSError:
                return False

    def stop(self) -> None:
        """End all its containers, then the daemon: nothing of it is left for its script to wait
        for, which cannot tell a dead process that nobody reaps from a live one."""
        assert self.directory is not None
        pid_file = self.directory / "dockerd.pid"
        if pid_file.exists() and is_alive(self.pid):
            self.thaw()
            if self.is_answering():
                self._remove_containers()
            self.terminate()
        pid_file.unlink(missing_ok=True)
        self.close_clients()

    def _remove_containers(self) -> None:
        import docker

        api = self.client().api
        for container in api.containers(all=True):
            with contextlib.suppress(docker.errors.APIError):  # it is being removed already
                api.remove_container(container["Id"], force=True, v=True)

    def freeze(self) -> None:
        """SIGSTOP the daemon: it accepts connections and never answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def run_in_network(self, *argv: str) -> "subprocess.Popen[bytes]":
        """Start a program in the engine's network namespace: what it serves on a loopback
        address there is reached by the engine and by nobody else."""
        assert self.namespace is not None
        return subprocess.Popen(["nsenter", f"--net=/run/netns/{self.namespace}", *argv])


def _command_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")


def engine_problem() -> str | None:
    """Why this user cannot have a private engine here; None when one can be started."""
    if os.geteuid() != 0:
        return "a private Docker engine needs root"
    if shutil.which("dockerd") is None:
        return "dockerd is not installed: apt-get install docker.io"
    return None


def require_private_engine() -> None:
    """Skip the test where none can be started; as root or in CI that is a failure."""
    problem = engine_problem()
    if problem is not None:
        must = os.geteuid() == 0 or os.environ.get("CI") == "true"
        (pytest.fail if must else pytest.skip)(f"docker: {problem}")


@contextmanager
def private_engine() -> Iterator[Engine]:
    """A new engine, which is gone afterwards with all it had, even when this process is killed."""
    require_private_engine()
    script = subprocess.Popen(
        [str(SCRIPT), "sh", "-c", _TELL_AND_WAIT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={k: v for k, v in os.environ.items() if k != "ARL_ENGINE_DIR"},
    )
    assert script.stdin is not None
    assert script.stdout is not None
    try:
        told = script.stdout.readline().decode().split()
        assert len(told) == 2, "the engine did not start: see what its script said"
        directory = Path(told[0])
        engine = Engine(f"unix://{directory}/docker.sock", directory, told[1])
        try:
            yield engine
        finally:
            engine.stop()
    finally:
        script.stdin.close()
        script.stdout.close()
        script.wait(_PATIENCE_S)


@contextmanager
def shared_engine() -> Iterator[Engine]:
    """The engine that DOCKER_HOST names if the tests were started with one, else a new one."""
    host = os.environ.get("DOCKER_HOST")
    if host is None:
        with private_engine() as engine:
            yield engine
        return
    directory = os.environ.get("ARL_ENGINE_DIR")
    engine = Engine(
        host, Path(directory) if directory else None, os.environ.get("ARL_ENGINE_NAMESPACE")
    )
    yield engine
    engine.close_clients()
