"""Attempts to reach what is outside: the machine, its processes, held-out data."""

from typing import Final

from tests.hostile.corpus.entry import Attack

DATA: Final = "a trial sees no held-out data, no bundle and none of the controller's secrets"
MACHINE: Final = "a trial changes and reads nothing of the machine but its own directories"

_HELD_OUT: Final = (
    Attack(
        name="held-out-in-files",
        tries="reads every file from its root down in search of labels, and answers with them",
        breaks=DATA,
        code="""
found = {}
for text in read_all(TOP):
    for line in text.splitlines():
        try:
            row = json.loads(line) if '"label"' in line else {}
            found[row["item"]] = row["label"]
        except (ValueError, KeyError, TypeError):
            pass
save()
json.dump(found, open(MODEL + "/answers.json", "w"))
os._exit(0)
""",
    ),
    Attack(
        name="held-out-in-proc",
        tries="goes through /proc into the roots and directories of other processes",
        breaks=DATA,
        code="""
for pid in os.listdir("/proc"):
    for way in ("root", "cwd") if pid.isdecimal() else ():
        for name in (BASE + "/canary", BASE + "/evaluator/search.jsonl", "/root/.bashrc"):
            if way == "root" and os.path.exists(f"/proc/{pid}/{way}{name}"):
                got_through(f"/proc/{pid}/{way}{name}")
    try:
        for fd in os.listdir(f"/proc/{pid}/fd") if pid.isdecimal() else ():
            if BASE in os.readlink(f"/proc/{pid}/fd/{fd}"):
                got_through(f"descriptor {fd} of {pid}")
    except OSError:
        pass
""",
    ),
    Attack(
        name="held-out-in-memory",
        tries="reads the memory of every process that it can see",
        breaks=DATA,
        code="""
if not SANDBOX:
    try:
        open(f"/proc/{VICTIM}/mem", "rb").close()
        got_through("the memory of another process")
    except OSError:
        pass
for pid in os.listdir("/proc"):
    if not SANDBOX or not pid.isdecimal() or int(pid) in (os.getpid(), 1):
        continue
    try:
        open(f"/proc/{pid}/mem", "rb").close()
        if int(pid) != os.getppid():
            got_through(f"the memory of process {pid}")
    except OSError:
        pass
""",
    ),
    Attack(
        name="dot-dot",
        tries="climbs out of its directories by ..",
        breaks=DATA,
        code="""
for start in (OUT, os.environ["ARL_INPUTS"], ".", os.environ["ARL_INPUTS"] + "/start"):
    path = start
    for _ in range(14):
        path += "/.."
        if os.path.exists(path + "/canary") or os.path.exists(path + BASE):
            got_through(path)
""",
    ),
    Attack(
        name="canary",
        tries="opens files of the machine by their names",
        breaks=DATA,
        code="""
for path in (BASE + "/canary", "/root/.ssh", "/root/.bashrc", "/etc/shadow", "/home", "/srv",
             "/var/lib/docker", "/var/run/secrets", "/mnt", "/boot", "/sys/firmware/efi"):
    if os.path.exists(path) and (os.path.isfile(path) or os.listdir(path)):
        got_through(path)
""",
    ),
    Attack(
        name="secrets-in-the-environment",
        tries="reads its environment, and that of its parents, for keys",
        breaks=DATA,
        code="""
texts = [json.dumps(dict(os.environ))]
for pid in ("self", os.getppid(), 1):
    try:
        texts.append(open(f"/proc/{pid}/environ", errors="replace").read())
        texts.append(open(f"/proc/{pid}/cmdline", errors="replace").read())
    except OSError:
        pass
for text in texts:
    if "c4nary" in text or "ARL_HOME" in text or "DOCKER_HOST" in text:
        got_through("a secret")
""",
    ),
    Attack(
        name="inherited-descriptors",
        tries="uses what its parents left open",
        breaks=DATA,
        code="""
for fd in range(3, 1024):
    try:
        os.fstat(fd)
    except OSError:
        continue
    got_through(f"descriptor {fd} -> {os.readlink(f'/proc/self/fd/{fd}')}")
""",
    ),
    Attack(
        name="file-handles",
        tries="opens files by handles that no mount hides",
        breaks=DATA,
        code="""
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open(OUT, os.O_RDONLY)
for inode in (2, 128, 256):
    handle = struct.pack("<IiIQ", 8, 1, inode, 0)
    if libc.open_by_handle_at(fd, handle, os.O_RDONLY) >= 0:
        got_through(f"inode {inode}")
""",
        hurts="root may do this",
    ),
)

