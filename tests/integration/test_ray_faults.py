"""Nodes, controllers, drivers and stored files that fail under attempts on a Ray cluster."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.artifacts import ArtifactStore
from ledger.errors import TargetUnavailable
from ledger.records import AttemptKind
from targets.protocol import Exit, ExitCause, Program
from targets.ray_job.records import Record
from targets.ray_job.target import RayTarget
from targets.registry import Place, make_target
from tests.ray_cluster import ROOT, RayCluster, ray_cluster
from tests.ray_runs import placed, ray_target, stored, wait_clean, wait_for_log
from tests.target_runs import attempt, finish, is_alive, log_of, processes_marked, wait_until

pytestmark = pytest.mark.ray

REPORT = """echo '{"step": %d, "metric": "loss", "value": %s}' >> "$ARL_REPORTS"; """
ESCAPES = "setsid sleep 300 & (setsid sh -c 'sleep 300 & sleep 300' &) ; "


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def store(base: Path) -> ArtifactStore:
    return ArtifactStore(base / "store")


@pytest.fixture(scope="module")
def target(ray_nodes: RayCluster, base: Path, store: ArtifactStore) -> Iterator[RayTarget]:
    with ray_target(ray_nodes, base, store=store) as made:
        yield made


def processes_of(handle: str) -> list[int]:
    """Of the program and what it started: their environment names the attempt."""
    return processes_marked(f"ARL_ATTEMPT={handle}")


def actor_of(base: Path, handle: str) -> int:
    claim = json.loads((base / "shared" / "attempts" / handle / "claim").read_bytes())
    return int(claim["pid"])


def test_an_attempt_on_a_killed_node_is_lost_and_nothing_of_it_runs_on(
    ray_nodes: RayCluster, target: RayTarget, base: Path
) -> None:
    node = ray_nodes.add_node(num_cpus=2, resources={"doomed": 1})
    spec = placed(REPORT % (1, 0.5) + ESCAPES + "echo up; sleep 300", {"doomed": 1})
    handle = target.launch(spec)
    wait_for_log(target, handle, "up")
    wait_until(lambda: target.observe(handle, cursor="").values, "its report is seen", 10.0)
    assert [v.value for v in target.observe(handle, cursor="").values] == [0.5]
    pids = processes_of(handle)
    assert len(pids) >= 3
    ray_nodes.kill_node(node)
    started = time.monotonic()
    ended = finish(target, handle)
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.LOST, None)
    assert time.monotonic() - started < 25
    wait_until(lambda: not any(map(is_alive, pids)), "its programs end", 20.0)
    assert target.launch(spec) == handle, "and it is not started again"
    time.sleep(0.5)
    assert processes_of(handle) == []
    assert finish(target, handle).exit.cause is ExitCause.LOST
    target.release(handle)
    wait_clean(ray_nodes)


def test_a_killed_actor_takes_its_program_with_it(
    ray_nodes: RayCluster, target: RayTarget, base: Path
) -> None:
    handle = target.launch(placed(ESCAPES + "echo up; trap '' TERM; sleep 300; sleep 300"))
    wait_for_log(target, handle, "up")
    pids = processes_of(handle)
    os.kill(actor_of(base, handle), signal.SIGKILL)
    assert finish(target, handle).exit.cause is ExitCause.LOST
    wait_until(lambda: not any(map(is_alive, pids)), "its programs end", 20.0)
    target.release(handle)
    wait_clean(ray_nodes)
    assert target._link.call("groups") == []


@pytest.mark.slow
def test_what_an_actor_and_its_guard_left_when_both_died_is_ended_by_the_next_attempt(
    ray_nodes: RayCluster, target: RayTarget, base: Path
) -> None:
    handle = target.launch(placed("echo up; sleep 300", limits={"timeout_s": 300.0}))
    wait_for_log(target, handle, "up")
    pids = processes_of(handle)
    guards = [pid for pid in processes_marked(handle) if pid not in pids]
    guards = [
        pid for pid in guards if b"ray_job.guard" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    assert len(guards) == 1
    os.kill(guards[0], signal.SIGKILL)
    os.kill(actor_of(base, handle), signal.SIGKILL)
    assert finish(target, handle).exit.cause is ExitCause.LOST
    assert any(map(is_alive, pids)), "nobody ended it"
    (marker,) = (ray_nodes.folder / "tmp").glob(f"arl-ray-*/*/guards/{handle}")
    os.utime(marker, (time.time() - 1000,) * 2)
    assert finish(target, target.launch(placed("exit 0"))).exit.code == 0
    wait_until(lambda: not any(map(is_alive, pids)), "the next attempt ends it", 20.0)
    target.release(handle)
    wait_clean(ray_nodes)


LAUNCHER = """
import sys
from pathlib import Path
from tests.ray_cluster import RayCluster
from tests.ray_runs import placed
from targets.registry import Place, make_target
from ledger.artifacts import ArtifactStore
base, address, root, name, script = sys.argv[1:]
options = {"address": address, "storage": f"file://{base}/shared", "sandbox": "local"}
place = Place(root=Path(base, root), store=ArtifactStore(Path(base, "store")), host="there",
              options=options)
