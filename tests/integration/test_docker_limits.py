"""What a program in a container may use, and how it ends when it wants more."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.artifacts import ArtifactStore
from ledger.errors import InvalidInput
from ledger.records import AttemptKind
from targets import attempt_files
from targets.docker_container.target import DockerTarget
from targets.protocol import ExitCause, Program
from tests.docker_runs import docker_target, names_of, wait_until_gone, wait_until_started
from tests.private_engine import Engine
from tests.target_runs import attempt, finish, log_of, python, run

pytestmark = pytest.mark.docker

MIB = 1024**2
GREEDY = "x = bytearray(300 << 20)"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ArtifactStore:
    return ArtifactStore(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def target(
    tmp_path_factory: pytest.TempPathFactory, docker_engine: Engine, store: ArtifactStore
) -> Iterator[DockerTarget]:
    with docker_target(tmp_path_factory.mktemp("limits"), docker_engine, store) as made:
        yield made


def test_a_program_that_wants_more_memory_than_it_may_is_out_of_memory(
    target: DockerTarget,
) -> None:
    ended = run(target, python(GREEDY), limits={"memory_bytes": 100 * MIB})
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.OUT_OF_MEMORY, -9)
    assert ended.exit.max_rss_bytes <= 101 * MIB


def test_a_child_that_runs_out_of_memory_is_found_though_its_parent_succeeds(
    target: DockerTarget,
) -> None:
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {GREEDY!r}])"
    ended = run(target, python(code), limits={"memory_bytes": 100 * MIB})
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.OUT_OF_MEMORY, 0)


def test_memory_is_not_gained_by_swapping_or_by_the_file_systems_in_memory(
    target: DockerTarget,
) -> None:
    for place in ("/tmp", "/dev/shm"):
        script = f"head -c 300M /dev/zero > {place}/x; exit 7"
        ended = run(target, script, limits={"memory_bytes": 64 * MIB})
        assert (ended.exit.cause, ended.exit.code) in {
            (ExitCause.OUT_OF_MEMORY, -9),
            (ExitCause.OUT_OF_MEMORY, 7),
            (ExitCause.EXITED, 7),  # the file system was full first
        }, place


def test_a_fork_bomb_ends_as_too_many_processes(
    target: DockerTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_files, "MAX_PROCESSES", 40)
    # The shell that cannot fork ends; the program is still there for what is found.
    ended = run(target, "(while :; do sleep 30 & done) 2>/dev/null; sleep 30")
    assert ended.exit.cause is ExitCause.TOO_MANY_PROCESSES


@pytest.mark.parametrize(
    ("limit", "place"),
    [
        ("output_bytes", "$ARL_OUTPUT"),
        ("scratch_bytes", "$HOME"),
        ("scratch_bytes", "$PWD"),
    ],
)
def test_a_program_that_writes_more_than_it_may_is_ended(
    target: DockerTarget, limit: str, place: str
) -> None:
    limits = {"output_bytes": 64 * MIB, "scratch_bytes": 64 * MIB, limit: 8 * MIB}
    script = f'i=0; while :; do i=$((i+1)); head -c 1M /dev/zero > "{place}/$i"; sleep 0.02; done'
    ended = run(target, script, limits=limits)
    assert ended.exit.cause is ExitCause.TOO_MUCH_DATA
    assert "8 MiB" in ended.exit.detail


def test_one_file_cannot_grow_past_what_all_may_hold(target: DockerTarget) -> None:
    limits = {"output_bytes": 4 * MIB, "scratch_bytes": 4 * MIB}
    ended = run(target, 'head -c 1G /dev/zero > "$ARL_OUTPUT/x"', limits=limits)
    assert ended.exit.cause is ExitCause.TOO_MUCH_DATA
    size = Path(target.outputs(ended.handle).root, "x").stat().st_size
    assert size < 5 * MIB


def test_a_score_without_end_is_cut_off(target: DockerTarget) -> None:
    ended = run(target, "cat /dev/zero >&3", kind=AttemptKind.EVALUATE)
    assert ended.exit.cause is ExitCause.TOO_MUCH_DATA
    assert "score" in ended.exit.detail


def test_an_endless_log_keeps_its_head_and_tail_and_fills_no_disk(
    target: DockerTarget, docker_engine: Engine
) -> None:
    script = 'echo head; head -c 20M /dev/zero | tr "\\0" "x"; echo; echo tail'
    ended = run(target, script, limits={"log_bytes": MIB})
    log = log_of(target, ended.handle)
    assert log.startswith("head\n")
    assert log.endswith("\ntail\n")
    assert "bytes of output dropped" in log
    assert len(log) < 1.1 * MIB


def test_a_gpu_that_is_not_there_is_a_failed_launch_that_says_so(
    target: DockerTarget, docker_engine: Engine
) -> None:
    ended = run(target, "exit 0", limits={"gpus": 1, "gpu_ids": ("0",)})
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.LAUNCH_FAILED, None)
    assert "capabilities: [[gpu]]" in ended.exit.detail
    wait_until_gone(docker_engine, ended.handle)


def test_an_unknown_runtime_is_refused_with_those_there_are(
    target: DockerTarget, docker_engine: Engine
) -> None:
    spec = attempt("exit 0", options={"runtime": "no-such-runtime"})
    with pytest.raises(InvalidInput, match=r"target.runtime 'no-such-runtime'.*runc"):
        target.launch(spec)
    assert spec.name not in names_of(docker_engine)
    assert run(target, "exit 0", options={"runtime": "runc"}).exit.code == 0
    with pytest.raises(InvalidInput, match=r"target.runtime 3"):
        target.launch(attempt("exit 0", options={"runtime": 3}))


def test_a_container_is_marked_with_owner_study_attempt_and_fence(
    target: DockerTarget, docker_engine: Engine
) -> None:
    handle = target.launch(attempt("sleep 20", name="arl-01study-3.train.1", owner="ledger-7"))
    wait_until_started(docker_engine, handle)
    found = docker_engine.client().api.inspect_container(handle)
    labels = found["Config"]["Labels"]
    assert labels["arl.owner"] == "ledger-7"
    assert labels["arl.study"] == "01study"
    assert labels["arl.attempt"] == handle
    assert len(labels["arl.fence"]) == 16
    target.kill(handle)
    finish(target, handle)


INSIDE = """
import ctypes, json, os, socket
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines()
              if ":\\t" in line)
