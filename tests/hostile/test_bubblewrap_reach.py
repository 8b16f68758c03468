"""The sandbox holds: a hostile candidate can read, change and reach nothing outside of it.

Each attack prints ESCAPED where it got through; that word must not be in any log. None of them
does harm where it does get through: what is opened is not written to.
"""

import os
import socket
from pathlib import Path

import pytest

from targets.bubblewrap import BubblewrapTarget
from tests.hostile.bubblewrap_attacks import attack

pytestmark = pytest.mark.bubblewrap

READS = {
    "parent directories": """
VENV = os.path.dirname(os.path.dirname(sys.executable))
for top, directories, files in os.walk("/"):
    if top.startswith(("/proc", "/usr", "/dev", sys.base_prefix, VENV)):
        directories.clear()
        continue
    for name in files:
        try:
            if HELD_OUT in open(os.path.join(top, name), errors="replace").read(10000):
                got_through(name)
        except OSError:
            pass
""",
    "proc": """
for pid in os.listdir("/proc"):
    if not pid.isdecimal():
        continue
    for way in ("root", "cwd"):
        try:
            for name in (BASE + "/ledger.db", BASE + "/bundle/holdout.jsonl", "/root/.bashrc"):
                if os.path.exists(f"/proc/{pid}/{way}{name}"):
                    got_through(way + name)
        except OSError:
            pass
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            link = os.readlink(f"/proc/{pid}/fd/{fd}")
            if BASE in link:
                got_through(link)
    except OSError:
        pass
""",
    "proc of the machine": """
print(open("/proc/1/cmdline").read().replace(chr(0), " ")[:40])
pids = [p for p in os.listdir("/proc") if p.isdecimal()]
if len(pids) > 5:
    got_through(pids)
""",
    "dot dot": """
path = os.environ["ARL_INPUTS"]
for _ in range(12):
    path += "/.."
    if os.path.exists(path + BASE):
        got_through(path)
""",
    "usual places": """
for path in (BASE, "/root/.bashrc", "/root/.ssh", "/home", "/var", "/run", "/sys/kernel",
             "/etc/shadow", "/var/run/docker.sock", "/mnt", "/srv", "/boot", "/opt"):
    if os.path.exists(path):
        got_through(path)
""",
    "environment": """
names = set(os.environ) - {"PATH", "HOME", "TMPDIR", "LANG", "PYTHONDONTWRITEBYTECODE", "PWD",
    "PYTHONUNBUFFERED", "PYTHONHASHSEED", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "LC_CTYPE"}
if any(not name.startswith("ARL_") for name in names):
    got_through(names)
""",
    "its own descriptors": """
for fd in range(3, 64):
    try:
        os.fstat(fd)
    except OSError:
        continue
    got_through(fd)
""",
    "kernel settings": """
for top, directories, files in os.walk("/proc"):
    if top == "/proc":
        directories[:] = set(directories) - {"self", "thread-self", "pressure"}
        directories[:] = [name for name in directories if not name.isdecimal()]
    for name in files:
        for flags in (os.O_WRONLY, os.O_RDONLY):
            if flags == os.O_RDONLY and name not in ("kcore", "kallsyms", "kmsg", "keys"):
                continue
            try:
                os.open(f"{top}/{name}", flags | os.O_NONBLOCK)
            except OSError:
                continue
            got_through(f"{top}/{name}")
""",
    "devices": """
allowed = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "core",
           "stdin", "stdout", "stderr", "console"}
if set(os.listdir("/dev")) - allowed:
    got_through(os.listdir("/dev"))
""",
}


@pytest.mark.parametrize("how", READS)
def test_a_candidate_finds_nothing_of_the_machine_to_read(
    target: BubblewrapTarget, outside: dict[str, str], how: str
) -> None:
    assert attack(target, READS[how], outside).exit.code == 0


