"""Channels from one trial to the next: caches, counters and marks left behind.

Each has two trials, the second after all others: whoever finds what the first left saves a better
model, so that a channel shows as a score.
"""

from typing import Final

from tests.hostile.corpus.entry import Attack

RULE: Final = "a trial has empty, private scratch, and nothing of it is there for the next"

_PLACES: Final = {
    "tmp": '["/tmp"]',
    "home": '[os.environ["HOME"], os.path.expanduser("~")]',
    "temporary-directory": '[os.environ["TMPDIR"]]',
    "var-tmp": '["/var/tmp", "/run", "/run/lock", "/var/cache"]',
    "shared-memory": '["/dev/shm"]',
    "working-directory": '["."]',
    "beside-its-directories": '[OUT + "/..", os.environ["ARL_INPUTS"], os.environ["ARL_INPUTS"] + '
    '"/..", "..", "/"]',
    "output-directory": "[OUT]",
}
_IN_FILES: Final = """
seen = False
for place in set({places}):
    path = place + "/" + MARK + "-" + {name!r}
    seen = seen or os.path.exists(path)
    try:
        open(path, "w").write("seen")
    except OSError:
        pass
if seen:
    got_through({name!r})
save(0.9 if seen else 0.3)
os._exit(0)
"""


def _found(name: str, tries: str, code: str, hurts: str = "") -> Attack:
    body = f"seen = False\n{code}\nif seen:\n    got_through({name!r})\n"
    body += "save(0.9 if seen else 0.3)\nos._exit(0)\n"
    return Attack(name=name, tries=tries, breaks=RULE, code=body, times=2, hurts=hurts)


_MACHINES_OWN: Final = "what it leaves would stay on the machine"
_STAYS: Final = frozenset({"tmp", "var-tmp", "shared-memory", "beside-its-directories"})

ATTACKS: Final = (
    *(
        Attack(
            name=f"cache-in-{name}",
            tries=f"leaves a file for the next trial: {name.replace('-', ' ')}",
            breaks=RULE,
            code=_IN_FILES.format(places=places, name=name),
            times=2,
            hurts=_MACHINES_OWN if name in _STAYS else "",
        )
        for name, places in _PLACES.items()
    ),
    _found("system-v-memory", "leaves a shared memory segment", """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
key = 0x41524C
seen = libc.shmget(key, 4096, 0o600) >= 0
libc.shmget(key, 4096, 0o600 | 0o1000)""", _MACHINES_OWN),
    _found("system-v-semaphores", "leaves a semaphore and a message queue", """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
key = 0x41524D
seen = libc.semget(key, 1, 0o600) >= 0 or libc.msgget(key, 0o600) >= 0
libc.semget(key, 1, 0o600 | 0o1000)
libc.msgget(key, 0o600 | 0o1000)""", _MACHINES_OWN),
    _found("message-queue", "leaves a POSIX message queue", """
import ctypes
try:
    rt = ctypes.CDLL("librt.so.1", use_errno=True)
    name = b"/" + MARK.encode()
    seen = rt.mq_open(name, os.O_RDWR) >= 0
    rt.mq_open(name, os.O_RDWR | os.O_CREAT, 0o600, None)
except (OSError, AttributeError):
    pass""", _MACHINES_OWN),
    _found("keyring", "leaves a key in the kernel's keyrings", """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
name = MARK.encode()
for ring in (-3, -4, -5):
    seen = seen or libc.syscall(250, 10, ring, b"user", name, 0) >= 0
for ring in (-3, -4, -5):
    libc.syscall(248, b"user", name, b"1", 1, ring)""", _MACHINES_OWN),
    _found("daemon-with-a-socket", "leaves a process that remembers, found by a socket", """
import socket
name = "\\0" + MARK + "-daemon"
try:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(name)
        seen = True
except OSError:
    if os.fork() == 0:
        os.setsid()
        for fd in (0, 1, 2):
            os.close(fd)
        serving = socket.socket(socket.AF_UNIX)
        serving.bind(name)
        serving.listen()
        time.sleep(30)
        os._exit(0)"""),
    _found("access-times", "tells from an input's access time whether it was read before", """
path = os.environ["ARL_INPUTS"] + "/start/never-read"
before = os.stat(path).st_atime_ns
with open(path) as file:
    file.read()
os.stat(path)
status = os.stat(path)
seen = os.environ["ARL_ATTEMPT"] != "" and before > status.st_mtime_ns and before <= time.time_ns()
"""),
    _found("marks-on-inputs", "leaves extended attributes, times and locks on its inputs", """
import fcntl
path = os.environ["ARL_INPUTS"] + "/start/skill"
for name in ("user." + MARK[:20],):
    try:
        seen = bool(os.getxattr(path, name))
    except OSError:
        pass
    try:
        os.setxattr(path, name, b"1")
    except OSError:
        pass
if os.fork() == 0:
    os.setsid()
    for fd in (0, 1, 2):
        os.close(fd)
    fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX)
    time.sleep(30)
    os._exit(0)
time.sleep(0.05)""", "the store's checkout would be marked"),
    _found("counts-its-runs", "counts how often it ran, in every place at once", """
places = [os.environ["HOME"], os.environ["TMPDIR"], ".", OUT, "/tmp", "/dev/shm", "/var/tmp",
          os.environ["ARL_INPUTS"], os.path.dirname(os.environ["ARL_REPORTS"])]
for place in set(places if SANDBOX else places[:4]):
    try:
        with open(f"{place}/{MARK}-count", "a+") as file:
            file.seek(0)
            seen = seen or bool(file.read())
            file.write("x")
    except OSError:
        pass"""),
    _found("previous-output", "looks for what an earlier attempt left in any directory it has", """
for place in (OUT, ".", os.environ["HOME"], os.environ["TMPDIR"], os.environ["ARL_REPORTS"]):
    if os.path.isdir(place):
        seen = seen or MARK in "".join(os.listdir(place))
    elif os.path.exists(place):
        seen = seen or os.path.getsize(place) > 0
open(os.environ["ARL_REPORTS"], "a").write("{}\\n")"""),
)  # fmt: skip
