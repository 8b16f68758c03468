"""Where a Ray cluster runs an attempt; what waits, what can never run, what is cancelled."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.errors import InvalidInput, StaleFence, TargetUnavailable
from targets.protocol import ExitCause, Program
from targets.ray_job.target import RayTarget
from tests.ray_cluster import RayCluster
from tests.ray_runs import placed, ray_target, stored, wait_clean, wait_for_log
from tests.target_runs import attempt, finish, log_of, wait_until

pytestmark = pytest.mark.ray

RESOURCES = 'echo "gpus=[$CUDA_VISIBLE_DEVICES]"; '


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("places")


@pytest.fixture(scope="module")
def target(ray_nodes: RayCluster, base: Path) -> Iterator[RayTarget]:
    with ray_target(ray_nodes, base) as made:
        yield made


def node_of(base: Path, handle: str) -> str:
    """Which node claimed an attempt."""
    claim = json.loads((base / "shared" / "attempts" / handle / "claim").read_bytes())
    return str(claim["node"])


def test_custom_resources_choose_the_node(target: RayTarget, base: Path) -> None:
    handles = {
        side: [target.launch(placed("exit 0", {side: 1})) for _ in range(2)]
        for side in ("left", "right")
    }
    nodes = {
        side: {node_of(base, h) for h in launched if finish(target, h).exit.code == 0}
        for side, launched in handles.items()
    }
    assert [len(found) for found in nodes.values()] == [1, 1]
    assert nodes["left"] != nodes["right"]


def test_the_gpus_that_the_cluster_grants_are_the_ones_the_program_sees(
    target: RayTarget,
) -> None:
    first = target.launch(placed(RESOURCES + "sleep 3", limits={"gpus": 1}))
    second = target.launch(placed(RESOURCES, limits={"gpus": 1}))
    none = target.launch(placed(RESOURCES))
    for handle in (first, second, none):
        assert finish(target, handle).exit.code == 0
    assert {log_of(target, first), log_of(target, second)} == {"gpus=[0]\n", "gpus=[1]\n"}
    assert log_of(target, none) == "gpus=[]\n"


def test_what_is_busy_is_waited_for_outside_of_the_time_limit(
    target: RayTarget, base: Path
) -> None:
    limits = {"timeout_s": 2.0}
    holder = target.launch(placed("sleep 4", {"left": 4}, limits={"timeout_s": 30.0}))
    wait_until(lambda: "claim" in stored(base, f"attempts/{holder}"), "it has its place")
    waiting = target.launch(placed("echo ran", {"left": 3}, limits=limits))
    target.wait({waiting}, 0.0)
    assert target.wait({waiting}, 1.0) == set(), "waiting is no news"
    seen = target.observe(waiting, cursor="")
    assert (seen.values, seen.exit) == ((), None)
    assert target.read_log(waiting, offset=0, limit=10).size == 0
    found = {f.name: f.running for f in target.list_owned("ledger-1")}
    assert (found[waiting], found[holder]) == (True, True)
    ended = finish(target, waiting)
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 0)
    assert ended.waited_s > 2.0
    assert ended.exit.wall_s < 2.0
    assert finish(target, holder).exit.code == 0


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_one_that_is_cancelled_while_it_waits_never_starts(
    target: RayTarget, base: Path, how: str
) -> None:
    holder = target.launch(placed("echo holds; sleep 60", {"right": 4}))
    wait_for_log(target, holder, "holds")
    waiting = target.launch(placed(f"touch {base}/started", {"right": 2}))
    (target.kill if how == "kill" else target.request_stop)(waiting)
    ended = finish(target, waiting, 5.0)
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.KILLED, None)
    assert "before it started" in ended.exit.detail
    target.kill(holder)
    assert finish(target, holder).exit.cause is ExitCause.KILLED
    time.sleep(1.0)
    assert target.launch(placed("exit 0", {"right": 2}, name=waiting)) == waiting
    assert finish(target, waiting).exit == ended.exit
    assert not (base / "started").exists()
    target.release(waiting)
    assert target.list_owned("ledger-1") == [] or waiting not in {
        f.name for f in target.list_owned("ledger-1")
    }


def test_what_no_node_can_ever_hold_is_refused_with_what_there_is(target: RayTarget) -> None:
    with pytest.raises(TargetUnavailable) as refused:
        target.launch(placed("exit 0", {"teapot": 1}, limits={"cpus": 2, "gpus": 3}))
    said = str(refused.value)
    assert "no node of the cluster has CPU 2, GPU 3, teapot 1 at once" in said
    assert "CPU 8, GPU 2, left 4" in said
    assert "right 4" in said
    # Not even what two nodes have together.
    with pytest.raises(TargetUnavailable, match="left 1, right 1 at once"):
        target.launch(placed("exit 0", {"left": 1, "right": 1}))
    with pytest.raises(TargetUnavailable, match="memory"):
        target.launch(placed("exit 0", limits={"memory_bytes": 1 << 50}))


@pytest.mark.slow
def test_what_waits_for_a_node_that_is_gone_ends_as_lost_and_says_what_is_lacking(
    ray_nodes: RayCluster, target: RayTarget
) -> None:
    node = ray_nodes.add_node(num_cpus=2, resources={"rare": 1})
    holder = target.launch(placed("echo holds; sleep 60", {"rare": 1}))
    wait_for_log(target, holder, "holds")
    waiting = target.launch(placed("exit 0", {"rare": 1}))
    ray_nodes.kill_node(node)
    assert finish(target, holder).exit.cause is ExitCause.LOST
    ended = finish(target, waiting)
    assert ended.exit.cause is ExitCause.LOST
    assert "no node of the cluster has" in ended.exit.detail
    assert "rare 1" in ended.exit.detail


def test_resources_that_make_no_sense_are_refused_by_name(target: RayTarget) -> None:
    for amounts, said in (
        ({"GPU": 1}, r"target.resources.GPU: write resources.gpus instead"),
        ({"left": 0}, r"target.resources.left 0: write a number above 0"),
        ({"left": 1.5}, r"target.resources.left 1.5: above 1, only whole numbers"),
    ):
        with pytest.raises(InvalidInput, match=said):
            target.launch(placed("exit 0", amounts))


def test_a_launch_after_its_lease_starts_nothing(target: RayTarget, base: Path) -> None:
    late = placed("exit 0", launch_by=time.monotonic() - 1)
    with pytest.raises(StaleFence):
        target.launch(late)
    assert late.name not in stored(base, "attempts")


def test_an_image_where_no_engine_is_asked_for_is_a_failed_launch_that_says_so(
    target: RayTarget,
) -> None:
    program = Program(argv=("true",), python="python", image="example.org/x@sha256:" + "0" * 64)
    ended = finish(target, target.launch(attempt(program)))
    assert ended.exit.cause is ExitCause.LAUNCH_FAILED
    assert "it runs no images" in ended.exit.detail


def test_nothing_is_left_on_the_nodes_or_in_the_store_but_logs(
    ray_nodes: RayCluster, target: RayTarget, base: Path
) -> None:
    owner = "ledger-places-end"
    kept = target.launch(placed("echo kept; echo x > $ARL_OUTPUT/x", owner=owner))
    finish(target, kept)
    target.release(kept)
    for found in target.list_owned("ledger-1"):
        target.kill(found.handle)
        finish(target, found.handle)
        target.release(found.handle)
    assert stored(base, "attempts") == []
    assert stored(base, f"owners/{owner}") == []
    assert stored(base, "owners/ledger-1") == []
    assert log_of(target, kept) == "kept\n"
    assert target._link.call("groups") == []
    wait_clean(ray_nodes)
