"""What a careless or misbehaving program does to the local target: nothing lasting.

A plain process is no sandbox (the same user could delete everything), so this is about
accidents: what is left running, what is left on the disk, what is inherited.
"""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.errors import DiskFull
from ledger.records import AttemptKind
from targets import layout
from targets.local_process import LocalProcessTarget
from targets.protocol import ExitCause, Program
from tests.target_runs import (
    attempt,
    end_supervisor,
    finish,
    local_target,
    log_of,
    processes_marked,
    python,
    run,
    wait_until,
)

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("local")


@pytest.fixture(scope="module")
def target(base: Path) -> Iterator[LocalProcessTarget]:
    made = local_target(base)
    yield made
    made.close()
    end_supervisor(base / "attempts-root")


LEAVERS = {
    "background": "sleep 61 & exit 0",
    "new session": "setsid sleep 61 & exit 0",
    "double fork": "(setsid sh -c 'setsid sleep 61 & setsid sleep 62 &' &) ; exit 0",
    "ignores everything": "(trap '' TERM HUP INT; setsid sh -c 'sleep 61; sleep 62' &) ; exit 0",
    "keeps the log open": "setsid sh -c 'while :; do echo x; done' & sleep 0.1; exit 0",
    "stopped": "setsid sh -c 'kill -STOP $$' & sleep 0.1; exit 0",
}


@pytest.mark.parametrize("how", LEAVERS)
def test_what_a_program_leaves_running_is_ended_before_its_end_is_told(
    target: LocalProcessTarget, how: str
) -> None:
    mark = f"ARL_TEST_LEFT={how.replace(' ', '-')}"
    ended = run(target, f"export {mark}; {LEAVERS[how]}")
    assert processes_marked(mark) == []
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 0)
    assert ended.exit.wall_s < 10


def test_the_whole_tree_of_a_timed_out_script_is_gone(target: LocalProcessTarget) -> None:
    mark = "ARL_TEST_LEFT=loop"
    script = f"export {mark}; {sys.executable} -c 'while True: pass' & wait"
    ended = run(target, script, limits={"timeout_s": 0.4})
    assert ended.exit.cause is ExitCause.DEADLINE
    assert processes_marked(mark) == []


def test_a_kill_ends_everything_at_once(target: LocalProcessTarget) -> None:
    mark = "ARL_TEST_LEFT=killed"
    script = f"trap '' TERM; export {mark}; setsid sleep 61 & (setsid sleep 62 &) ; sleep 63"
    handle = target.launch(attempt(script))
    wait_until(lambda: len(processes_marked(mark)) >= 4, "all of it runs")
    target.kill(handle)
    assert finish(target, handle).waited_s < 5
    assert processes_marked(mark) == []


FORK_BOMB = """
import os, time
end = time.time() + 30
for _ in range(8):
    if os.fork() == 0 and os.environ["SESSIONS"] == "1":
        os.setsid()
open(os.environ["ARL_OUTPUT"] + "/" + str(os.getpid()), "w")
while time.time() < end:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
"""


@pytest.mark.parametrize("sessions", ["0", "1"])
def test_a_fork_bomb_is_cleaned_up(target: LocalProcessTarget, sessions: str) -> None:
    """256 processes, each forking all the time, in one session or in one each."""
    mark = f"ARL_TEST_BOMB={sessions}"
    name, _, value = mark.partition("=")
    spec = attempt(
        python(FORK_BOMB, SESSIONS=sessions, **{name: value}), limits={"timeout_s": 60.0}
    )
    handle = target.launch(spec)
    output = Path(target._root, layout.ATTEMPTS, handle, layout.OUTPUT)
    wait_until(lambda: len(os.listdir(output)) > 200, "the bomb goes off", 40.0)
    target.kill(handle)
    ended = finish(target, handle)
    assert ended.exit.cause is ExitCause.KILLED
    assert ended.waited_s < 20
    assert processes_marked(mark) == []


