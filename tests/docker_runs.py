"""Shared by the tests of the Docker target: targets on a private engine, and its containers."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ledger.artifacts import ArtifactStore
from targets import layout
from targets.docker_container.target import DockerTarget
from targets.protocol import Program
from tests.private_engine import Engine
from tests.target_runs import end_supervisor, is_alive, supervisor_pid, wait_until


@contextmanager
def docker_target(
    base: Path, engine: Engine, store: ArtifactStore | None = None
) -> Iterator[DockerTarget]:
    """A target with a root of its own, whose keeper is gone afterwards."""
    root = base / "docker-root"
    chosen = store if store is not None else ArtifactStore(base / "store")
    made = DockerTarget(root, chosen, host="here", options={"engine": engine.host})
    try:
        yield made
    finally:
        made.close()
        end_supervisor(root)


def kill_keeper(target: DockerTarget) -> None:
    pid = supervisor_pid(target)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid), "the keeper is gone")


def in_image(image: str, script: str) -> Program:
    return Program(argv=("/bin/sh", "-c", script), python="python3", image=image)


def names_of(engine: Engine) -> list[str]:
    """Every container there is, ended ones too."""
    found: list[dict[str, Any]] = engine.client().api.containers(all=True)
    return sorted(container["Names"][0].lstrip("/") for container in found)


def state_of(engine: Engine, name: str) -> str:
    """Of a container, by the engine; empty when there is none."""
    import docker

    try:
        return str(engine.client().api.inspect_container(name)["State"]["Status"])
    except docker.errors.NotFound:
        return ""


def wait_until_started(engine: Engine, name: str) -> None:
    wait_until(lambda: state_of(engine, name) == "running", f"{name} runs", 30.0)


def wait_until_gone(engine: Engine, *names: str) -> None:
    wait_until(lambda: not set(names) & set(names_of(engine)), f"{names} are removed", 30.0)


def record_of(target: DockerTarget, handle: str) -> layout.Fact:
    return layout.read_record(f"{target._root}/{layout.ATTEMPTS}/{handle}") or {}