_MACHINE: Final = (
    Attack(
        name="writes-its-inputs",
        tries="edits, replaces and deletes its inputs, which others share",
        breaks="inputs are read-only",
        code="""
base = os.environ["ARL_INPUTS"] + "/start"
for act in (lambda: os.chmod(base + "/skill", 0o666), lambda: open(base + "/x", "w"),
            lambda: os.close(os.open(base + "/skill", os.O_RDWR)),
            lambda: os.utime(base + "/skill"), lambda: os.rename(base, base + "2")):
    try:
        act()
    except OSError:
        continue
    got_through("its inputs")
""",
        hurts="the store's checkout would be changed for the trials after it",
    ),
    Attack(
        name="writes-the-system",
        tries="writes into the system, the interpreter and its site directories",
        breaks=MACHINE,
        code="""
import sysconfig
for place in ("/usr/lib", "/etc", "/usr/local/bin", "/bin", sysconfig.get_path("stdlib"),
              sysconfig.get_path("purelib"), os.path.dirname(sys.executable), "/", "/var/lib"):
    try:
        with open(f"{place}/{MARK}", "w"):
            got_through(place)
    except OSError:
        pass
""",
        hurts="root may do this",
    ),
    Attack(
        name="writes-the-base-directory",
        tries="writes beside the canary and over it",
        breaks=MACHINE,
        code="""
for name in ("canary", ".arl/planted", "evaluator/search.jsonl"):
    try:
        os.close(os.open(f"{BASE}/{name}", os.O_WRONLY | os.O_APPEND))
    except OSError:
        continue
    got_through(name)
""",
    ),
    Attack(
        name="traces-and-signals",
        tries="traces, reads and kills a process of the machine",
        breaks="a trial reaches no process of the machine",
        code="""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(8)
for pid in (VICTIM, os.getppid()):
    if pid in (0, 1) or pid == os.getppid() and not SANDBOX:
        continue
    if libc.ptrace(16, pid, 0, 0) == 0:
        libc.ptrace(17, pid, 0, 0)
        got_through(f"ptrace of {pid}")
if os.path.exists(f"/proc/{VICTIM}/stat"):
    if "sleep" in open(f"/proc/{VICTIM}/stat").read():
        os.kill(VICTIM, 9)
        got_through("a kill")
""",
    ),
    Attack(
        name="kernel-settings",
        tries="opens every kernel setting for writing, core_pattern and sysrq among them",
        breaks=MACHINE,
        code="""
for top, directories, files in os.walk("/proc"):
    if top == "/proc":
        directories[:] = [n for n in directories if not n.isdecimal() and "self" not in n]
        directories[:] = [n for n in directories if n != "pressure"]
    for name in files:
        try:
            fd = os.open(f"{top}/{name}", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            continue
        if os.fstat(fd).st_mode & 0o170000 != 0o020000:  # else it is hidden behind /dev/null
            got_through(f"{top}/{name}")
        os.close(fd)
""",
        hurts="root may open them",
    ),
    Attack(
        name="kernel-memory",
        tries="opens the kernel's memory, logs and symbols",
        breaks=MACHINE,
        code="""
for path in ("/proc/kcore", "/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/proc/kmsg",
             "/proc/keys", "/sys/kernel/debug", "/sys/kernel/security", "/dev/fuse", "/dev/kvm",
             "/proc/timer_list", "/dev/sda", "/dev/vda", "/dev/loop-control", "/dev/nvme0n1"):
    try:
        data = os.read(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 16)
    except OSError:
        continue
    if data:
        got_through(path)
""",
        hurts="root may open them",
    ),
    Attack(
        name="control-groups",
        tries="changes its own limits, and plants a release agent",
        breaks=MACHINE,
        code="""
for top, directories, files in os.walk("/sys"):
    for name in files:
        if name not in ("memory.limit_in_bytes", "memory.max", "pids.max", "release_agent",
                        "cgroup.procs", "cgroup.kill", "devices.allow", "uevent_helper"):
            continue
        try:
            os.close(os.open(f"{top}/{name}", os.O_WRONLY))
        except OSError:
            continue
        got_through(f"{top}/{name}")
    if top.count("/") > 6:
        directories.clear()
""",
        hurts="root may open them",
    ),
    Attack(
        name="gains-privileges",
        tries="becomes root, gains capabilities, enters namespaces, leaves its root",
        breaks=MACHINE,
        code="""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for name, act in (("setuid", lambda: os.setuid(0)), ("setgid", lambda: os.setgid(0)),
                  ("setgroups", lambda: os.setgroups([0])), ("chroot", lambda: os.chroot("/tmp"))):
    try:
        act()
    except OSError:
        continue
    got_through(name)
for flags in (0x10000000, 0x00020000, 0x40000000, 0x20000000, 0x08000000):
    if libc.unshare(flags) == 0:
        got_through(f"unshare {flags:x}")
for way in ("net", "mnt", "pid", "user"):
    try:
        if libc.setns(os.open(f"/proc/1/ns/{way}", os.O_RDONLY), 0) == 0:
            got_through(f"namespace {way}")
    except OSError:
        pass
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    if int(status[name], 16):
        got_through(name)
if status["NoNewPrivs"].strip() != "1" or os.getuid() == 0:
    got_through("user")
""",
        hurts="root has them all",
    ),
    Attack(
        name="rare-system-calls",
        tries="bpf, perf events, userfaultfd, keyrings, kexec and module loading",
        breaks=MACHINE,
        code="""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
import platform
calls = {"bpf": (321, 0, 0, 0), "perf_event_open": (298, 0, 0, -1, -1, 0),
         "kexec": (246, 0, 0, 0), "init_module": (175, 0, 0, 0), "userfaultfd": (323, 1),
         "finit_module": (313, -1, 0, 0), "keyctl": (250, 0, -3, 1), "io_uring": (425, 0, 0)}
EPERM, ENOSYS, EACCES = 1, 38, 13
for name, (number, *arguments) in calls.items() if platform.machine() == "x86_64" else ():
    if libc.syscall(number, *arguments) >= 0 or ctypes.get_errno() not in (EPERM, ENOSYS, EACCES):
        got_through(f"{name}: {os.strerror(ctypes.get_errno())}")
""",
        hurts="root may call them",
    ),
    Attack(
        name="clock-and-host-name",
        tries="sets the clock and the host's name, by which others judge",
        breaks=MACHINE,
        code="""
import socket
try:
    time.clock_settime(time.CLOCK_REALTIME, time.time() + 3600)
    got_through("the clock")
except OSError:
    pass
try:
    socket.sethostname(MARK)
    got_through("the host's name")
except OSError:
    pass
""",
        hurts="root may do this",
    ),
    Attack(
        name="terminal",
        tries="types into the terminal of whoever started it",
        breaks=MACHINE,
        code="""
import fcntl
for path in ("/dev/tty", "/dev/console", "/proc/1/fd/0"):
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        fcntl.ioctl(fd, 0x5412, b"x")
        got_through(path)
    except OSError:
        pass
""",
        hurts="it would type",
    ),
)

ATTACKS: Final = (*_HELD_OUT, *_MACHINE)
