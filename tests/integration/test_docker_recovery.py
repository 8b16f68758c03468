"""The Docker target when its keeper, its controller or its engine is killed, hung or gone."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.errors import TargetUnavailable
from targets import layout
from targets.docker_container.body import FENCE_LABEL, ROOT_LABEL
from targets.docker_container.box import Box
from targets.docker_container.calls import EngineCalls, Trouble
from targets.docker_container.skeleton import system_image
from targets.docker_container.target import DockerTarget
from targets.protocol import ExitCause
from tests.docker_runs import (
    docker_target,
    kill_keeper,
    names_of,
    state_of,
    wait_until_gone,
    wait_until_started,
)
from tests.private_engine import Engine
from tests.target_runs import attempt, finish, log_of, wait_until

pytestmark = pytest.mark.docker

REPORT = """echo '{"step": %d, "metric": "loss", "value": 1}' >> "$ARL_REPORTS"; """
UNTIL_ASKED = 'while [ ! -e "$ARL_STOP" ]; do sleep 0.02; done; '
BODY = {
    "Image": system_image(),
    "Entrypoint": ["/bin/sh"],
    "Cmd": ["-c", "exit 0"],
    "HostConfig": {"NanoCpus": 10**9, "Tmpfs": {"/tmp": "size=1m"}, "SecurityOpt": []},
}
INFO = {"NCPU": 1, "SecurityOptions": []}
STAYS = "trap 'exit 5' TERM; while :; do sleep 0.1; done"


@pytest.fixture
def target(tmp_path: Path, docker_engine: Engine) -> Iterator[DockerTarget]:
    with docker_target(tmp_path, docker_engine) as made:
        yield made


@pytest.fixture
def fragile(tmp_path: Path, own_engine: Engine) -> Iterator[DockerTarget]:
    """On an engine that the test may kill."""
    with docker_target(tmp_path, own_engine) as made:
        yield made


def test_a_program_outlives_its_keeper_and_is_adopted_with_all_it_said(
    target: DockerTarget, docker_engine: Engine
) -> None:
    script = "echo first; " + REPORT % 1 + UNTIL_ASKED + REPORT % 2 + "echo second; exit 4"
    handle = target.launch(attempt(script))
    wait_until(lambda: "first" in log_of(target, handle), "it logs")
    kill_keeper(target)
    assert state_of(docker_engine, handle) == "running"
    assert target.observe(handle, cursor="").exit is None, "adopted, not lost"
    target.request_stop(handle)
    ended = finish(target, handle)
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 4)
    assert [value.step for value in ended.values] == [1, 2]
    assert log_of(target, handle) == "first\nsecond\n"


def test_an_end_without_a_keeper_is_read_from_the_engine(
    target: DockerTarget, docker_engine: Engine
) -> None:
    handle = target.launch(attempt("echo in; sleep 0.5; echo out; exit 3"))
    wait_until_started(docker_engine, handle)
    kill_keeper(target)
    wait_until(lambda: state_of(docker_engine, handle) == "exited", "it ends")
    ended = finish(target, handle)
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 3)
    assert log_of(target, handle) == "in\nout\n"
    wait_until_gone(docker_engine, handle)


def test_the_deadline_is_the_first_keepers(target: DockerTarget, docker_engine: Engine) -> None:
    handle = target.launch(attempt("sleep 30", limits={"timeout_s": 4.0}))
    wait_until_started(docker_engine, handle)
    time.sleep(2.5)
    kill_keeper(target)
    ended = finish(target, handle)
    assert ended.exit.cause is ExitCause.DEADLINE
    assert 3.9 < ended.exit.wall_s < 6.4, "a deadline of the second's own would be later"


def test_an_adopted_program_can_be_killed(target: DockerTarget, docker_engine: Engine) -> None:
    handle = target.launch(attempt("trap '' TERM; sleep 30"))
    wait_until_started(docker_engine, handle)
    kill_keeper(target)
    target.kill(handle)
    ended = finish(target, handle)
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.KILLED, -signal.SIGKILL)


CONTROLLER = """
import sys
from pathlib import Path
from ledger.artifacts import ArtifactStore
from targets.docker_container.body import FENCE_LABEL, ROOT_LABEL
from targets.docker_container.box import Box
from targets.docker_container.calls import EngineCalls, Trouble
from targets.docker_container.target import DockerTarget
from targets.docker_container.skeleton import system_image
from tests.target_runs import attempt
base, host = Path(sys.argv[1]), sys.argv[2]
target = DockerTarget(base / "docker-root", ArtifactStore(base / "store"), host="here",
                      options={"engine": host})
