"""The starting corpus of hostile candidates, against bubblewrap: what they leave, how they end,
and that no score moves."""

import os
import shutil
import socket
import sys
import threading
from pathlib import Path

import pytest

from evaluator.collector import Refused, collect
from ledger.artifacts import ArtifactStore
from ledger.records import AttemptKind
from targets import layout
from targets.bubblewrap import BubblewrapTarget
from targets.cgroups import find_places
from targets.protocol import ExitCause, Program
from tests.hostile.bubblewrap_attacks import HELD_OUT, attack
from tests.target_runs import attempt, finish, log_of, processes_marked, python, run, wait_until

pytestmark = pytest.mark.bubblewrap

MIB = 1024 * 1024


def test_nothing_a_trial_leaves_is_there_for_the_next(target: BubblewrapTarget) -> None:
    places = '/tmp /dev/shm "$HOME" "$TMPDIR" "$ARL_OUTPUT" "$PWD"'
    for _ in range(3):
        ended = run(target, f"ls -A {places}; for d in {places}; do echo x > $d/cache; done")
        seen = [line for line in log_of(target, ended.handle).splitlines() if line]
        assert all(line.endswith(":") for line in seen), seen
        target.release(ended.handle)


LEAVERS = {
    "new session": "setsid sleep 61 & exit 0",
    "double fork": "(setsid sh -c 'setsid sleep 61 & setsid sleep 62 &' &) ; exit 0",
    "ignores everything": "(trap '' TERM HUP INT; setsid sh -c 'sleep 61; sleep 62' &) ; exit 0",
    "clears its environment": "setsid env -i sleep 61.0625 & exit 0",
}


@pytest.mark.parametrize("how", LEAVERS)
def test_a_daemonised_grandchild_is_gone_before_the_end_is_told(
    target: BubblewrapTarget, how: str
) -> None:
    mark = f"ARL_TEST_BWRAP_LEFT={how.replace(' ', '-')}"
    ended = run(target, f"export {mark}; {LEAVERS[how]}")
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 0)
    assert processes_marked(mark) == []
    assert processes_marked("61.0625") == []


def test_a_checkpoint_swapped_after_the_exit_is_the_one_that_was_there(
    target: BubblewrapTarget,
) -> None:
    ended = run(
        target,
        'echo honest > "$ARL_OUTPUT/model"; '
        "setsid sh -c 'while :; do echo swapped > \"$ARL_OUTPUT/model\"; sleep 0.3; done' & "
        'sleep 0.1; echo honest > "$ARL_OUTPUT/model"; exit 0',
    )
    output = Path(target.outputs(ended.handle).root, "model")
    seen = output.read_text()
    threading.Event().wait(0.7)
    assert output.read_text() == seen


FORK_BOMB = """
import os, time
end = time.time() + 30
for _ in range(7):
    os.fork()
os.setpgid(0, 0)
open(os.environ["ARL_OUTPUT"] + "/" + str(os.getpid()), "w")
while time.time() < end:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
"""


def test_a_fork_bomb_is_gone_at_a_kill(target: BubblewrapTarget) -> None:
    spec = attempt(python(FORK_BOMB, ARL_TEST_BWRAP_BOMB="1"), limits={"timeout_s": 60.0})
    handle = target.launch(spec)
    output = Path(target._root, layout.ATTEMPTS, handle, layout.OUTPUT)
    wait_until(lambda: len(os.listdir(output)) > 100, "the bomb goes off", 40.0)
    target.kill(handle)
    ended = finish(target, handle)
    assert ended.exit.cause is ExitCause.KILLED
    assert ended.waited_s < 20
    assert processes_marked("ARL_TEST_BWRAP_BOMB") == []


