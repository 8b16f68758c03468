"""What every registered target promises, whatever it runs attempts with."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from inner_trials.contract import EXIT_STOPPED, SCORE_BYTES
from ledger.artifacts import ArtifactStore
from ledger.errors import Conflict, InvalidInput, UnknownName
from ledger.records import AttemptKind
from targets.protocol import ExitCause, Program, Target
from targets.registry import TARGETS, Place, make_target
from tests.http_runs import SECRET, SECRET_NAME, job_server
from tests.target_runs import (
    Ended,
    attempt,
    end_supervisor,
    finish,
    log_of,
    python,
    require_bubblewrap,
    run,
    shell,
)

REPORT = """echo '{"step": %d, "metric": "loss", "value": %s}' >> "$ARL_REPORTS" """
UNTIL_ASKED = 'while [ ! -e "$ARL_STOP" ]; do sleep 0.02; done; '


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ArtifactStore:
    return ArtifactStore(tmp_path_factory.mktemp("store"))


@contextmanager
def service_for(name: str, base: Path) -> Iterator[dict[str, Any]]:
    """What a target of that name needs besides a place: a running service, for some."""
    if name != "http":
        yield {}
        return
    with job_server(base / "service") as server:
        yield {
            "options": {"url": server.url, "secret": SECRET_NAME},
            "secrets": {SECRET_NAME: SECRET},
            "operator": {"allow_private": "1"},
        }


SANDBOXED = [
    pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
    pytest.param("docker", marks=pytest.mark.docker),
    pytest.param("ray", marks=pytest.mark.ray),
]


@pytest.fixture(
    # `outside` starts no program: its contract is tests/contract/test_outside_target.py.
    params=[*sorted(set(TARGETS) - {"bubblewrap", "docker", "ray", "outside"}), *SANDBOXED],
    scope="module",
)
def target(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    store: ArtifactStore,
) -> Iterator[Target]:
    if request.param == "bubblewrap":
        require_bubblewrap()
    root = tmp_path_factory.mktemp(request.param)
    with service_for(request.param, root) as more:
        if request.param == "docker":
            more["options"] = {"engine": request.getfixturevalue("docker_engine").host}
        if request.param == "ray":
            more["options"] = request.getfixturevalue("ray_nodes").options(root, sandbox="local")
        made = make_target(request.param, Place(root=root, store=store, host="here", **more))
        yield made
        made.close()
    end_supervisor(root)


def test_an_unknown_target_is_refused_with_the_names_there_are(
    tmp_path: Path, store: ArtifactStore
) -> None:
    with pytest.raises(UnknownName, match=r"target.name 'cloud' is not known: write one of"):
        make_target("cloud", Place(root=tmp_path, store=store, host="here"))


def test_an_attempt_ends_with_its_exit_code_and_its_use_of_time_and_memory(
    target: Target,
) -> None:
    ended = run(target, "sleep 0.1; exit 7")
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 7)
    assert 0.1 <= ended.exit.wall_s < 5
    assert 0 < ended.exit.cpu_s < 5
    assert ended.exit.max_rss_bytes > 100_000


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM", "SIGPIPE"])
def test_a_death_by_signal_is_a_negative_code_and_named(target: Target, name: str) -> None:
    ended = run(target, f"kill -{name[3:]} $$")
    assert ended.exit.cause is ExitCause.EXITED
    assert ended.exit.code == -signal.Signals[name]
    assert name in ended.exit.detail


def test_a_program_that_does_not_exist_is_a_failed_launch_that_names_it(target: Target) -> None:
    for argv in (("no-such-program", "x"), ("/no/such/program",)):
        ended = run(target, Program(argv=argv, python="python"))
        assert (ended.exit.cause, ended.exit.code) == (ExitCause.LAUNCH_FAILED, None)
        assert argv[0] in ended.exit.detail
        assert "not found" in ended.exit.detail or "No such file" in ended.exit.detail


def test_a_file_that_may_not_be_executed_is_a_failed_launch(
    target: Target, store: ArtifactStore, tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o600)
    program = Program(argv=("{data}/script",), python="python")
    ended = run(target, program, inputs={"data": store.put_tree(tmp_path)})
    assert ended.exit.cause is ExitCause.LAUNCH_FAILED
    assert "denied" in ended.exit.detail


def test_launching_a_name_again_starts_nothing(target: Target) -> None:
    spec = attempt('echo once; sleep 0.2; echo "$ARL_ATTEMPT" >> "$HOME/ran"')
    assert target.launch(spec) == target.launch(spec)
    ended = finish(target, spec.name)
    assert target.launch(spec) == ended.handle
    assert finish(target, spec.name).exit == ended.exit
    assert log_of(target, spec.name) == "once\n"


def test_values_come_in_order_and_once(target: Target) -> None:
    spec = attempt("".join(REPORT % (step, step / 2) + ";" for step in range(5)))
    ended = finish(target, target.launch(spec))
    assert [(v.step, v.metric, v.value) for v in ended.values] == [
        (step, "loss", step / 2) for step in range(5)
    ]
    assert ended.rejected == 0


def test_values_are_seen_while_the_program_runs(target: Target) -> None:
    spec = attempt(REPORT % (1, 0.5) + ";" + UNTIL_ASKED + REPORT % (2, 0.25))
    handle = target.launch(spec)
    seen = target.observe(handle, cursor="")
    while not seen.values:
        assert target.wait({handle}, 10.0) == {handle}
        seen = target.observe(handle, cursor="")
    assert seen.exit is None
    assert [v.step for v in seen.values] == [1]
    target.request_stop(handle)
    finish(target, handle)
    assert [v.step for v in target.observe(handle, cursor=seen.cursor).values] == [2]


def test_wait_returns_nothing_while_there_is_no_news(target: Target) -> None:
    handle = target.launch(attempt("sleep 20"))
    target.wait({handle}, 0.0)
    started = time.monotonic()
    assert target.wait({handle}, 0.2) == set()
    assert 0.15 < time.monotonic() - started < 5
    target.kill(handle)
    assert target.wait({handle}, 10.0) == {handle}
    assert finish(target, handle).exit.cause is ExitCause.KILLED


def test_wait_tells_of_an_end_as_long_as_it_is_asked_about(target: Target) -> None:
    handle = run(target, "exit 0").handle
    assert target.wait({handle}, 5.0) == {handle}
    assert target.wait({handle}, 5.0) == {handle}


def test_wait_returns_at_once_when_interrupted_before_or_during_it(target: Target) -> None:
    handle = target.launch(attempt("sleep 20"))
    target.wait({handle}, 0.0)
    target.interrupt()
    assert target.wait({handle}, 20.0) == set()
    timer = threading.Timer(0.1, target.interrupt)
    timer.start()
    started = time.monotonic()
    assert target.wait({handle}, 20.0) == set()
    assert time.monotonic() - started < 10
    timer.join()
    target.kill(handle)
    assert finish(target, handle).exit.cause is ExitCause.KILLED


def test_several_threads_may_wait_at_once(target: Target) -> None:
    handles = [target.launch(attempt(f"sleep {0.1 * (n + 1)}")) for n in range(4)]
    ends: dict[str, ExitCause] = {}
    threads = [
        threading.Thread(target=lambda h=handle: ends.update({h: finish(target, h).exit.cause}))
        for handle in handles
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert ends == dict.fromkeys(handles, ExitCause.EXITED)


def test_an_unknown_handle_is_a_lost_attempt(target: Target) -> None:
    assert target.wait({"arl-unknown"}, 5.0) == {"arl-unknown"}
    seen = target.observe("arl-unknown", cursor="")
    assert seen.exit is not None
    assert seen.exit.cause is ExitCause.LOST
    target.request_stop("arl-unknown")
    target.kill("arl-unknown")
    target.release("arl-unknown")
    assert target.read_log("arl-unknown", offset=0, limit=10).size == 0


@pytest.mark.parametrize("name", ["../evil", "a/b", "", ".", "..", ".hidden", "a\0b", "a\nb"])
def test_a_name_that_is_no_plain_file_name_is_refused(target: Target, name: str) -> None:
    for call in (
        lambda: target.launch(attempt("exit 0", name=name)),
        lambda: target.observe(name, cursor=""),
        lambda: target.kill(name),
        lambda: target.release(name),
        lambda: target.read_log(name, offset=0, limit=1),
    ):
        with pytest.raises(InvalidInput, match="must be"):
            call()


def test_a_stop_request_reaches_the_program_which_leaves_with_its_own_code(
    target: Target,
) -> None:
    handle = target.launch(attempt(UNTIL_ASKED + f"exit {EXIT_STOPPED}"))
    target.request_stop(handle)
    target.request_stop(handle)
    ended = finish(target, handle)
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.STOPPED, EXIT_STOPPED)
    target.request_stop(handle)


def test_the_stopped_code_means_nothing_without_a_request(target: Target) -> None:
    ended = run(target, f"exit {EXIT_STOPPED}")
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, EXIT_STOPPED)


def test_a_program_that_finishes_after_a_stop_request_has_just_exited(target: Target) -> None:
    handle = target.launch(attempt(UNTIL_ASKED + "exit 0"))
    target.request_stop(handle)
    assert finish(target, handle).exit.cause is ExitCause.EXITED


def test_a_program_that_ignores_a_stop_request_is_killed_after_the_grace_period(
    target: Target,
) -> None:
    handle = target.launch(attempt("trap '' TERM; sleep 20; sleep 20", limits={"grace_s": 0.3}))
    target.request_stop(handle)
    ended = finish(target, handle)
    assert ended.exit.cause is ExitCause.KILLED
    assert 0.25 < ended.exit.wall_s < 10


def test_outputs_survive_a_kill_and_are_refused_while_it_runs(target: Target) -> None:
    spec = attempt('echo kept > "$ARL_OUTPUT/file"; echo ready; sleep 20')
    handle = target.launch(spec)
    while not target.read_log(handle, offset=0, limit=10).size:
        time.sleep(0.01)
    with pytest.raises(Conflict):
        target.outputs(handle)
    with pytest.raises(Conflict):
        target.release(handle)
    target.kill(handle)
    assert finish(target, handle).exit.cause is ExitCause.KILLED
    assert Path(target.outputs(handle).root, "file").read_text() == "kept\n"
    target.kill(handle)


def test_the_deadline_is_enforced_on_a_program_that_ignores_sigterm(target: Target) -> None:
    ended = run_to_deadline(
        target, "trap '' TERM; while :; do :; done", wanted=-signal.SIGKILL, grace_s=0.3
    )
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.DEADLINE, -signal.SIGKILL)
    assert 0.55 < ended.exit.wall_s < 10


def run_to_deadline(target: Target, script: str, *, wanted: int, grace_s: float) -> Ended:
    """One that a busy machine was still starting at its deadline has set no trap: a later deadline
    is tried, then."""
    ended = run(target, script, limits={"timeout_s": 0.3, "grace_s": grace_s})
    if ended.exit.code == wanted:
        return ended
    return run(target, script, limits={"timeout_s": 4.0, "grace_s": grace_s})


def test_a_program_may_save_between_sigterm_and_the_end_of_the_grace_period(
    target: Target,
) -> None:
    script = "trap 'echo saved > \"$ARL_OUTPUT/x\"; exit 3' TERM; while :; do sleep 0.02; done"
    ended = run_to_deadline(target, script, wanted=3, grace_s=10.0)
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.DEADLINE, 3)
    assert Path(target.outputs(ended.handle).root, "x").read_text() == "saved\n"


def test_a_program_that_says_nothing_for_too_long_is_stalled(target: Target) -> None:
    silent = run(target, "sleep 20", limits={"stall_s": 0.4})
    assert silent.exit.cause is ExitCause.STALLED
    assert silent.exit.wall_s < 10
    for says in (REPORT % (1, 1), "echo working"):  # longer together than it may be silent
        talking = f"for i in 1 2 3 4 5 6; do {says}; sleep 0.4; done"
        assert run(target, talking, limits={"stall_s": 2.0}).exit.cause is ExitCause.EXITED


def test_the_score_channel_is_read_for_evaluate_and_prepare_attempts(target: Target) -> None:
    script = 'echo "{\\"accuracy\\": 0.5}" >&"$ARL_SCORE_FD"; echo noise'
    for kind in (AttemptKind.EVALUATE, AttemptKind.PREPARE):
        ended = run(target, script, kind=kind)
        assert ended.exit.code == 0
        assert target.score(ended.handle) == b'{"accuracy": 0.5}\n'
        assert log_of(target, ended.handle) == "noise\n"


def test_a_training_program_has_no_score_channel(target: Target) -> None:
    ended = run(target, 'echo "${ARL_SCORE_FD-none}"; (echo 1 >&3) 2>/dev/null || echo closed')
    assert log_of(target, ended.handle) == "none\nclosed\n"
    assert target.score(ended.handle) == b""


def test_a_score_that_is_too_long_is_cut_one_byte_after_the_limit(target: Target) -> None:
    code = f"import os; n = {SCORE_BYTES + 300_000}\nwhile n > 0: n -= os.write(3, b'1' * 65536)"
    ended = run(target, python(code), kind=AttemptKind.EVALUATE)
    assert ended.exit.code == 0
    assert target.score(ended.handle) == b"1" * (SCORE_BYTES + 1)


def test_the_log_is_readable_while_it_runs_after_it_and_after_release(target: Target) -> None:
    handle = target.launch(attempt("echo first; echo second >&2; " + UNTIL_ASKED + "echo third"))
    while target.read_log(handle, offset=0, limit=100).data != b"first\nsecond\n":
        time.sleep(0.01)
    target.request_stop(handle)
    finish(target, handle)
    for _ in range(2):
        assert log_of(target, handle) == "first\nsecond\nthird\n"
        chunk = target.read_log(handle, offset=6, limit=6)
        assert (chunk.data, chunk.offset, chunk.size) == (b"second", 6, 19)
        assert target.read_log(handle, offset=99, limit=6).data == b""
        target.release(handle)


def test_a_released_attempt_is_gone_and_its_name_is_not_listed(target: Target) -> None:
    handle = run(target, "exit 0", owner="ledger-release").handle
    assert [f.handle for f in target.list_owned("ledger-release")] == [handle]
    target.release(handle)
    target.release(handle)
    assert target.list_owned("ledger-release") == [] or not target.list_owned("ledger-release")
    seen = target.observe(handle, cursor="")
    assert seen.exit is not None
    assert seen.exit.cause is ExitCause.LOST


def test_attempts_are_listed_by_owner_with_whether_they_run(target: Target) -> None:
    ended = run(target, "exit 0", owner="ledger-list").handle
    running = target.launch(attempt("sleep 20", owner="ledger-list"))
    target.launch(attempt("exit 0", owner="ledger-other"))
    found = {f.handle: (f.name, f.running) for f in target.list_owned("ledger-list")}
    assert found == {ended: (ended, False), running: (running, True)}
    target.kill(running)
    finish(target, running)


def test_inputs_are_linked_copied_and_named_as_the_spec_says(
    target: Target, store: ArtifactStore, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows").write_text("1 2 3\n")
    (tmp_path / "data" / "tool").write_text("#!/bin/sh\necho tool $1\n")
    (tmp_path / "data" / "tool").chmod(0o755)
    digest = store.put_tree(tmp_path / "data")
    program = Program(
        argv=(
            "/bin/sh",
            "-c",
            'cat rows; {data}/tool "$1"; cat "$ARL_INPUTS/data/rows" "$EXTRA"; '
            "echo x >> rows; pwd",
            "sh",
            "{unknown} {python}",
        ),
        python="/opt/python",
        environment={"EXTRA": "{data}/rows"},
        working_input="data",
    )
    ended = run(target, program, inputs={"data": digest})
    *lines, cwd = log_of(target, ended.handle).splitlines()
    assert lines == ["1 2 3", "tool {unknown} /opt/python", "1 2 3", "1 2 3"]
    assert cwd.endswith("work")
    store.verify(digest)


def test_a_program_can_run_inside_a_read_only_input(
    target: Target, store: ArtifactStore, tmp_path: Path
) -> None:
    (tmp_path / "rows").write_text("here\n")
    program = Program(argv=("/bin/cat", "rows"), python="python", run_in="bundle")
    ended = run(target, program, inputs={"bundle": store.put_tree(tmp_path)})
    assert log_of(target, ended.handle) == "here\n"


def test_places_that_are_no_input_are_refused_by_name(target: Target) -> None:
    program = Program(argv=("true",), python="python", working_input="source")
    with pytest.raises(InvalidInput, match=r"program.working_input 'source'"):
        target.launch(attempt(program))
    both = Program(argv=("true",), python="python", working_input="a", run_in="a")
    with pytest.raises(InvalidInput, match=r"program.run_in 'a' excludes"):
        target.launch(attempt(both, inputs={"a": "0" * 64}))
    with pytest.raises(InvalidInput, match=r"program.environment: a name must not"):
        target.launch(attempt(shell("exit 0", **{"a=b": "c"})))
    with pytest.raises(InvalidInput, match="must not hold NUL"):
        target.launch(attempt(shell("exit 0", a="b\0c")))
    with pytest.raises(InvalidInput, match=r"program.argv is empty"):
        target.launch(attempt(Program(argv=(), python="python")))
    with pytest.raises(InvalidInput, match="input name"):
        target.launch(attempt("exit 0", inputs={"../x": "0" * 64}))


def test_the_fingerprint_names_the_interpreter_and_is_stable(target: Target) -> None:
    import platform

    mine = target.fingerprint(python("pass"))
    assert platform.python_version() in mine
    assert platform.machine() in mine
    assert "\n" not in mine
    assert target.fingerprint(shell("true")) == mine
    with pytest.raises(InvalidInput, match=r"program.python '/no/python'"):
        target.fingerprint(Program(argv=("true",), python="/no/python"))


def test_nothing_is_left_open_by_many_attempts(target: Target) -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    target.release(run(target, "exit 0").handle)
    before = open_files()
    for _ in range(5 if target.name == "ray" else 20):  # a worker of Ray's takes a second
        target.release(run(target, "echo x").handle)
    assert open_files() <= before + 1