def test_a_program_that_multiplies_is_ended(
    target: LocalProcessTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("targets.attempt_files.MAX_PROCESSES", 50)
    mark = "ARL_TEST_BOMB=many"
    many = f"export {mark}; i=0; while [ $i -lt 80 ]; do sleep 60 & i=$((i+1)); done; wait"
    ended = run(target, many)
    assert ended.exit.cause is ExitCause.TOO_MANY_PROCESSES
    assert processes_marked(mark) == []
    few = "i=0; while [ $i -lt 30 ]; do sleep 1.3 & i=$((i+1)); done; wait"
    assert run(target, few).exit.cause is ExitCause.EXITED


def test_a_gigabyte_of_output_leaves_a_small_log_with_its_head_and_tail(
    target: LocalProcessTarget,
) -> None:
    quota = MIB
    code = (
        "import os; line = b'%s\\n' % (b'x' * 1023); os.write(1, b'HEAD\\n')\n"
        "for _ in range(1024): os.write(2, line * 1024)\n"
        "os.write(1, b'TAIL\\n')"
    )
    report = 'echo \'{"step": 1, "metric": "m", "value": 1}\' >> "$ARL_REPORTS"; '
    program = Program(
        argv=("/bin/sh", "-c", report + 'exec "$0" -I -S -c "$1"', "{python}", code),
        python=sys.executable,
    )
    handle = target.launch(attempt(program, limits={"log_bytes": quota, "timeout_s": 120.0}))
    peak_bytes = 0
    while target.observe(handle, cursor="").exit is None:
        peak_bytes = max(peak_bytes, subreaper_memory(target, handle))
        target.wait({handle}, 0.05)
    ended = finish(target, handle)
    assert ended.exit.code == 0
    assert [v.metric for v in ended.values] == ["m"], "its reports are read all the same"
    assert 0 < peak_bytes < 40 * MIB
    log = log_of(target, handle)
    assert len(log) < 1.1 * quota
    assert log.startswith("HEAD\nxxx")
    assert log.endswith("xxx\nTAIL\n")
    assert log.count("bytes of output dropped") == 1
    assert target.read_log(handle, offset=0, limit=1).size == 1024 * MIB + 10
    directory = Path(target._root, layout.ATTEMPTS, handle)
    assert sum(p.stat().st_size for p in directory.glob("log*")) <= quota


def subreaper_memory(target: LocalProcessTarget, handle: str) -> int:
    facts = layout.read_record(f"{target._root}/{layout.ATTEMPTS}/{handle}") or {}
    try:
        pages = int(Path(f"/proc/{facts['subreaper'][0]}/statm").read_text().split()[1])
    except (OSError, KeyError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_a_program_that_eats_memory_is_ended_children_included(
    target: LocalProcessTarget,
) -> None:
    code = (
        "import os, time\nif os.fork() == 0:\n"
        "    held = [bytearray(8 * 1024 * 1024) for _ in range(40)]\n    time.sleep(30)\n"
        "os.wait()"
    )
    ended = run(target, python(code), limits={"memory_bytes": 128 * MIB})
    assert ended.exit.cause is ExitCause.OUT_OF_MEMORY
    assert ended.exit.wall_s < 20


def test_a_modest_program_is_not_ended_for_memory(target: LocalProcessTarget) -> None:
    code = "import time; held = bytearray(32 * 1024 * 1024); time.sleep(1.2)"
    ended = run(target, python(code), limits={"memory_bytes": 256 * MIB})
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 0)


def test_a_program_that_leaves_without_cleaning_up_fails_alone(
    target: LocalProcessTarget,
) -> None:
    other = target.launch(attempt("sleep 0.4; exit 2"))
    assert run(target, python("import os; os._exit(13)")).exit.code == 13
    assert run(target, python("import ctypes; ctypes.string_at(0)")).exit.code == -signal.SIGSEGV
    assert finish(target, other).exit.code == 2


CONTROLLER = """
import os, sys
from pathlib import Path
os.environ["ARL_TEST_SECRET"] = "canary-5e1f"
os.environ["OPENAI_API_KEY"] = "canary-5e1f"
from tests.target_runs import attempt, finish, local_target, log_of, shell
kept = os.open(sys.argv[1] + "/secret-file", os.O_RDWR | os.O_CREAT)
os.set_inheritable(kept, True)
target = local_target(Path(sys.argv[1]))
script = "cat /proc/self/environ | tr '\\\\0' '\\\\n'; ls -l /proc/self/fd; umask"
spec = attempt(shell(script))
ended = finish(target, target.launch(spec))
print(log_of(target, ended.handle))
"""


def test_a_program_inherits_nothing_of_its_controller(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", CONTROLLER, str(tmp_path)],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    end_supervisor(tmp_path / "attempts-root")
    assert "canary" not in done.stdout
    assert "secret-file" not in done.stdout
    names = {line.partition("=")[0] for line in done.stdout.splitlines() if "=" in line}
    assert names - {name for name in names if name.startswith("ARL_")} == {
        *("PATH", "HOME", "TMPDIR", "LANG", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"),
        *("PYTHONHASHSEED", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "PWD"),
    }
    assert done.stdout.count(" -> ") == 4, "three standard streams and the listing itself"
    assert "0022" in done.stdout


def test_only_the_gpus_of_the_lease_are_visible_whatever_the_study_says(
    target: LocalProcessTarget,
) -> None:
    script = 'echo "[$CUDA_VISIBLE_DEVICES] $OMP_NUM_THREADS $ARL_SPLIT $ARL_ATTEMPT"'
    program = Program(
        argv=("/bin/sh", "-c", script),
        python="python",
        environment={
            "CUDA_VISIBLE_DEVICES": "0,1,2,3",
            "ARL_ATTEMPT": "forged",
            "ARL_SPLIT": "search",
        },
    )
    leased = run(target, program, limits={"gpu_ids": ("2", "3"), "cpus": 2.5})
    assert log_of(target, leased.handle) == f"[2,3] 2 search {leased.handle}\n"
    none = run(target, program)
    assert log_of(target, none.handle) == f"[] 1 search {none.handle}\n"


def test_params_hold_the_document_and_the_paths(target: LocalProcessTarget) -> None:
    document = {"format": 1, "trial": "t", "parameters": {"lr": 0.1}, "output": "forged"}
    ended = run(target, 'cat "$ARL_PARAMS"', document=document)
    seen = json.loads(log_of(target, ended.handle))
    directory = f"{target._root}/{layout.ATTEMPTS}/{ended.handle}"
    assert seen == {
        **document,
        "inputs": {},
        "output": f"{directory}/output",
        "workspace": f"{directory}/work",
        "resume": None,
    }


def test_a_resume_input_is_pointed_to(target: LocalProcessTarget, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("42")
    digest = target._workspaces._store.put_tree(tmp_path)  # type: ignore[attr-defined]
    code = "import json, os; print(json.load(open(os.environ['ARL_PARAMS']))['resume'])"
    ended = run(target, python(code), inputs={"resume": digest})
    path = log_of(target, ended.handle).strip()
    assert Path(path, "state").read_text() == "42"


def test_an_attempts_directory_is_private(target: LocalProcessTarget) -> None:
    handle = run(target, "exit 0").handle
    directory = Path(target._root, layout.ATTEMPTS, handle)
    for path in (directory, directory / "home", directory / "output", directory / "work"):
        assert path.stat().st_mode & 0o777 == 0o700


DEEP = """
import os
for _ in range(500):
    os.mkdir("directory")
    os.chdir("directory")
open("file", "w")
"""
MESSES = {
    "deep": f"exec {sys.executable} -I -S -c '{DEEP}'",
    "wide": "for i in 1 2 3 4 5 6 7 8 9; do mkdir -p a$i/b/c; : > a$i/b/c/f; done",
    "locked": "mkdir -p a/b/c; : > a/b/f; chmod 000 a/b a; chmod 500 .",
    "special": "mkfifo p; ln -s /etc/passwd l; ln -s . m; ln -s /nowhere n; : > 'a\nb'; : > -rf",
    "clash": "mkdir -p a/b .arl-0 .arl-1/x; : > .arl-2; : > a/b/f",
    "mode": "chmod 755 .",
}


@pytest.mark.parametrize("mess", MESSES)
@pytest.mark.parametrize("where", ["ARL_OUTPUT", "HOME"])
def test_release_deletes_whatever_a_program_made(
    target: LocalProcessTarget, mess: str, where: str
) -> None:
    ended = run(target, f'cd "${where}"; {MESSES[mess]}')
    assert ended.exit.code == 0, log_of(target, ended.handle)
    target.release(ended.handle)
    assert not Path(target._root, layout.ATTEMPTS, ended.handle).exists()
    for spare in Path(target._root, layout.TRASH).iterdir():
        for part in spare.iterdir():
            assert list(part.iterdir()) == []
            assert part.stat().st_mode & 0o777 == 0o700


def test_an_unprivileged_user_can_delete_what_a_program_locked(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root ignores permissions; the other tests show it for a user")
    from targets.spares import remove_tree

    top = tmp_path / "top"
    (top / "a" / "b" / "c").mkdir(parents=True)
    (top / "a" / "f").write_text("x")
    os.chown(tmp_path, 65534, 65534)
    for path in (top, *top.rglob("*")):
        os.chown(path, 65534, 65534)
    for path in (top / "a" / "b" / "c", top / "a" / "b", top / "a", top):
        path.chmod(0)
    parents = [tmp_path.parent, tmp_path.parent.parent, tmp_path.parent.parent.parent]
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            for parent in parents:
                parent.chmod(0o755)
            os.setresuid(65534, 65534, 65534)
            remove_tree(str(top))
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert not top.exists()


def test_a_leftover_in_home_is_not_there_for_the_next_attempt(
    target: LocalProcessTarget,
) -> None:
    places = '"$HOME" "$TMPDIR" "$ARL_OUTPUT" "$PWD" "$ARL_INPUTS"'
    for _ in range(3):
        ended = run(target, f"ls -A {places}; for d in {places}; do : > $d/cache; done")
        seen = [line for line in log_of(target, ended.handle).splitlines() if line]
        assert all(line.endswith(":") for line in seen), seen
        target.release(ended.handle)


def test_reports_replaced_by_a_pipe_or_a_link_neither_hang_nor_leak(
    target: LocalProcessTarget, tmp_path: Path
) -> None:
    (tmp_path / "host").write_text('{"step": 1, "metric": "stolen", "value": 1}\n')
    for trick in (f'ln -s "{tmp_path}/host" "$ARL_REPORTS"', 'mkfifo "$ARL_REPORTS"'):
        ended = run(target, f'rm -f "$ARL_REPORTS"; {trick}; sleep 0.1')
        assert ended.values == ()
        assert ended.waited_s < 10
        target.release(ended.handle)


def fill(path: Path) -> None:
    """Until there is no space left."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017 - the loop ends no other way


def test_a_full_disk_is_told_as_such(base: Path, tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("mounting a small file system needs root")
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting is not allowed here")
    target = local_target(small)
    try:
        handle = run(target, "exit 0").handle
        running = target.launch(
            attempt('while [ ! -e "$ARL_STOP" ]; do sleep 0.02; done; head -c 100000 /dev/zero; :')
        )
        time.sleep(0.2)
        filler = small / "filler"
        fill(filler)
        with pytest.raises(DiskFull, match="no space left while preparing attempt"):
            target.launch(attempt("exit 0"))
        target.kill(running)
        assert finish(target, running).exit.cause is ExitCause.KILLED, "its end is recorded"
        filler.unlink()
        target.release(handle)
        assert run(target, "exit 8").exit.code == 8
    finally:
        target.close()
        end_supervisor(small / "attempts-root")
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_garbage_on_the_supervisors_socket_hurts_nobody(target: LocalProcessTarget) -> None:
    handle = target.launch(attempt("sleep 0.5; exit 3"))
    messages = (b"garbage\n", b"[]\n", b'{"op": 5}\n', b'{"op": "launch", "name": 3}\n')
    messages += (b'{"op": "kill", "name": "../x"}\n', b"[" * 50_000 + b"\n", b"\xff\xfe\n", b"{")
    for message in messages:
        with socket.socket(socket.AF_UNIX) as stranger, layout.short_path(target._root) as path:
            stranger.connect(f"{path}/{layout.SOCKET}")
            stranger.sendall(message)
            if message.endswith(b"\n"):
                assert json.loads(stranger.recv(65536).partition(b"\n")[0])["ok"] is False
    assert finish(target, handle).exit.code == 3


def test_a_client_that_does_not_read_holds_up_nobody(target: LocalProcessTarget) -> None:
    with socket.socket(socket.AF_UNIX) as deaf, layout.short_path(target._root) as path:
        deaf.connect(f"{path}/{layout.SOCKET}")
        deaf.sendall(b'{"op": "subscribe"}\n')
        deaf.setblocking(False)
        full = False
        while not full:
            try:
                deaf.send(b'{"op": "hello"}\n' * 100)
            except OSError:  # full, or dropped already
                full = True
        assert run(target, "exit 0", kind=AttemptKind.TRAIN).exit.code == 0