WRITES = {
    "the ledger": 'open(BASE + "/ledger.db", "w").write("mine")',
    "the store": 'open(BASE + "/artifacts/objects/x", "w").write("mine")',
    "another attempt": 'os.mkdir(BASE + "/bubblewrap-root/attempts/arl-forged")',
    "the supervisor": "import socket; s = socket.socket(socket.AF_UNIX); "
    's.connect(BASE + "/bubblewrap-root/supervisor.sock")',
    "its inputs": 'open(os.environ["ARL_INPUTS"] + "/bundle/score.py", "w").write("mine")',
    "mode of its inputs": 'os.chmod(os.environ["ARL_INPUTS"] + "/bundle/score.py", 0o777)',
    "deletes its inputs": 'os.unlink(os.environ["ARL_INPUTS"] + "/bundle/score.py")',
    "its params": 'open(os.environ["ARL_PARAMS"], "w").write("{}")',
    "its stop file": 'open(os.environ["ARL_STOP"], "w")',
    "the record": 'open("/arl/record.jsonl", "a").write("x")',
    "the root": 'open("/x", "w")',
    "the system": 'open("/usr/lib/x", "w")',
    "a site directory": 'open(os.path.dirname(os.__file__) + "/site-packages/x.pth", "w")',
    "sitecustomize": 'open(os.path.dirname(os.__file__) + "/sitecustomize.py", "w")',
    "users": 'open("/etc/passwd", "a").write("x")',
    "a device": 'open("/dev/x", "w")',
    "kernel settings": 'os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY)',
    "sysrq": 'os.open("/proc/sysrq-trigger", os.O_WRONLY)',
    "remounts": "import ctypes; r = ctypes.CDLL(None, use_errno=True).mount("
    'b"none", b"/usr", None, 32 | 4096, None); r and (_ for _ in ()).throw(OSError(1))',
    "unmounts": 'import ctypes; r = ctypes.CDLL(None).umount2(b"/usr", 2); '
    "r and (_ for _ in ()).throw(OSError(1))",
    "changes user": "os.setuid(0)",
    "a device node": 'os.mknod("/tmp/sda", 0o60600, os.makedev(8, 0))',
    "leaves its root": 'os.chroot("/tmp")',
}


@pytest.mark.parametrize("what", WRITES)
def test_a_candidate_can_change_nothing_but_its_own_files(
    target: BubblewrapTarget, outside: dict[str, str], what: str
) -> None:
    code = f"try:\n    {WRITES[what]}\nexcept OSError as error:\n    print(error)\nelse:\n"
    code += f"    got_through({what!r})"
    assert attack(target, code, outside, inputs={"bundle": outside["bundle"]}).exit.code == 0


def test_a_candidate_reaches_no_socket_of_the_machine(
    target: BubblewrapTarget, outside: dict[str, str], tmp_path: Path
) -> None:
    reached = []
    with (
        socket.socket() as host,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        host.bind(("127.0.0.1", 0))
        named.bind(str(tmp_path / "s"))
        abstract.bind(f"\0arl-test-{os.getpid()}")
        for listener in (host, named, abstract):
            listener.listen()
            listener.settimeout(0.01)
        port = host.getsockname()[1]
        code = f"""
import socket
for family, address in ((2, ("127.0.0.1", {port})), (2, ("192.0.2.1", 80)), (2, ("10.0.0.1", 80)),
                        (1, {str(tmp_path / "s")!r}), (1, "\\0arl-test-{os.getpid()}")):
    with socket.socket(family) as s:
        s.settimeout(2)
        try:
            s.connect(address)
        except OSError as error:
            print(error)
        else:
            got_through(address)
with open("/proc/net/dev") as file:
    names = [line.split(":")[0].strip() for line in file if ":" in line]
if names != ["lo"]:
    got_through(names)
"""
        assert attack(target, code, outside).exit.code == 0
        for listener in (host, named, abstract):
            try:
                reached.append(listener.accept())
            except TimeoutError:
                continue
    assert reached == []


PTRACE = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for pid in [VICTIM, os.getppid(), *range(1, 40)]:
    if pid in (1, os.getpid()):
        continue
    if libc.ptrace(16, pid, 0, 0) == 0:
        got_through(("ptrace", pid))
    try:
        os.kill(pid, 0)
        got_through(("kill", pid))
    except OSError:
        pass
"""


def test_a_candidate_can_neither_trace_nor_signal_a_process_of_the_machine(
    target: BubblewrapTarget, outside: dict[str, str]
) -> None:
    assert attack(target, f"VICTIM = {os.getpid()}\n{PTRACE}", outside).exit.code == 0


def test_a_candidate_has_no_capability_and_can_gain_none(
    target: BubblewrapTarget, outside: dict[str, str]
) -> None:
    code = """
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    if int(status[name], 16):
        got_through(name)
if status["NoNewPrivs"].strip() != "1" or os.getuid() == 0 or os.getgid() == 0:
    got_through("user")
import ctypes
if ctypes.CDLL(None).unshare(0x10000000) == 0:
    got_through("a user namespace of its own")
if os.uname().nodename != "arl":
    got_through("host name")
"""
    assert attack(target, code, outside).exit.code == 0