print(target.launch(attempt("sleep 0.5; exit 6", name="arl-killed")), flush=True)
sys.stdin.read()
"""


def test_a_program_outlives_its_controller(
    target: DockerTarget, docker_engine: Engine, tmp_path: Path
) -> None:
    argv = [sys.executable, "-c", CONTROLLER, str(tmp_path), docker_engine.host]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    ) as controller:
        assert controller.stdout is not None
        assert controller.stdout.readline() == b"arl-killed\n"
        controller.kill()
    assert [found.name for found in target.list_owned("ledger-1")] == ["arl-killed"]
    ended = finish(target, "arl-killed")
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 6)


def test_a_container_removed_by_hand_is_a_lost_attempt(
    target: DockerTarget, docker_engine: Engine
) -> None:
    handle = target.launch(attempt("sleep 30"))
    wait_until_started(docker_engine, handle)
    docker_engine.client().api.remove_container(handle, force=True)
    assert finish(target, handle).exit.cause is ExitCause.LOST


def test_a_container_removed_while_no_keeper_looked_is_a_lost_attempt(
    target: DockerTarget, docker_engine: Engine
) -> None:
    handle = target.launch(attempt("sleep 30"))
    wait_until_started(docker_engine, handle)
    kill_keeper(target)
    docker_engine.client().api.remove_container(handle, force=True)
    assert finish(target, handle).exit.cause is ExitCause.LOST


def test_containers_whose_directory_vanished_are_listed_and_reaped(
    target: DockerTarget, docker_engine: Engine
) -> None:
    handle = target.launch(attempt("sleep 30", owner="ledger-orphans"))
    wait_until_started(docker_engine, handle)
    kill_keeper(target)
    shutil.rmtree(f"{target._root}/{layout.ATTEMPTS}/{handle}")
    found = target.list_owned("ledger-orphans")
    assert [(each.name, each.running) for each in found] == [(handle, True)]
    assert list(target.list_owned("ledger-other")) == []
    target.kill(handle)
    target.release(handle)
    wait_until_gone(docker_engine, handle)
    assert list(target.list_owned("ledger-orphans")) == []


def test_an_attempt_whose_directory_is_deleted_under_it_is_ended(
    target: DockerTarget, docker_engine: Engine
) -> None:
    handle = target.launch(attempt("sleep 30"))
    wait_until_started(docker_engine, handle)
    shutil.rmtree(f"{target._root}/{layout.ATTEMPTS}/{handle}")
    wait_until_gone(docker_engine, handle)


def test_a_container_made_by_a_call_whose_answer_was_lost_is_adopted(
    target: DockerTarget, docker_engine: Engine
) -> None:
    finish(target, target.launch(attempt("exit 0")))  # makes the image
    body = {**BODY, "Labels": {ROOT_LABEL: "here", FENCE_LABEL: "1"}}
    calls = EngineCalls(docker_engine.host)
    boxes = [Box(calls, INFO, {"name": "arl-twice", "body": body}) for _ in range(2)]
    for box in boxes:
        box.create()
    assert names_of(docker_engine).count("arl-twice") == 1
    other = {**body, "Labels": {ROOT_LABEL: "here", FENCE_LABEL: "2"}}
    with pytest.raises(Trouble, match="earlier attempt"):
        Box(calls, INFO, {"name": "arl-twice", "body": other}).create()
    assert "arl-twice" not in names_of(docker_engine), "what was left of it is removed"


def test_a_name_that_somebody_else_uses_is_a_failed_launch_and_theirs_is_left_alone(
    target: DockerTarget, docker_engine: Engine
) -> None:
    finish(target, target.launch(attempt("exit 0")))  # makes the image
    docker_engine.client().api.create_container_from_config(BODY, name="arl-taken")
    ended = finish(target, target.launch(attempt("exit 0", name="arl-taken")))
    assert ended.exit.cause is ExitCause.LAUNCH_FAILED
    assert "not of this ARL" in ended.exit.detail
    assert "arl-taken" in names_of(docker_engine)
    docker_engine.client().api.remove_container("arl-taken", force=True)


def test_programs_go_on_while_an_engine_with_live_restore_is_killed_and_started(
    fragile: DockerTarget, own_engine: Engine
) -> None:
    handle = fragile.launch(attempt("echo a; " + UNTIL_ASKED + "echo b; exit 4"))
    ends = fragile.launch(attempt("sleep 0.5; exit 2"))
    wait_until_started(own_engine, handle)
    wait_until_started(own_engine, ends)
    own_engine.kill()
    time.sleep(1.0)
    own_engine.start(live_restore=True)
    fragile.request_stop(handle)
    ended = finish(fragile, handle)
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 4)
    assert log_of(fragile, handle) == "a\nb\n"
    meanwhile = finish(fragile, ends)
    assert (meanwhile.exit.cause, meanwhile.exit.code) == (ExitCause.EXITED, 2)


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_what_an_engine_without_live_restore_ended_is_lost_and_no_candidates_fault(
    fragile: DockerTarget, own_engine: Engine, how: str
) -> None:
    own_engine.terminate()
    own_engine.start(live_restore=False)
    handles = [fragile.launch(attempt(script)) for script in (STAYS, "sleep 30")]
    for handle in handles:
        wait_until_started(own_engine, handle)
    getattr(own_engine, how)()
    own_engine.start(live_restore=False)
    for handle in handles:
        assert finish(fragile, handle).exit.cause is ExitCause.LOST
    after = finish(fragile, fragile.launch(attempt("exit 0")))
    assert after.exit.cause is ExitCause.EXITED


def test_an_engine_restarted_while_no_keeper_looked_makes_a_lost_attempt(
    fragile: DockerTarget, own_engine: Engine
) -> None:
    own_engine.terminate()
    own_engine.start(live_restore=False)
    handle = fragile.launch(attempt(STAYS))
    wait_until_started(own_engine, handle)
    kill_keeper(fragile)
    own_engine.kill()
    own_engine.start(live_restore=False)
    assert finish(fragile, handle).exit.cause is ExitCause.LOST


def test_without_an_engine_a_launch_says_so_and_works_once_it_is_back(
    fragile: DockerTarget, own_engine: Engine
) -> None:
    own_engine.kill()
    spec = attempt("exit 0")
    with pytest.raises(TargetUnavailable, match=r"Docker at unix://"):
        fragile.launch(spec)
    own_engine.start()
    wait_until(lambda: _can_launch(fragile, spec.name), "it can be launched")
    assert finish(fragile, spec.name).exit.code == 0


def test_a_hung_engine_refuses_launches_and_holds_up_no_deadline(
    fragile: DockerTarget, own_engine: Engine
) -> None:
    limits = {"timeout_s": 2.0, "grace_s": 0.3}
    handle = fragile.launch(attempt("trap '' TERM; sleep 60", limits=limits))
    wait_until_started(own_engine, handle)
    pid = own_engine.client().api.inspect_container(handle)["State"]["Pid"]
    own_engine.freeze()
    started = time.monotonic()
    with pytest.raises(TargetUnavailable, match="does not answer"):
        fragile.launch(attempt("exit 0"))
    assert time.monotonic() - started < 10
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "it is ended without the engine")
    own_engine.thaw()
    ended = finish(fragile, handle)
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.DEADLINE, -signal.SIGKILL)
    assert 2.0 < ended.exit.wall_s < 10


def test_an_engine_that_hangs_during_a_launch_starts_the_program_once_it_goes_on(
    fragile: DockerTarget, own_engine: Engine
) -> None:
    finish(fragile, fragile.launch(attempt("exit 0")))
    spec = attempt("echo ran; exit 0")
    fragile.launch(spec)
    own_engine.freeze()
    time.sleep(1.0)
    own_engine.thaw()
    assert finish(fragile, spec.name).exit.code == 0
    assert log_of(fragile, spec.name) == "ran\n"
    wait_until_gone(own_engine, spec.name)
    assert names_of(own_engine) == []


def _can_launch(target: DockerTarget, name: str) -> bool:
    try:
        target.launch(attempt("exit 0", name=name))
    except TargetUnavailable:
        return False
    return True
