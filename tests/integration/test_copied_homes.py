"""Two homes of which one is a copy of the other: each ends its own attempts, never its twin's."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from targets import linux
from targets.local_process import LocalProcessTarget
from targets.protocol import ExitCause
from tests.docker_runs import docker_target, kill_keeper, state_of, wait_until_started
from tests.private_engine import Engine
from tests.target_runs import (
    attempt,
    bubblewrap_target,
    end_supervisor,
    finish,
    is_alive,
    local_target,
    log_of,
    processes_marked,
    supervisor_pid,
    wait_until,
)

STRAYS = "(setsid sleep 60 &) ; setsid sleep 60 & sleep 60"
Make = Callable[[Path], LocalProcessTarget]


@contextmanager
def made(make: Make, base: Path) -> Iterator[LocalProcessTarget]:
    target = make(base)
    try:
        yield target
    finally:
        target.close()
        end_supervisor(Path(target._root))


@pytest.fixture(
    params=["local", pytest.param("bubblewrap", marks=pytest.mark.bubblewrap)],
)
def make(request: pytest.FixtureRequest) -> Make:
    return local_target if request.param == "local" else bubblewrap_target


def copy(base: Path, name: str) -> Path:
    """As a person copies a home, sockets and all."""
    other = base.with_name(name)
    subprocess.run(["cp", "-a", str(base), str(other)], check=True)
    return other


def running(target: LocalProcessTarget, handle: str) -> list[int]:
    """The processes that say they are of this target's attempt."""
    return processes_marked(f"{target._root}/attempts/{handle}/")


def wait_until_running(target: LocalProcessTarget, handle: str) -> None:
    wait_until(lambda: "on" in log_of(target, handle), f"{handle} runs")


def kill_all_of_ours(target: LocalProcessTarget) -> None:
    """The supervisor and its subreapers, but nothing of what they started."""
    supervisor = supervisor_pid(target)
    subreapers = linux.children_of(supervisor)
    os.kill(supervisor, signal.SIGSTOP)  # so that it cannot see them die
    for pid in (*subreapers, supervisor):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(supervisor), "the supervisor dies")


def test_what_runs_in_the_home_that_was_copied_goes_on(make: Make, tmp_path: Path) -> None:
    with made(make, tmp_path / "a") as ours:
        handle = ours.launch(attempt(f"echo on; {STRAYS}"))
        wait_until_running(ours, handle)
        before = set(running(ours, handle))
        with made(make, copy(tmp_path / "a", "b")) as twin:
            ended = finish(twin, handle)
            assert ended.exit.cause is ExitCause.LOST
            assert "copied" in ended.exit.detail
            twin.kill(handle)
            twin.release(handle)
        assert set(running(ours, handle)) == before != set()
        assert ours.observe(handle, cursor="").exit is None
        ours.kill(handle)
        assert finish(ours, handle).exit.cause is ExitCause.KILLED


def test_a_supervisor_that_comes_back_ends_its_own_attempts_and_not_their_namesakes(
    make: Make, tmp_path: Path
) -> None:
    with made(make, tmp_path / "a") as ours, made(make, tmp_path / "b") as twin:
        spec = attempt(f"echo on; {STRAYS}")
        for target in (ours, twin):
            target.launch(spec)
            wait_until_running(target, spec.name)
        before = set(running(ours, spec.name))
        kill_all_of_ours(twin)
        assert finish(twin, spec.name).exit.cause is ExitCause.LOST
        assert running(twin, spec.name) == []
        assert set(running(ours, spec.name)) == before != set()
        assert ours.observe(spec.name, cursor="").exit is None


def test_what_a_home_left_running_is_ended_after_it_was_moved(tmp_path: Path) -> None:
    mark = "ARL_TEST_ORPHAN=moved"
    with made(local_target, tmp_path / "a") as ours:
        handle = ours.launch(attempt(f"export {mark}; echo on; {STRAYS}"))
        wait_until_running(ours, handle)
        kill_all_of_ours(ours)
        assert processes_marked(mark) != []
    (tmp_path / "a").rename(tmp_path / "b")
    with made(local_target, tmp_path / "b") as moved:
        assert finish(moved, handle).exit.cause is ExitCause.LOST
        assert processes_marked(mark) == []


def test_what_was_prepared_and_not_started_is_prepared_anew_in_the_copy(
    make: Make, tmp_path: Path
) -> None:
    spec = attempt('echo "$HOME"; echo x > "$ARL_OUTPUT/x"')
    with made(make, tmp_path / "a") as ours:
        ours._workspaces.lay_out(spec)
        with made(make, copy(tmp_path / "a", "b")) as twin:
            assert finish(twin, twin.launch(spec)).exit.code == 0
            assert Path(twin.outputs(spec.name).root, "x").read_text() == "x\n"
        assert not os.listdir(f"{ours._root}/attempts/{spec.name}/output")


@pytest.mark.docker
def test_a_container_of_the_home_that_was_copied_goes_on(
    tmp_path: Path, docker_engine: Engine
) -> None:
    with docker_target(tmp_path / "a", docker_engine) as ours:
        script = 'while [ ! -e "$ARL_STOP" ]; do sleep 0.1; done; exit 7'
        handle = ours.launch(attempt(script, limits={"grace_s": 20.0}))
        wait_until_started(docker_engine, handle)
        kill_keeper(ours)
        with docker_target(copy(tmp_path / "a", "b"), docker_engine) as twin:
            ended = finish(twin, handle)
            assert ended.exit.cause is ExitCause.LOST
            assert "copied" in ended.exit.detail
            twin.kill(handle)
            twin.release(handle)
            assert list(twin.list_owned("ledger-1")) == []
        assert state_of(docker_engine, handle) == "running"
        ours.request_stop(handle)
        assert finish(ours, handle).exit.code == 7
