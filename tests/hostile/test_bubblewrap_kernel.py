"""The sandbox's walls towards the kernel: each call is really tried, by its number.

Each attack prints ESCAPED where it got through; that word must not be in any log. Nothing here
does harm where it does get through: arguments are empty, or name what is the program's own.
"""

import os
import platform
import socket
from pathlib import Path

import pytest

from targets import seccomp
from targets.bubblewrap import BubblewrapTarget
from tests.hostile.bubblewrap_attacks import attack
from tests.target_runs import log_of, python, run

pytestmark = pytest.mark.bubblewrap

KNOWN = seccomp.MACHINES.get(platform.machine())
CALLS = {} if KNOWN is None else dict(KNOWN.calls)
PRELUDE = f"""
import ctypes, errno, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
CALLS = {CALLS!r}
def call(name, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(CALLS[name]), *map(ctypes.c_long, arguments))
    return 0 if result >= 0 else ctypes.get_errno()
"""


def check_attack(target: BubblewrapTarget, code: str, outside: dict[str, str]) -> str:
    if KNOWN is None:
        pytest.skip(f"there is no filter for {platform.machine()}")
    ended = attack(target, PRELUDE + code, outside)
    said = log_of(target, ended.handle)
    assert ended.exit.code == 0, said
    return said


def test_every_refused_call_fails_with_eperm_whatever_else_would_be_wrong_with_it(
    target: BubblewrapTarget, outside: dict[str, str]
) -> None:
    code = """
for name in sorted(set(CALLS) - {"clone", "clone3", "personality", "ioctl", "socket",
                                 "socketpair"}):
    said = call(name, *[-1] * 6)
    print(name, errno.errorcode.get(said, said))
    if said != errno.EPERM:
        got_through((name, said))
"""
    assert check_attack(target, code, outside).count("EPERM") == len(CALLS) - 6


JUDGED = {
    "a user namespace by clone": 'call("clone", 0x10000000 | 17, 0, 0, 0, 0)',
    "a mount namespace by clone": 'call("clone", 0x20000 | 17, 0, 0, 0, 0)',
    "a network namespace by clone": 'call("clone", 0x40000000 | 17, 0, 0, 0, 0)',
    "no randomisation": 'call("personality", 0x0040000)',
    "readable means executable": 'call("personality", 0x0400000)',
    "typing into a terminal": "call('ioctl', 0, 0x5412, id(b'x'))",
    "pasting into a terminal": "call('ioctl', 0, 0x541C, 0)",
    "a line discipline": "call('ioctl', 0, 0x5423, 0)",
    "a packet socket": 'call("socket", 17, 3, 0)',
    "a netfilter socket": 'call("socket", 16, 3, 12)',
    "an audit socket": 'call("socket", 16, 3, 9)',
    "a vsock socket": 'call("socket", 40, 1, 0)',
    "a cipher socket": 'call("socket", 38, 5, 0)',
    "a pair of a strange family": 'call("socketpair", 30, 1, 0, 0)',
}


@pytest.mark.parametrize("what", JUDGED)
def test_what_is_judged_by_its_arguments_is_refused(
    target: BubblewrapTarget, outside: dict[str, str], what: str
) -> None:
    code = f"""
said = {JUDGED[what]}
print(errno.errorcode.get(said, said))
if said != errno.EPERM:
    got_through({what!r})
"""
    check_attack(target, code, outside)


def test_clone3_is_unknown_so_that_libraries_use_clone(
    target: BubblewrapTarget, outside: dict[str, str]
) -> None:
    code = """
arguments = ctypes.create_string_buffer(struct.pack("<Q", 0x10000000) + bytes(80))
said = call("clone3", ctypes.addressof(arguments), 88)
if said != errno.ENOSYS:
    got_through(said)
import threading
thread = threading.Thread(target=print, args=("a thread",))
thread.start()
thread.join()
import subprocess
print(subprocess.run(["/bin/echo", "a child"], capture_output=True).stdout)
"""
    said = check_attack(target, code, outside)
    assert "a thread" in said
    assert "a child" in said


@pytest.mark.skipif(platform.machine() != "x86_64", reason="there are no x32 calls")
def test_the_x32_and_i386_doors_are_shut(
    target: BubblewrapTarget, outside: dict[str, str]
) -> None:
    code = """
CALLS["x32 getpid"] = 0x40000000 | 39
if call("x32 getpid") == 0:
    got_through("x32")
# int 0x80 from 64-bit code is an i386 call: number 20 there is getpid, 26 is ptrace.
import mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))
run = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
pid = os.fork()
if pid == 0:  # a kernel without i386 calls kills it
    said = run()
    if said > 0:
        got_through(("int 0x80", said))
    os._exit(0)
os.waitpid(pid, 0)
"""
    check_attack(target, code, outside)


