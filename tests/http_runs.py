"""Shared by the tests of target http: the reference service in a process, and targets for it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ledger.artifacts import ArtifactStore
from targets.http_job.client import Patience
from targets.http_job.target import HttpTarget
from targets.outbound import AddressPolicy
from tests.target_runs import end_supervisor, wait_until

ROOT = Path(__file__).resolve().parents[1]
SECRET = "0123456789abcdef" * 4
SECRET_NAME = "ARL_SECRET_JOB_TESTS"
HERE = AddressPolicy(allow_private=True)
QUICK = Patience(try_s=2.0, call_s=6.0, first_wait_s=0.02, longest_wait_s=0.5, longest_rest_s=1.0)
BRIEF = replace(QUICK, call_s=1.5)
"""For a service that never comes right: every call to it takes its whole time."""


class JobServer:
    """The reference service on loopback, which can be killed and come back on its port."""

    def __init__(self, root: Path, *options: str, kind: str = "local", secret: str = SECRET):
        self.root = root
        self.kind = kind
        self._options = options
        self._secret = secret
        self._port = "0"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.start()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        self.root.mkdir(exist_ok=True)
        ready = self.root / f"ready-{time.monotonic_ns()}"
        argv = [sys.executable, "-m", "examples.job_server", "--root", str(self.root)]
        argv += ["--target", self.kind, "--port", self._port, "--ready-file", str(ready)]
        with (self.root / "test.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*argv, *self._options],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env={**os.environ, "ARL_JOB_SECRET": self._secret},
            )
        process = self._process

        def is_up() -> bool:
            assert process.poll() is None, self.log()
            return ready.exists()

        wait_until(is_up, "the job service serves", patience_s=60.0)
        self.url = ready.read_text()
        self._port = self.url.rpartition(":")[2]
        ready.unlink()

    def kill(self) -> None:
        """SIGKILL; what it runs goes on."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """For good, with the supervisor of its target."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill()
        end_supervisor(self.root / self.kind)
        for machine in (self.root / "machines").glob("*/local"):
            end_supervisor(machine)

    def log(self) -> str:
        return (self.root / "test.log").read_text(errors="replace")[-4000:]


@contextmanager
def job_server(root: Path, *options: str, **more: str) -> Iterator[JobServer]:
    server = JobServer(root, *options, **more)
    try:
        yield server
    finally:
        server.stop()


def http_target(
    base: Path,
    url: str,
    store: ArtifactStore | None = None,
    *,
    secret: str = SECRET,
    machine: Mapping[str, object] | None = None,
    patience: Patience = QUICK,
) -> HttpTarget:
    """With a directory of its own below `base`, and little patience."""
    root = base / "http-root"
    root.mkdir(exist_ok=True)
    return HttpTarget(
        root,
        store if store is not None else ArtifactStore(base / "store"),
        url=url,
        secret=secret,
        machine=machine,  # type: ignore[arg-type]
        policy=HERE,
        patience=patience,
    )