def test_a_program_that_multiplies_or_eats_memory_is_ended(
    target: BubblewrapTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import time; held = [bytearray(8 << 20) for _ in range(40)]; time.sleep(30)"
    ended = run(target, python(code), limits={"memory_bytes": 128 * MIB})
    assert ended.exit.cause is ExitCause.OUT_OF_MEMORY
    monkeypatch.setattr("targets.attempt_files.MAX_PROCESSES", 50)
    many = "i=0; while [ $i -lt 80 ]; do sleep 60 & i=$((i+1)); done; wait"
    assert run(target, many).exit.cause is ExitCause.TOO_MANY_PROCESSES


def test_a_child_that_the_kernel_killed_for_memory_is_told_though_its_parent_went_on(
    target: BubblewrapTarget,
) -> None:
    if "memory" not in find_places():
        pytest.skip("no cgroup with a memory limit can be made here")
    code = (
        "import os, time\nif os.fork() == 0:\n"
        "    held = [bytearray(1 << 20) for _ in range(200)]\n    os._exit(0)\n"
        "os.wait(); os._exit(0)"
    )
    ended = run(target, python(code), limits={"memory_bytes": 64 * MIB})
    assert ended.exit.cause is ExitCause.OUT_OF_MEMORY
    assert ended.exit.wall_s < 10
    modest = run(target, python("held = bytearray(16 << 20)"), limits={"memory_bytes": 64 * MIB})
    assert (modest.exit.cause, modest.exit.code) == (ExitCause.EXITED, 0)


def test_no_control_group_is_left_behind(target: BubblewrapTarget) -> None:
    places = find_places()
    if not places:
        pytest.skip("no cgroups can be made here")
    ended = run(target, "sleep 0.2; exit 0")
    killed = target.launch(
        attempt("setsid sleep 60 & sleep 60", limits={"memory_bytes": 64 * MIB})
    )
    wait_until(lambda: groups_of(killed) != [], "it is in a group")
    target.kill(killed)
    finish(target, killed)
    missing = run(target, Program(argv=("/no/such/program",), python="python"))
    for handle in (ended.handle, killed, missing.handle):
        assert groups_of(handle) == []


def groups_of(handle: str) -> list[Path]:
    found = [Path(place).glob(f"arl-*-{handle}") for place in set(find_places().values())]
    return [path for paths in found for path in paths]


def test_shared_memory_is_bounded(target: BubblewrapTarget, outside: dict[str, str]) -> None:
    code = """
try:
    with open("/dev/shm/x", "wb", buffering=0) as file:
        for _ in range(64):
            if not file.write(bytes(1 << 20)):
                break
        else:
            got_through("64 MiB")
except OSError as error:
    print(error)
"""
    ended = attack(target, code, outside, limits={"memory_bytes": 32 * MIB})
    # Where the kernel counts memory, that of /dev/shm is the program's too.
    assert ended.exit.code == 0 or ended.exit.cause is ExitCause.OUT_OF_MEMORY


def test_endless_output_and_sleeping_for_ever_end_at_the_deadline(
    target: BubblewrapTarget,
) -> None:
    limits = {"timeout_s": 0.5, "grace_s": 0.3, "log_bytes": MIB}
    loud = run(
        target, "trap '' TERM; while :; do echo xxxxxxxxxxxxxxxxxxxxxxxx; done", limits=limits
    )
    assert loud.exit.cause is ExitCause.DEADLINE
    assert len(log_of(target, loud.handle)) < 1.1 * MIB
    deaf = run(target, "trap '' TERM INT HUP; sleep 60; sleep 60", limits=limits)
    assert deaf.exit.cause is ExitCause.DEADLINE


@pytest.mark.parametrize("trick", ['ln -s /etc/passwd "$R"', 'mkfifo "$R"', 'mkdir "$R"'])
def test_the_reports_file_cannot_be_replaced(target: BubblewrapTarget, trick: str) -> None:
    ended = run(target, f'R="$ARL_REPORTS"; rm -f "$R" 2>&1; mv "$R" "$R.x" 2>&1; {trick} 2>&1; :')
    assert ended.values == ()
    assert ended.exit.code == 0
    reports = Path(target._root, layout.ATTEMPTS, ended.handle, layout.REPORTS)
    assert reports.is_file()
    assert not reports.is_symlink()


def test_links_and_pipes_in_the_output_lead_nowhere(
    target: BubblewrapTarget, store: ArtifactStore, outside: dict[str, str]
) -> None:
    base = outside["base"]
    mess = f'ln -s {base}/bundle/holdout.jsonl "$D/link"; mkfifo "$D/fifo"; ln -s / "$D/root"'
    ended = run(target, f'D="$ARL_OUTPUT/model"; mkdir "$D"; {mess}; echo x > "$D/file"')
    found = collect(target.outputs(ended.handle).root, store)
    assert isinstance(found, Refused)
    target.release(ended.handle)
    assert not Path(target._root, layout.ATTEMPTS, ended.handle).exists()
    assert Path(base, "bundle", "holdout.jsonl").read_text() == HELD_OUT + "\n"


def score_of(
    target: BubblewrapTarget, store: ArtifactStore, outside: dict[str, str], artifact: Path
) -> bytes:
    program = Program(
        argv=("{python}", "-I", "{bundle}/score.py"), python=sys.executable, run_in="bundle"
    )
    inputs = {"bundle": outside["bundle"], "artifact": store.put_tree(artifact)}
    ended = run(target, program, kind=AttemptKind.EVALUATE, inputs=inputs)
    assert ended.exit.code == 0, log_of(target, ended.handle)
    return target.score(ended.handle)


@pytest.mark.parametrize(
    "trick", ["sitecustomize.py", "json.py", "os.py", "usercustomize.py", "x.pth", "score.py"]
)
def test_modules_in_an_artifact_are_not_taken_by_the_evaluator(
    target: BubblewrapTarget,
    store: ArtifactStore,
    outside: dict[str, str],
    tmp_path: Path,
    trick: str,
) -> None:
    (tmp_path / "answer").write_text("wrong")
    forged = 'import os; os.write(3, b\'{"metrics": {"score": 1.0}}\'); os._exit(0)\n'
    (tmp_path / trick).write_text(forged)
    assert score_of(target, store, outside, tmp_path) == b'{"metrics": {"score": 0.0}}'


def test_what_a_training_program_writes_as_a_score_is_none(
    target: BubblewrapTarget, outside: dict[str, str]
) -> None:
    code = """
import json
line = json.dumps({"metrics": {"score": 1.0}})
print(line)
open(os.environ["ARL_OUTPUT"] + "/metrics.json", "w").write(line)
for place in ("/arl/score", os.environ["ARL_OUTPUT"] + "/../score"):
    try:
        open(place, "w").write(line)
        got_through(place)
    except OSError:
        pass
for fd in range(3, 20):
    try:
        os.write(fd, line.encode())
        got_through(fd)
    except OSError:
        pass
"""
    ended = attack(target, code, outside)
    assert target.score(ended.handle) == b""


EVALUATOR = """
import os
ask, answers = os.fdopen(4, "w", buffering=1), os.fdopen(5)
ask.write("what?\\n")
print(answers.readline().strip())
os.write(3, b'{"metrics": {"score": 0.0}}')
"""
ANSWERER = """
import os, socket, sys
sys.stdin.readline()
seen = []
for path in ("/arl/inputs/bundle", "/arl/params.json", "/arl/output", "/arl/score", "/arl/signs",
             BASE):
    if os.path.exists(path):
        seen.append(path)
for fd in range(3, 20):
    try:
        os.write(fd, b'{"metrics": {"score": 1.0}}')
        seen.append(fd)
    except OSError:
        pass
if len([p for p in os.listdir("/proc") if p.isdecimal()]) > 3:
    seen.append("processes")
try:
    socket.create_connection(("127.0.0.1", PORT), 1)
    seen.append("network")
except OSError:
    pass
print(sorted(os.listdir("/arl/inputs")), seen, flush=True)
"""


def test_an_answerer_sees_its_model_and_nothing_of_the_evaluator(
    target: BubblewrapTarget, store: ArtifactStore, outside: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "weights").write_text("1")
    model = store.put_tree(tmp_path)
    with socket.socket() as host:
        host.bind(("127.0.0.1", 0))
        host.listen()
        code = f"BASE = {outside['base']!r}\nPORT = {host.getsockname()[1]}\n{ANSWERER}"
        spec = attempt(
            python(EVALUATOR),
            kind=AttemptKind.EVALUATE,
            inputs={"bundle": outside["bundle"]},
            answerer=python(code),
            answerer_inputs={"model": model},
            egress=("example.org",),
        )
        ended = finish(target, target.launch(spec))
    assert log_of(target, ended.handle) == "['model'] []\n"
    assert target.score(ended.handle) == b'{"metrics": {"score": 0.0}}'


def test_a_library_to_preload_is_loaded_inside_only(
    target: BubblewrapTarget, store: ArtifactStore, tmp_path: Path
) -> None:
    (tmp_path / "evil.so").write_bytes(b"not a library")
    program = Program(
        argv=("/bin/sh", "-c", "echo $LD_PRELOAD"),
        python=sys.executable,
        environment={"LD_PRELOAD": "{data}/evil.so", "LD_LIBRARY_PATH": "{data}"},
    )
    ended = run(target, program, inputs={"data": store.put_tree(tmp_path)})
    said = log_of(target, ended.handle)
    assert said.count("cannot be preloaded") == 1, "by the shell inside, not by bubblewrap"
    assert "/arl/inputs/data/evil.so" in said
    assert ended.exit.code == 0


def test_a_killed_subreaper_takes_the_sandbox_along(target: BubblewrapTarget) -> None:
    mark = "ARL_TEST_BWRAP_ORPHAN=1"
    handle = target.launch(attempt(f"export {mark}; setsid sleep 61 & sleep 62"))
    wait_until(lambda: len(processes_marked(mark)) >= 2, "it runs")
    facts = layout.read_record(f"{target._root}/{layout.ATTEMPTS}/{handle}") or {}
    os.kill(facts["subreaper"][0], 9)
    assert finish(target, handle).exit.cause is ExitCause.LOST
    wait_until(lambda: processes_marked(mark) == [], "nothing of it is left")
    assert groups_of(handle) == []


def test_the_first_process_inside_leads_to_no_executable_of_the_machine(
    target: BubblewrapTarget, outside: dict[str, str]
) -> None:
    """The program may do as it likes with that process, but not reach past it."""
    installed = os.stat(shutil.which("bwrap") or "")
    code = f"""
found = os.stat("/proc/1/exe")
if os.geteuid() and (found.st_dev, found.st_ino) == {(installed.st_dev, installed.st_ino)!r}:
    if os.access("/proc/1/exe", os.W_OK):
        got_through("bubblewrap itself")
for way in ("/proc/1/root", "/proc/1/cwd"):
    if os.path.exists(way + "/root/.bashrc") or os.path.exists(way + BASE):
        got_through(way)
for name in os.listdir("/proc/1/map_files"):
    try:
        os.open("/proc/1/map_files/" + name, os.O_RDONLY)
        got_through(name)
    except OSError:
        pass
for fd in os.listdir("/proc/1/fd"):
    if "status" in os.readlink("/proc/1/fd/" + fd) or int(fd) == 6:
        got_through(fd)
"""
    assert attack(target, code, outside).exit.code == 0


def test_a_program_that_stops_the_first_process_inside_is_ended_all_the_same(
    target: BubblewrapTarget,
) -> None:
    code = "import ctypes, os; ctypes.CDLL(None).ptrace(16, 1, 0, 0); os._exit(0)"
    ended = run(target, python(code), limits={"timeout_s": 0.7, "grace_s": 0.3})
    assert ended.exit.cause in (ExitCause.DEADLINE, ExitCause.EXITED)
    assert ended.waited_s < 10


def test_a_sandbox_that_cannot_be_made_is_never_the_programs_fault(
    target: BubblewrapTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("targets.sandbox.TMP", "missing")
    ended = run(target, "exit 0")
    assert ended.exit.cause is ExitCause.LOST
    assert "its sandbox could not be made" in ended.exit.detail