def test_the_filter_cannot_be_taken_off_and_binds_every_process(
    target: BubblewrapTarget, outside: dict[str, str]
) -> None:
    code = """
for pid in [p for p in os.listdir("/proc") if p.isdecimal()] + ["self"]:
    status = dict(line.split(":\\t", 1) for line in open(f"/proc/{pid}/status") if ":\\t" in line)
    if status["Seccomp"].strip() != "2":
        got_through((pid, status["Seccomp"]))
if libc.prctl(22, 0, 0, 0, 0) == 0:  # PR_SET_SECCOMP, disabled
    got_through("taken off")
pid = os.fork()
if pid == 0:
    if call("ptrace", 0, 0, 0, 0) != errno.EPERM:
        got_through("in a child")
    look = "grep -q 'Seccomp:.2' /proc/self/status || echo ESCAPED"
    os.execv("/bin/sh", ["/bin/sh", "-c", look])
os.waitpid(pid, 0)
"""
    check_attack(target, code, outside)


def test_no_descriptor_of_the_sandbox_itself_is_left(
    target: BubblewrapTarget, outside: dict[str, str]
) -> None:
    code = """
for fd in range(3, 256):
    try:
        got_through((fd, os.readlink(f"/proc/self/fd/{fd}"), os.fstat(fd)))
    except OSError:
        pass
"""
    check_attack(target, code, outside)


def test_an_abstract_socket_of_the_machine_is_of_another_network(
    target: BubblewrapTarget, outside: dict[str, str]
) -> None:
    name = f"\0arl-kernel-test-{os.getpid()}"
    kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET)
    servers = [socket.socket(socket.AF_UNIX, kind) for kind in kinds]
    for kind, server in zip(kinds, servers, strict=True):
        server.bind(f"{name}-{int(kind)}")
        if kind != socket.SOCK_DGRAM:
            server.listen()
        server.settimeout(0.01)
    code = f"""
import socket
for kind in {[int(kind) for kind in kinds]}:
    s = socket.socket(socket.AF_UNIX, kind)
    try:
        s.connect({name!r} + "-" + str(kind))
        s.send(b"x")
        got_through(kind)
    except OSError as error:
        print(error)
if "arl-kernel-test" in open("/proc/net/unix").read():
    got_through("names of sockets")
"""
    check_attack(target, code, outside)
    for server in servers:
        with pytest.raises(TimeoutError):
            server.recv(1) if server.type == socket.SOCK_DGRAM else server.accept()
        server.close()


def test_shared_memory_semaphores_and_queues_are_not_those_of_the_machine(
    target: BubblewrapTarget, outside: dict[str, str], tmp_path: Path
) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    key = 0x41524C00 | (os.getpid() & 0xFF)
    segment = libc.shmget(key, 4096, 0o1666)
    if segment < 0:
        pytest.skip("this machine has no System V shared memory")
    posix = Path(f"/dev/shm/arl-kernel-test-{os.getpid()}")
    posix.write_text("the machine's")
    try:
        code = f"""
if libc.shmget({key}, 4096, 0) >= 0 or libc.shmat({segment}, 0, 0) not in (-1, 0xffffffffffffffff):
    got_through("a segment")
for name in ("shm", "sem", "msg"):
    if len(open(f"/proc/sysvipc/{{name}}").read().splitlines()) > 1:
        got_through(name)
if os.listdir("/dev/shm"):
    got_through(os.listdir("/dev/shm"))
open("/dev/shm/arl-kernel-test-inside", "w").write("the program's")
if os.path.exists("/dev/mqueue"):
    got_through("message queues")
"""
        check_attack(target, code, outside)
        assert posix.read_text() == "the machine's"
        assert not Path("/dev/shm/arl-kernel-test-inside").exists()
    finally:
        posix.unlink()
        libc.shmctl(segment, 0, None)  # IPC_RMID


def test_a_terminal_of_whoever_runs_arl_is_not_the_programs(
    target: BubblewrapTarget, outside: dict[str, str]
) -> None:
    code = """
try:
    os.open("/dev/tty", os.O_RDWR)
    got_through("a controlling terminal")
except OSError as error:
    print(error)
for fd in (0, 1, 2):
    if os.isatty(fd):
        got_through(("a terminal", fd))
if os.listdir("/dev/pts") not in ([], ["ptmx"]):
    got_through(os.listdir("/dev/pts"))
"""
    check_attack(target, code, outside)