def tried(call):
    try:
        call()
    except OSError as error:
        return error.errno
    return 0
libc = ctypes.CDLL(None, use_errno=True)
def system_call(number, *arguments):
    ctypes.set_errno(0)
    return ctypes.get_errno() if libc.syscall(number, *arguments) < 0 else 0
import resource
print(json.dumps({
    "uid": os.getuid(), "gid": os.getgid(), "groups": os.getgroups(), "ppid": os.getppid(),
    "capabilities": [status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "no_new_privileges": status["NoNewPrivs"], "seccomp": status["Seccomp"],
    "interfaces": [name for _, name in socket.if_nameindex()],
    "root": tried(lambda: open("/x", "w")), "usr": tried(lambda: open("/usr/x", "w")),
    "params": tried(lambda: open(os.environ["ARL_PARAMS"], "r+")),
    "signs": tried(lambda: open(os.environ["ARL_STOP"], "w")),
    "input": tried(lambda: open(os.environ["ARL_INPUTS"] + "/data/new", "w")),
    "tmp": tried(lambda: open("/tmp/x", "w")),
    "home": tried(lambda: open(os.environ["HOME"] + "/x", "w")),
    "host": os.listdir("/"), "arl": sorted(os.listdir("/arl")),
    "core": resource.getrlimit(resource.RLIMIT_CORE),
    "ptrace": system_call(101, 0, 0, 0, 0), "unshare": system_call(272, 0x10000000),
    "userfaultfd": system_call(323, 1), "io_uring": system_call(425, 1, 0),
    "process_vm": system_call(310, os.getpid(), 0, 0, 0, 0, 0),
    "keyctl": system_call(250, 0, -3, 0),
    "bpf": system_call(321, 0, 0, 0), "mount": system_call(165, 0, 0, 0, 0, 0),
    "clone3": system_call(435, 0, 0), "perf": system_call(298, 0, 0, -1, -1, 0),
    "vsock": tried(lambda: socket.socket(40, socket.SOCK_STREAM)),
    "environment": sorted(os.environ),
}))
"""


def test_nothing_is_allowed_in_a_container_but_its_own_work(
    target: DockerTarget, store: ArtifactStore, tmp_path: Path
) -> None:
    import json

    (tmp_path / "rows").write_text("1\n")
    ended = run(target, python(INSIDE), inputs={"data": store.put_tree(tmp_path)})
    assert ended.exit.code == 0, log_of(target, ended.handle)
    inside = json.loads(log_of(target, ended.handle))
    own = (65532, 65532) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    assert (inside["uid"], inside["gid"]) == own
    assert set(inside["groups"]) <= {own[1]}
    assert inside["ppid"] == 1
    assert inside["capabilities"] == ["0000000000000000"] * 5
    assert (inside["no_new_privileges"], inside["seccomp"]) == ("1", "2")
    assert inside["interfaces"] == ["lo"]
    assert inside["core"] == [0, 0]
    for place in ("root", "usr", "params", "signs", "input"):
        assert inside[place] in (1, 13, 30), place  # EPERM, EACCES, EROFS
    for place in ("tmp", "home"):
        assert inside[place] == 0, place
    refused = ("ptrace", "unshare", "userfaultfd", "io_uring", "process_vm", "keyctl", "bpf")
    for call in (*refused, "mount", "perf", "vsock"):
        assert inside[call] == 1, call
    assert inside["clone3"] == 38
    assert inside["arl"] == [
        "home",
        "inputs",
        "output",
        "params.json",
        "reports.jsonl",
        "signs",
        "work",
    ]
    assert not {"HOSTNAME_OF_ARL", "DOCKER_HOST", "ARL_HOME"} & set(inside["environment"])


def test_sigterm_reaches_the_programs_whole_group(target: DockerTarget) -> None:
    child = "trap 'echo saved; exit 0' TERM; while :; do sleep 0.02; done"
    script = (
        f'trap : TERM; sh -c "{child}" & while kill -0 $! 2>/dev/null; do wait $!; done; exit 3'
    )
    ended = run(target, script, limits={"timeout_s": 1.0, "grace_s": 5.0})
    assert ended.exit.cause is ExitCause.DEADLINE
    assert "saved" in log_of(target, ended.handle)


def test_nothing_a_program_started_outlives_it(
    target: DockerTarget, docker_engine: Engine
) -> None:
    from tests.target_runs import processes_marked, wait_until

    mark = "ARL_TEST_LEFT=behind"
    ended = run(target, f"export {mark}; (setsid sh -c 'setsid sleep 60 &' &); sleep 0.2; exit 0")
    assert ended.exit.code == 0
    wait_until(lambda: not processes_marked(mark), "all of it is gone")


def test_a_program_in_this_machines_system_has_its_interpreter_and_no_more(
    target: DockerTarget,
) -> None:
    code = "import os, sys; print(sys.version_info[:2], os.path.exists('/etc/shadow'))"
    ended = run(target, Program(argv=("{python}", "-c", code), python=os.sys.executable))
    version = f"({os.sys.version_info[0]}, {os.sys.version_info[1]})"
    assert log_of(target, ended.handle) == f"{version} False\n"
