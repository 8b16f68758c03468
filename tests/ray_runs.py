"""Shared by the tests of the Ray target: a target on the cluster, and attempts placed on it."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ledger.artifacts import ArtifactStore
from targets.protocol import Target
from targets.ray_job.target import RayTarget
from targets.registry import Place, make_target
from tests.ray_cluster import RayCluster
from tests.target_runs import attempt, shell, wait_until


@contextmanager
def ray_target(
    cluster: RayCluster,
    base: Path,
    *,
    sandbox: str | None = "local",
    store: ArtifactStore | None = None,
    root: str = "ray",
) -> Iterator[RayTarget]:
    """One with a shared folder in `base`; several of one base share it and the driver."""
    chosen = store if store is not None else ArtifactStore(base / "store")
    options = cluster.options(base, sandbox=sandbox)
    made = make_target("ray", Place(root=base / root, store=chosen, host="here", options=options))
    assert isinstance(made, RayTarget)
    try:
        yield made
    finally:
        made.close()


def placed(script: str, resources: Mapping[str, float] | None = None, **more: Any) -> Any:
    """An attempt of a shell script that takes custom resources of a node."""
    options = {} if resources is None else {"resources": dict(resources)}
    return attempt(shell(script), options=options, **more)


def wait_for_log(target: Target, handle: str, text: str, patience_s: float = 30.0) -> None:
    """Until a running attempt has printed `text`."""
    wait_until(
        lambda: text.encode() in target.read_log(handle, offset=0, limit=1 << 20).data,
        f"{handle} prints {text!r}",
        patience_s,
    )


def left_on_nodes(cluster: RayCluster) -> list[str]:
    """Files of attempts below the nodes' homes; what every node keeps is not among them."""
    kept = ("code-", "supervisor", "/cache/", "/trash/", "/etc/", "/seccomp-")
    homes = cluster.folder / "tmp"
    found = [str(p) for p in homes.rglob("*") if not p.is_dir() or "/attempts/" in str(p)]
    return [path for path in found if not any(part in path for part in kept)]


def wait_clean(cluster: RayCluster, patience_s: float = 20.0) -> None:
    until = time.monotonic() + patience_s
    while left := left_on_nodes(cluster):
        assert time.monotonic() < until, f"left on the nodes: {left}"
        time.sleep(0.1)


def stored(base: Path, folder: str) -> list[str]:
    """Names below a folder of the shared store."""
    path = base / "shared" / folder
    return sorted(os.listdir(path)) if path.is_dir() else []