def test_the_way_through_proc_leads_to_its_own_root_only(
    target: BubblewrapTarget, outside: dict[str, str]
) -> None:
    code = """
own = {(s.st_dev, s.st_ino) for s in [os.stat("/")]}
for pid in os.listdir("/proc"):
    if not pid.isdecimal():
        continue
    for way in ("root", "cwd/../../../../..", "task/" + pid + "/root"):
        try:
            found = os.stat(f"/proc/{pid}/{way}")
        except OSError:
            continue
        if way.endswith("root") and (found.st_dev, found.st_ino) not in own:
            got_through((pid, way))
    for name in ("mem", "environ"):
        try:
            data = open(f"/proc/{pid}/{name}", "rb").read(65536)
        except OSError:
            continue
        if BASE.encode() in data and int(pid) != os.getpid():
            got_through((pid, name))
for line in open("/proc/self/mountinfo"):
    if line.split()[4] == "/" and "rw" in line.split()[5].split(","):
        got_through(line)
"""
    check_attack(target, code, outside)


def test_a_namespace_of_another_process_cannot_be_entered(
    target: BubblewrapTarget, outside: dict[str, str]
) -> None:
    code = f"""
for pid in (1, "self", {os.getpid()}):
    for kind in ("user", "mnt", "net", "pid", "ipc", "uts", "cgroup"):
        try:
            fd = os.open(f"/proc/{{pid}}/ns/{{kind}}", os.O_RDONLY)
        except OSError:
            continue
        if call("setns", fd, 0) == 0:
            got_through((pid, kind))
        os.close(fd)
for flag in (0x20000, 0x10000000, 0x40000000, 0x20000000, 0x8000000, 0x4000000, 0x2000000):
    if libc.unshare(flag) == 0:
        got_through(flag)
"""
    check_attack(target, code, outside)


FILLERS = {
    "its output": 'os.environ["ARL_OUTPUT"]',
    "its home": 'os.environ["HOME"]',
    "/tmp": '"/tmp"',
}


@pytest.mark.parametrize("place", FILLERS)
def test_the_disk_the_inodes_and_a_deep_tree_end_the_attempt_and_nothing_else(
    target: BubblewrapTarget, outside: dict[str, str], place: str
) -> None:
    limits = {"output_bytes": 1 << 23, "scratch_bytes": 1 << 23}
    for body in (
        "open(f'{top}/{n}', 'wb').write(bytes(1 << 20)); n += 1",
        "os.close(os.open(f'{top}/{n}', os.O_CREAT)); n += 1",
        "os.mkdir('d'); os.chdir('d')",
    ):
        code = f"import os\ntop = {FILLERS[place]}\nos.chdir(top)\nn = 0\n"
        code += f"while n < 200_000:\n    {body}\n"
        ended = run(target, python(code), limits=limits)
        assert ended.exit.cause.value == "too_much_data", (body, ended.exit)
        target.release(ended.handle)
        assert not Path(outside["base"], "bubblewrap-root", "attempts", ended.handle).exists()


def test_nothing_outside_its_quotas_can_be_written(
    target: BubblewrapTarget, outside: dict[str, str]
) -> None:
    code = """
writable = set()
for line in open("/proc/self/mountinfo"):
    _, _, _, _, at, options, *rest = line.split()
    if "rw" in options.split(",") and os.access(at, os.W_OK):
        writable.add(at)
allowed = {"/tmp", "/arl/work", "/arl/home", "/arl/output", "/arl/reports.jsonl", "/dev/shm",
           "/dev/pts", "/proc", "/dev/null", "/dev/zero", "/dev/full", "/dev/random",
           "/dev/urandom", "/dev/tty"}
if writable - allowed:
    got_through(writable - allowed)
try:
    open("/proc/self/../x", "w")
    got_through("proc")
except OSError:
    pass
"""
    check_attack(target, code, outside)


def test_a_pool_of_processes_with_locks_and_shared_memory_works(
    target: BubblewrapTarget,
) -> None:
    code = """
import multiprocessing as mp
from multiprocessing import shared_memory
import subprocess, socket, threading
def square(n): return n * n
if __name__ == "__main__":
    for how in ("fork", "spawn", "forkserver"):
        context = mp.get_context(how)
        lock, queue = context.Lock(), context.Queue()
        with lock:
            queue.put(how)
        assert queue.get(timeout=10) == how
    with mp.get_context("fork").Pool(3) as pool:
        assert pool.map(square, range(9)) == [n * n for n in range(9)]
    held = shared_memory.SharedMemory(create=True, size=4096)
    held.buf[0] = 7
    held.close()
    held.unlink()
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    assert socket.getaddrinfo("localhost", 80)
    print("all well")
"""
    ended = run(target, python(code))
    assert "all well" in log_of(target, ended.handle), log_of(target, ended.handle)
