"""Attempts outlive their controller, and nothing outlives its supervisor."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.errors import TargetUnavailable
from targets import layout, linux
from targets.local_process import LocalProcessTarget
from targets.protocol import ExitCause
from tests.target_runs import (
    attempt,
    end_supervisor,
    finish,
    is_alive,
    local_target,
    log_of,
    processes_marked,
    run,
    supervisor_pid,
    wait_until,
)

ROOT = Path(__file__).resolve().parents[2]
CONTROLLER = """
import sys
from pathlib import Path
from tests.target_runs import attempt, local_target
target = local_target(Path(sys.argv[1]))
handle = target.launch(attempt(sys.argv[3], name=sys.argv[2]))
print(handle, flush=True)
while target.observe(handle, cursor="").exit is None:
    target.wait({handle}, 60)
"""


@pytest.fixture
def target(tmp_path: Path) -> Iterator[LocalProcessTarget]:
    made = local_target(tmp_path)
    yield made
    made.close()
    end_supervisor(tmp_path / "attempts-root")


def start_controller(base: Path, name: str, script: str) -> subprocess.Popen[str]:
    """Another process with a target on the same root, which launches one attempt and waits."""
    return subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, str(base), name, script],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    process.stdout.close()
    return line


def program_pid(target: LocalProcessTarget, name: str) -> int:
    directory = f"{target._root}/{layout.ATTEMPTS}/{name}"
    wait_until(lambda: "program" in (layout.read_record(directory) or {}), "the program starts")
    facts = layout.read_record(directory) or {}
    pid: int = facts["program"][0]
    return pid


def subreaper_pid(target: LocalProcessTarget, name: str) -> int:
    facts = layout.read_record(f"{target._root}/{layout.ATTEMPTS}/{name}") or {}
    pid: int = facts["subreaper"][0]
    return pid


def test_an_attempt_outlives_its_killed_controller_and_is_adopted(
    target: LocalProcessTarget, tmp_path: Path
) -> None:
    script = (
        'echo \'{"step": 1, "metric": "m", "value": 2}\' >> "$ARL_REPORTS"; '
        'while [ ! -e "$ARL_STOP" ]; do sleep 0.02; done; echo survived; exit 5'
    )
    controller = start_controller(tmp_path, "arl-adopted", script)
    assert read_line(controller) == "arl-adopted"
    os.kill(controller.pid, signal.SIGKILL)
    controller.wait()
    assert [(f.handle, f.running) for f in target.list_owned("ledger-1")] == [
        ("arl-adopted", True)
    ]
    assert target.launch(attempt("echo started twice", name="arl-adopted")) == "arl-adopted"
    target.request_stop("arl-adopted")
    ended = finish(target, "arl-adopted")
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 5)
    assert [v.value for v in ended.values] == [2.0]
    assert log_of(target, "arl-adopted") == "survived\n"


def test_an_end_while_no_controller_lived_is_found_afterwards(
    target: LocalProcessTarget, tmp_path: Path
) -> None:
    controller = start_controller(tmp_path, "arl-later", "sleep 0.3; exit 9")
    read_line(controller)
    controller.kill()
    controller.wait()
    time.sleep(0.5)
    ended = finish(target, "arl-later")
    assert ended.exit.code == 9
    assert ended.waited_s < 5


def test_the_deadline_is_enforced_while_no_controller_lives(tmp_path: Path) -> None:
    first = local_target(tmp_path)
    handle = first.launch(attempt("sleep 30", limits={"timeout_s": 0.3}))
    pid = program_pid(first, handle)
    first.close()
    wait_until(lambda: not is_alive(pid), "the deadline ends it")
    second = local_target(tmp_path)
    assert finish(second, handle).exit.cause is ExitCause.DEADLINE
    second.close()
    end_supervisor(tmp_path / "attempts-root")


def test_ctrl_c_in_the_controllers_terminal_reaches_no_attempt(
    target: LocalProcessTarget, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, str(tmp_path), "arl-ctrl-c", "sleep 0.5; exit 4"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    read_line(process)
    os.killpg(process.pid, signal.SIGINT)
    process.wait()
    assert finish(target, "arl-ctrl-c").exit.code == 4


def test_two_controllers_that_launch_the_same_attempt_start_it_once(
    target: LocalProcessTarget, tmp_path: Path
) -> None:
    script = f'echo ran >> "{tmp_path}/ran"; sleep 0.3'
    controllers = [start_controller(tmp_path, "arl-race", script) for _ in range(4)]
    assert {read_line(controller) for controller in controllers} == {"arl-race"}
    assert finish(target, "arl-race").exit.code == 0
    assert (tmp_path / "ran").read_text() == "ran\n"
    for controller in controllers:
        controller.wait(30)
    roots = [pid for pid in processes_marked(str(tmp_path)) if is_alive(pid)]
    assert {os.getsid(pid) for pid in roots} >= {os.getsid(supervisor_pid(target))}


def test_threads_that_launch_the_same_attempts_start_each_once(
    target: LocalProcessTarget, tmp_path: Path
) -> None:
    def launch_all() -> None:
        for number in range(10):
            script = f"echo {number} >> {tmp_path}/ran"
            target.launch(attempt(script, name=f"arl-t{number}"))

    threads = [threading.Thread(target=launch_all) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(10):
        assert finish(target, f"arl-t{number}").exit.code == 0
    ran = sorted((tmp_path / "ran").read_text().split(), key=int)
    assert ran == [str(number) for number in range(10)]


def test_attempts_of_a_killed_supervisor_are_ended_and_lost(target: LocalProcessTarget) -> None:
    mark = "ARL_TEST_ORPHAN=supervisor"
    script = f"export {mark}; setsid sleep 60 & (setsid sleep 60 &) ; sleep 60"
    handles = [target.launch(attempt(script)) for _ in range(3)]
    for handle in handles:
        program_pid(target, handle)
    wait_until(lambda: len(processes_marked(mark)) >= 9, "all of them run")
    os.kill(supervisor_pid(target), signal.SIGKILL)
    for handle in handles:
        ended = finish(target, handle)
        assert ended.exit.cause is ExitCause.LOST
    assert processes_marked(mark) == []
    assert run(target, "exit 0").exit.code == 0, "a new supervisor serves"


def test_when_every_process_of_ours_is_killed_the_next_supervisor_cleans_up(
    target: LocalProcessTarget, tmp_path: Path
) -> None:
    mark = "ARL_TEST_ORPHAN=all"
    script = f"export {mark}; (setsid sleep 60 &) ; (setsid sleep 61 & exec sleep 62)"
    handle = target.launch(attempt(script))
    program_pid(target, handle)
    wait_until(lambda: len(processes_marked(mark)) >= 3, "all of them run")
    subreaper = subreaper_pid(target, handle)
    supervisor = supervisor_pid(target)
    os.kill(supervisor, signal.SIGSTOP)  # so that it cannot see its subreaper die
    os.kill(subreaper, signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: not is_alive(supervisor), "the supervisor dies")
    assert processes_marked(mark) != []
    other = local_target(tmp_path)
    assert finish(other, handle).exit.cause is ExitCause.LOST
    assert processes_marked(mark) == []
    other.close()
    assert finish(target, handle).exit.cause is ExitCause.LOST


def test_a_stopped_subreaper_does_not_keep_the_next_supervisor_out(
    target: LocalProcessTarget,
) -> None:
    mark = "ARL_TEST_ORPHAN=stopped"
    handle = target.launch(attempt(f"export {mark}; sleep 60"))
    wait_until(lambda: processes_marked(mark), "it runs")
    os.kill(subreaper_pid(target, handle), signal.SIGSTOP)
    os.kill(supervisor_pid(target), signal.SIGKILL)
    assert finish(target, handle).exit.cause is ExitCause.LOST
    assert processes_marked(mark) == []


def test_the_attempt_of_a_killed_subreaper_is_ended_and_lost_and_others_go_on(
    target: LocalProcessTarget,
) -> None:
    mark = "ARL_TEST_ORPHAN=subreaper"
    victim = target.launch(attempt(f"export {mark}; setsid sleep 60 & sleep 60"))
    other = target.launch(attempt("sleep 0.6; exit 6"))
    wait_until(lambda: len(processes_marked(mark)) >= 3, "all of it runs")
    os.kill(subreaper_pid(target, victim), signal.SIGKILL)
    ended = finish(target, victim)
    assert ended.exit.cause is ExitCause.LOST
    assert "died" in ended.exit.detail
    assert processes_marked(mark) == []
    assert finish(target, other).exit.code == 6


def test_a_prepared_attempt_that_was_never_started_can_still_be_launched(
    target: LocalProcessTarget,
) -> None:
    spec = attempt("echo ran")
    target._workspaces.lay_out(spec)
    assert [f.running for f in target.list_owned("ledger-1")] == [False]
    assert target.launch(spec) == spec.name
    assert finish(target, spec.name).exit.code == 0


@pytest.mark.parametrize("damage", ["boot", "torn"])
def test_what_was_prepared_before_a_machine_restart_is_prepared_anew(
    target: LocalProcessTarget, damage: str
) -> None:
    spec = attempt("echo ran")
    target._workspaces.lay_out(spec)
    launch = Path(target._root, layout.ATTEMPTS, spec.name, layout.LAUNCH)
    text = launch.read_text()
    other = text.replace(layout.boot_id(), "an-earlier-boot")
    launch.write_text(other if damage == "boot" else text[:40])
    target.launch(spec)
    ended = finish(target, spec.name)
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 0)
    assert layout.boot_id() in launch.read_text()


def rewrite_boot(target: LocalProcessTarget, handle: str) -> None:
    record = Path(target._root, layout.ATTEMPTS, handle, layout.RECORD)
    record.write_text(record.read_text().replace(layout.boot_id(), "an-earlier-boot"))


def test_an_end_before_a_machine_restart_counts_only_if_it_had_reached_the_disk(
    target: LocalProcessTarget,
) -> None:
    short = run(target, "exit 0").handle
    long = run(target, "sleep 1.05").handle
    record = Path(target._root, layout.ATTEMPTS, long, layout.RECORD)
    wait_until(lambda: "durable" in record.read_text(), "it is synced")
    for handle in (short, long):
        rewrite_boot(target, handle)
    assert finish(target, short).exit.cause is ExitCause.LOST
    assert finish(target, long).exit.cause is ExitCause.EXITED


def test_an_attempt_whose_directory_is_deleted_is_ended(tmp_path: Path) -> None:
    mark = "ARL_TEST_ORPHAN=deleted"
    first = local_target(tmp_path)
    first.launch(attempt(f"export {mark}; setsid sleep 60 & sleep 60"))
    wait_until(lambda: len(processes_marked(mark)) >= 3, "it runs")
    first.close()
    root = Path(first._root)
    root.rename(tmp_path / "moved")
    shutil.rmtree(tmp_path / "moved")
    wait_until(lambda: not processes_marked(mark), "all of it is ended")


def test_a_root_that_is_deleted_and_made_again_gets_a_supervisor_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("targets.supervisor_link._START", short_lived())
    first = local_target(tmp_path)
    assert run(first, "exit 1").exit.code == 1
    old = supervisor_pid(first)
    shutil.rmtree(first._root)
    second = local_target(tmp_path)
    assert run(second, "exit 2").exit.code == 2
    assert supervisor_pid(second) != old
    first.close()
    wait_until(lambda: not is_alive(old), "the first supervisor leaves")
    assert run(second, "exit 3").exit.code == 3
    assert Path(second._root, layout.SOCKET).exists(), "it left the other's socket alone"
    second.close()
    end_supervisor(tmp_path / "attempts-root")


def test_a_supervisor_leaves_when_it_has_neither_clients_nor_attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("targets.supervisor_link._START", short_lived())
    target = local_target(tmp_path)
    go_on = tmp_path / "go on"
    handle = target.launch(attempt(f"until [ -e '{go_on}' ]; do sleep 0.05; done"))
    pid = supervisor_pid(target)
    target.close()
    time.sleep(0.8)
    assert is_alive(pid), "it has an attempt"
    go_on.touch()
    wait_until(lambda: not is_alive(pid), "it leaves")
    again = local_target(tmp_path)
    assert finish(again, handle).exit.code == 0
    again.close()
    end_supervisor(tmp_path / "attempts-root")


def short_lived() -> str:
    from targets import supervisor_link

    return supervisor_link._START.replace(
        "main(", "import targets.supervisor as s; s.IDLE_S = 0.2; main("
    )


def test_a_supervisor_that_speaks_another_protocol_is_refused_with_what_to_do(
    target: LocalProcessTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(target, "exit 0")
    monkeypatch.setattr(layout, "PROTOCOL", 99)
    other = LocalProcessTarget(Path(target._root), target._workspaces._store, host="here")
    with pytest.raises(TargetUnavailable, match="speaks protocol 2 and this ARL speaks 99"):
        other.launch(attempt("exit 0"))
    other.close()


def test_a_supervisor_that_cannot_start_says_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("targets.supervisor_link._START", "raise SystemExit('no way')")
    target = local_target(tmp_path)
    with pytest.raises(TargetUnavailable, match=r"supervisor\.log"):
        target.launch(attempt("exit 0"))
    target.close()


def test_a_root_deeper_than_a_socket_name_may_be_long_works(tmp_path: Path) -> None:
    base = tmp_path / ("d" * 100) / ("e" * 100)
    base.mkdir(parents=True)
    target = local_target(base)
    assert run(target, "exit 3").exit.code == 3
    target.close()
    end_supervisor(base / "attempts-root")


def test_what_a_dead_controller_left_half_made_is_swept(
    target: LocalProcessTarget, tmp_path: Path
) -> None:
    trash = Path(target._root, layout.TRASH)
    dead = subprocess.run(["/bin/sh", "-c", "echo $$"], capture_output=True, check=True)
    (trash / f"{int(dead.stdout)}-123-0-0" / "work" / "x").mkdir(parents=True)
    run_here = run(target, "exit 0")
    target.release(run_here.handle)
    kept = [p.name for p in trash.iterdir() if p.name.startswith(f"{os.getpid()}-")]
    local_target(tmp_path).close()
    assert [p.name for p in trash.iterdir()] == kept


def test_a_supervisor_loads_little_and_nothing_outside_the_standard_library() -> None:
    code = (
        "import sys; sys.path.append(sys.argv[1]); import targets.supervisor_start; "
        "print(*sys.modules); print(open('/proc/self/statm').read())"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(ROOT)],
        capture_output=True,
        text=True,
        check=True,
    )
    modules, statm = done.stdout.splitlines()[:2]
    roots = {name.partition(".")[0] for name in modules.split()}
    assert roots - sys.stdlib_module_names - {"__main__"} == {"targets", "inner_trials"}
    assert not roots & {
        "asyncio",
        "subprocess",
        "threading",
        "logging",
        "hashlib",
        "typing_extensions",
    }
    resident_bytes = int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert resident_bytes < 20 * 1024 * 1024, "every fork copies its page tables"


def test_a_supervisor_that_does_not_answer_is_unavailable(
    target: LocalProcessTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(target, "exit 0")
    pid = supervisor_pid(target)
    monkeypatch.setattr("targets.supervisor_link._ANSWER_PATIENCE_S", 0.2)
    other = LocalProcessTarget(Path(target._root), target._workspaces._store, host="here")
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(TargetUnavailable, match="supervisor of"):
            other.launch(attempt("exit 0"))
    finally:
        os.kill(pid, signal.SIGCONT)
        other.close()


def test_an_idle_subreaper_is_used_again_and_one_that_died_is_replaced(
    target: LocalProcessTarget,
) -> None:
    first, second = run(target, "exit 0").handle, run(target, "exit 0").handle
    pid = subreaper_pid(target, first)
    assert subreaper_pid(target, second) == pid
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid), "it dies")
    third = run(target, "exit 3")
    assert third.exit.code == 3
    assert subreaper_pid(target, third.handle) != pid


def test_a_request_meant_for_an_ended_attempt_never_hits_the_next(
    target: LocalProcessTarget,
) -> None:
    """The next one may run below the same subreaper."""
    for _ in range(30):
        racing = target.launch(attempt("exit 0"))
        target.kill(racing)
        following = target.launch(attempt("sleep 0.02; exit 5"))
        assert finish(target, racing).exit.cause in (ExitCause.EXITED, ExitCause.KILLED)
        assert finish(target, following).exit.code == 5


def test_the_watchdogs_of_children_find_them_without_the_kernels_list(tmp_path: Path) -> None:
    child = subprocess.Popen(["/bin/sleep", "30"])
    try:
        assert child.pid in linux.children_of(os.getpid())
        assert child.pid in linux._children_by_search(os.getpid())
    finally:
        child.kill()
        child.wait()
