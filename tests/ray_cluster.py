"""A private Ray cluster of several nodes on this machine, all on loopback, in a process apart."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

LOOPBACK = "127.0.0.2"
"""Not .1: Ray takes that for `this machine, by whatever address others know it`."""
START_S = 90.0
ROOT = str(Path(__file__).resolve().parents[1])


def require_ray() -> None:
    """Skip where Ray is not installed; as root or in CI that is a failure."""
    import importlib.util

    if importlib.util.find_spec("ray") is None:
        must = os.geteuid() == 0 or os.environ.get("CI") == "true"
        (pytest.fail if must else pytest.skip)("Ray is not installed: pip install 'arl[ray]'")


class RayCluster:
    """A head without processors and the nodes that tests add."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self._process = process
        self.folder = folder
        self.address: str = self._receive()["address"]

    def options(self, base: Path, *, sandbox: str | None = None) -> dict[str, str]:
        """Of a target on this cluster, with a shared folder of its own in `base`."""
        given = {"address": self.address, "storage": f"file://{base}/shared"}
        return given if sandbox is None else {**given, "sandbox": sandbox}

    def add_node(self, **arguments: Any) -> str:
        """Start a node (num_cpus, num_gpus, resources …) and return its id."""
        node: str = self._ask("add", **arguments)["node"]
        return node

    def kill_node(self, node: str) -> None:
        """As when its machine loses power: its raylet is killed, nothing is told."""
        self._ask("kill", node=node)

    def kill_head(self) -> None:
        self._ask("kill_head")

    def _ask(self, operation: str, **arguments: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"op": operation, **arguments}) + "\n")
        self._process.stdin.flush()
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise AssertionError(f"the cluster ended: {self._log()}")

    def _log(self) -> str:
        return Path(self.folder, "cluster.log").read_text()[-3000:]


@contextmanager
def ray_cluster() -> Iterator[RayCluster]:
    """A head on loopback, gone with all its nodes and files at the end."""
    require_ray()
    folder = Path(tempfile.mkdtemp(prefix="arl-ray-"))  # short: sockets are below it
    environment = {
        **os.environ,
        "RAY_TMPDIR": str(folder),
        "TMPDIR": str(folder / "tmp"),
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": "",
    }
    (folder / "tmp").mkdir()
    with open(folder / "cluster.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
    try:
        yield RayCluster(process, folder)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)


def _serve() -> None:
    """The process apart: commands come in on stdin, answers go out on stdout, a line each."""
    from ray.cluster_utils import Cluster

    quiet = {"include_dashboard": False, "node_ip_address": LOOPBACK, "num_cpus": 0}
    cluster = Cluster(initialize_head=True, head_node_args=quiet)
    nodes: dict[str, Any] = {}

    def say(**answer: Any) -> None:
        print(json.dumps(answer), flush=True)

    say(address=cluster.address)
    try:
        for line in sys.stdin:
            command = json.loads(line)
            operation = command.pop("op")
            if operation == "add":
                node = cluster.add_node(node_ip_address=LOOPBACK, **command)
                nodes[node.node_id] = node
                say(node=node.node_id)
            elif operation == "kill":
                cluster.remove_node(nodes.pop(command["node"]), allow_graceful=False)
                say()
            elif operation == "kill_head":
                cluster.head_node.kill_all_processes(check_alive=False, allow_graceful=False)
                say()
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    _serve()
