"""Puts the parts of the service together, and takes them apart."""

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fastapi import FastAPI

from examples.job_server import root_lock
from examples.job_server.app import create_app
from examples.job_server.attempts import Attempts
from examples.job_server.blobs import Blobs
from examples.job_server.machines import Machines
from examples.job_server.routes import Parts
from examples.job_server.state import State
from ledger.artifacts import ArtifactStore
from ledger.errors import Conflict
from targets.http_job import signing as http_signing
from targets.protocol import Target
from targets.registry import Place, make_target

log = logging.getLogger("job_server")

WIPE_S = 20.0
QUIET = ("/v1/news", "/v1/health")
"""Requests that do not count as use of a machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    root: Path
    kind: str
    secret: str
    slots: int = 4
    gpu_ids: Sequence[str] = ()
    blob_bytes: int = 64 * 1024**3
    """Of the largest file that is taken."""
    max_machines: int = 0
    """0: it creates none."""


@dataclass(slots=True)
class Service:
    """One running service."""

    app: FastAPI
    attempts: Attempts
    machines: Machines | None
    state: State
    target: Target

    def close(self) -> None:
        """Attempts and machines go on running."""
        self.attempts.close()
        if self.machines is not None:
            self.machines.close()
        self.target.close()
        self.state.close()


def build(config: Config) -> Service:
    """Raises RootTaken, and what making the target raises."""
    root = config.root.absolute()
    root.mkdir(parents=True, exist_ok=True)
    root.chmod(0o700)
    root_lock.hold(root)
    store = ArtifactStore(root / "artifacts")
    target = _target(root, config.kind, store)
    state = State(root / "state.db")
    blobs = Blobs(root, store, limit_bytes=config.blob_bytes)
    attempts = Attempts(target, state, blobs, slots=config.slots, gpu_ids=config.gpu_ids)
    key = http_signing.key_of(config.secret)
    machines = None
    if config.max_machines:
        machines = Machines(root, state, key, limit=config.max_machines, wipe=wipe)
    parts = Parts(target=target, attempts=attempts, blobs=blobs, machines=machines)
    app = create_app(parts, key, _Diary(root).heard)
    return Service(app, attempts, machines, state, target)


def wipe(root: Path) -> None:
    """End whatever runs in the directory of a service that is gone."""
    if not (root / "state.db").exists():
        return
    state = State(root / "state.db")
    target = _target(root, (root / "kind").read_text(), ArtifactStore(root / "artifacts"))
    try:
        for row in [*state.attempts("running"), *state.attempts("ended")]:
            target.kill(row.handle or row.name)
            _release(target, row.handle or row.name)
    finally:
        target.close()
        state.close()


def _release(target: Target, handle: str) -> None:
    until = time.monotonic() + WIPE_S
    while True:
        try:
            target.release(handle)
            return
        except Conflict as error:
            if time.monotonic() > until:
                log.warning("attempt %s does not end: %s", handle, error)
                return
            time.sleep(0.05)


def _target(root: Path, kind: str, store: ArtifactStore) -> Target:
    place = Place(root=root / kind, store=store, host="job-server", options=_options(kind))
    place.root.mkdir(exist_ok=True)
    return make_target(kind, place)


def _options(kind: str) -> dict[str, str]:
    engine = os.environ.get("DOCKER_HOST")
    return {"engine": engine} if kind == "docker" and engine else {}


@dataclass(slots=True)
class _Diary:
    """Two empty files whose times tell a parent service whether this machine is in use: `heard`,
    touched by every request, and `used`, by those about attempts."""

    root: Path
    _heard_at: float = field(default=0.0)

    def heard(self, path: str) -> None:
        if path not in QUIET:
            (self.root / "used").touch()
        now = time.monotonic()
        if now - self._heard_at >= 1.0:
            self._heard_at = now
            (self.root / "heard").touch()