target = make_target("ray", place)
target.launch(placed(script, name=name))
print("launched", flush=True)
sys.stdin.read()
"""


def start_controller(
    cluster: RayCluster, base: Path, name: str, script: str, root: str
) -> "subprocess.Popen[str]":
    """Another process, as on another host, that launches an attempt and then waits."""
    arguments = [str(base), cluster.address, root, name, script]
    return subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_another_host_adopts_what_a_killed_controller_launched(
    ray_nodes: RayCluster, target: RayTarget, base: Path
) -> None:
    script = REPORT % (1, 0.5) + f"while [ ! -e {base}/go ]; do sleep 0.05; done; echo done; "
    script += 'echo out > "$ARL_OUTPUT/x"'
    other = start_controller(ray_nodes, base, "arl-adopted", script, "other")
    assert other.stdout is not None
    assert other.stdout.readline() == "launched\n"
    other.kill()
    other.communicate()
    found = {f.name: f.running for f in target.list_owned("ledger-1")}
    assert found["arl-adopted"] is True
    assert target.launch(placed("exit 9", name="arl-adopted")) == "arl-adopted"
    assert target.wait({"arl-adopted"}, 20.0) == {"arl-adopted"}
    wait_until(lambda: target.observe("arl-adopted", cursor="").values, "its values come")
    (base / "go").touch()
    ended = finish(target, "arl-adopted")
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 0)
    assert [v.value for v in ended.values] == [0.5]
    assert log_of(target, "arl-adopted") == "done\n"
    assert Path(target.outputs("arl-adopted").root, "x").read_text() == "out\n"


@pytest.mark.slow
def test_an_attempt_that_two_controllers_launch_at_once_starts_once(
    ray_nodes: RayCluster, target: RayTarget, base: Path
) -> None:
    script = f"echo $$ >> {base}/started; sleep 1"
    others = [start_controller(ray_nodes, base, "arl-race", script, f"r{n}") for n in range(2)]
    for other in others:
        assert other.stdout is not None
        assert other.stdout.readline() == "launched\n"
    assert finish(target, "arl-race").exit.code == 0
    for other in others:
        other.communicate("")
    assert len((base / "started").read_text().split()) == 1


def test_a_driver_that_dies_is_replaced_and_nothing_is_missed(
    target: RayTarget, base: Path
) -> None:
    script = f"echo up; while [ ! -e {base}/on ]; do sleep 0.05; done; " + REPORT % (1, 0.5)
    handle = target.launch(placed(script))
    wait_for_log(target, handle, "up")
    target.wait({handle}, 0.0)
    process = target._link._process
    assert process is not None
    process.kill()
    (base / "on").touch()
    ended = finish(target, handle)
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 0)
    assert [v.value for v in ended.values] == [0.5]


def test_an_input_damaged_in_the_store_never_runs_and_is_sent_anew(
    target: RayTarget, base: Path, store: ArtifactStore, tmp_path: Path
) -> None:
    (tmp_path / "rows").write_text("one row\n")
    tree = store.put_tree(tmp_path)
    program = Program(argv=("/bin/cat", "{data}/rows"), python="python")
    holder = target.launch(placed("echo holds; sleep 60", {"left": 4}))
    wait_for_log(target, holder, "holds")
    spec = attempt(program, inputs={"data": tree}, options={"resources": {"left": 1}})
    target.launch(spec)
    stored_tree = base / "shared" / "trees" / tree
    stored_tree.write_bytes(stored_tree.read_bytes().replace(b"one", b"two"))
    target.kill(holder)
    ended = finish(target, spec.name)
    assert ended.exit.cause is ExitCause.LAUNCH_FAILED
    assert "damaged" in ended.exit.detail
    again = target.launch(attempt(program, inputs={"data": tree}))
    assert finish(target, again).exit.code == 0
    assert log_of(target, again) == "one row\n"


@pytest.mark.parametrize("part", ["score", "output"])
def test_what_was_damaged_in_the_store_is_lost_and_never_read(
    ray_nodes: RayCluster, target: RayTarget, base: Path, store: ArtifactStore, part: str
) -> None:
    script = 'echo "{\\"accuracy\\": 0.5}" >&3; echo weights > "$ARL_OUTPUT/model"'
    handle = target.launch(placed(script, kind=AttemptKind.EVALUATE))
    stored_part = base / "shared" / "attempts" / handle / part
    record = stored_part.with_name("record")
    wait_until(record.exists, "it ends", 30.0)
    data = stored_part.read_bytes()
    stored_part.write_bytes(data.replace(b"0.5", b"0.9").replace(b"weights", b"WEIGHTS"))
    ended = finish(target, handle)
    assert ended.exit.cause is ExitCause.LOST
    assert "damaged" in ended.exit.detail
    assert target.score(handle) == b""
    assert os.listdir(target.outputs(handle).root) == []


def test_a_node_that_comes_back_after_its_attempt_was_given_up_changes_nothing(
    ray_nodes: RayCluster, target: RayTarget, base: Path
) -> None:
    handle = target.launch(placed("echo up; sleep 1.5; echo over"))
    wait_for_log(target, handle, "up")
    given_up = Record(exit=Exit(cause=ExitCause.LOST, code=None, detail="given up"))
    target._shared.create(f"attempts/{handle}/record", given_up.to_bytes())
    wait_until(lambda: not processes_of(handle), "it ends", 20.0)
    time.sleep(1.0)
    assert finish(target, handle).exit == given_up.exit
    target.release(handle)
    wait_clean(ray_nodes)


def test_a_store_that_is_not_mounted_is_a_target_that_is_away(
    ray_nodes: RayCluster, tmp_path: Path
) -> None:
    with ray_target(ray_nodes, tmp_path) as target:
        handle = target.launch(placed("sleep 60"))
        (tmp_path / "shared").rename(tmp_path / "away")
        with pytest.raises(TargetUnavailable, match="is it mounted"):
            target.list_owned("ledger-1")
        (tmp_path / "away").rename(tmp_path / "shared")
        wait_until(lambda: "claim" in stored(tmp_path, f"attempts/{handle}"), "it starts", 20.0)
        target.kill(handle)
        assert finish(target, handle).exit.cause is ExitCause.KILLED


@pytest.mark.slow
def test_a_cluster_that_is_gone_is_a_target_that_is_away_and_what_ended_before_is_kept(
    tmp_path: Path,
) -> None:
    with ray_cluster() as cluster:
        cluster.add_node(num_cpus=2)
        with ray_target(cluster, tmp_path) as target:
            before = target.launch(placed('echo kept; echo x > "$ARL_OUTPUT/x"'))
            assert finish(target, before).exit.code == 0
            spec = placed("echo up; sleep 300", limits={"timeout_s": 300.0})
            running = target.launch(spec)
            wait_for_log(target, running, "up")
            pids = processes_of(running)
            cluster.kill_head()
            with pytest.raises(TargetUnavailable):
                finish(target, running, 120.0)
            seen = target.observe(before, cursor="")
            assert seen.exit is not None
            assert Path(target.outputs(before).root, "x").read_text() == "x\n"
            assert log_of(target, before) == "kept\n"
            with pytest.raises(TargetUnavailable, match="no Ray cluster at"):
                target.launch(placed("exit 0"))
    wait_until(lambda: not any(map(is_alive, pids)), "its programs end with it", 30.0)


@pytest.mark.slow
def test_an_address_where_there_is_no_cluster_is_a_target_that_is_away(tmp_path: Path) -> None:
    options = {"address": "127.0.0.3:1", "storage": f"file://{tmp_path}/shared"}
    place = Place(
        root=tmp_path / "ray", store=ArtifactStore(tmp_path / "s"), host="h", options=options
    )
    target = make_target("ray", place)
    started = time.monotonic()
    with pytest.raises(TargetUnavailable, match=r"no Ray cluster at 127\.0\.0\.3:1"):
        target.launch(placed("exit 0"))
    assert time.monotonic() - started < 15, "a controller has more to do than to wait"
    target.close()
