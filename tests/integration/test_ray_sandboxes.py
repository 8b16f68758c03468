"""Sandboxes on the nodes of a Ray cluster: they hold, and a node without one is passed over."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.artifacts import ArtifactStore
from targets.protocol import ExitCause, Program
from targets.ray_job.target import RayTarget
from tests.ray_cluster import RayCluster
from tests.ray_runs import placed, ray_target, stored
from tests.target_runs import attempt, finish, log_of, require_bubblewrap

pytestmark = [pytest.mark.ray, pytest.mark.bubblewrap]

PROBE = """
import os, socket
def tries(what, call):
    try:
        call()
    except OSError as error:
        print(what, "refused")
    else:
        print(what, "WORKS")
tries("storage", lambda: os.listdir(STORAGE))
tries("node home", lambda: os.listdir(HOME_OF_NODE))
tries("network", lambda: socket.create_connection((HOST, int(PORT)), 2))
tries("host file", lambda: open("/etc/shadow").read())
tries("input", lambda: open(os.environ["ARL_INPUTS"] + "/data/rows", "w"))
tries("kill", lambda: os.kill(ACTOR, 9))
print("environment", sorted(k for k in os.environ if "RAY" in k or "AWS" in k))
print("processes", sum(name.isdigit() for name in os.listdir("/proc")) < 5)
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_bubblewrap()
    return tmp_path_factory.mktemp("sandboxes")


@pytest.fixture(scope="module")
def target(ray_nodes: RayCluster, base: Path) -> Iterator[RayTarget]:
    with ray_target(ray_nodes, base, sandbox="bubblewrap") as made:
        yield made


def test_a_hostile_program_on_a_node_reaches_nothing(
    ray_nodes: RayCluster, target: RayTarget, base: Path, tmp_path: Path
) -> None:
    (tmp_path / "rows").write_text("1\n")
    tree = ArtifactStore(base / "store").put_tree(tmp_path)
    host, _, port = ray_nodes.address.partition(":")
    places = {
        "STORAGE": f"{base}/shared",
        "HOME_OF_NODE": f"{ray_nodes.folder}/tmp",
        "HOST": host,
        "PORT": port,
        "ACTOR": os.getpid(),
    }
    code = "".join(f"{k} = {v!r}\n" for k, v in places.items()) + PROBE
    program = Program(argv=("/usr/bin/python3", "-c", code), python="/usr/bin/python3")
    ended = finish(target, target.launch(attempt(program, inputs={"data": tree})))
    said = log_of(target, ended.handle)
    assert ended.exit.code == 0, said
    assert "WORKS" not in said
    assert said.count("refused") == 6
    assert "environment []" in said
    assert "processes True" in said
    assert target.is_sandbox


@pytest.mark.slow
def test_a_node_without_a_sandbox_is_passed_over_by_the_next_attempt(
    ray_nodes: RayCluster, base: Path, tmp_path: Path
) -> None:
    bare = ray_nodes.add_node(num_cpus=2, resources={"pair": 2}, env_vars={"PATH": "/nowhere"})
    with ray_target(ray_nodes, tmp_path, sandbox="bubblewrap") as target:
        first = finish(target, target.launch(placed("exit 0", {"pair": 1})))
        assert first.exit.cause is ExitCause.LAUNCH_FAILED
        assert "install the package bubblewrap" in first.exit.detail
        assert "target.sandbox: local" in first.exit.detail
        assert stored(tmp_path, "nodes") == [bare]
        good = ray_nodes.add_node(num_cpus=2, resources={"pair": 2})
        for _ in range(2):
            second = finish(target, target.launch(placed("exit 0", {"pair": 1})))
            claim = tmp_path / "shared" / "attempts" / second.handle / "claim"
            assert (second.exit.cause, second.exit.code) == (ExitCause.EXITED, 0)
            assert json.loads(claim.read_bytes())["node"] == good
    for node in (bare, good):
        ray_nodes.kill_node(node)
