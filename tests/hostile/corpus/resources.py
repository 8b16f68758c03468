"""Programs that take what the machine has, or do not end."""

from typing import Final

from ledger.states import Reason
from tests.hostile.corpus.entry import Attack, Shape, ends

RULE: Final = "limits are enforced on the target's side"
ENDED: Final = "stopping kills everything: session escapees and grandchildren too"

_TIMED_OUT: Final = ends(Reason.TIMED_OUT)
_TOO_LARGE: Final = ends(
    Reason.TOO_MUCH_DATA, Reason.OUTPUT_REFUSED, Reason.TIMED_OUT, Reason.EXIT_NONZERO
)
_KILLED: Final = ends(
    Reason.OUT_OF_MEMORY,
    Reason.TOO_MANY_PROCESSES,
    Reason.TIMED_OUT,
    Reason.CRASHED,
    Reason.EXIT_NONZERO,
)


def _limited(name: str, tries: str, code: str, **more: object) -> Attack:
    values = {"breaks": RULE, "shape": Shape.LIMITS, **more}
    return Attack(name=name, tries=tries, code=code, **values)  # type: ignore[arg-type]


_TIME: Final = (
    _limited("ignores-sigterm", "sleeps for ever and ignores every signal it may", """
import signal
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    time.sleep(60)""", ends=_TIMED_OUT),
    _limited("busy-for-ever", "computes for ever on every core", """
for _ in range(3):
    os.fork()
while True:
    pass""", ends=_TIMED_OUT),
    _limited("stops-itself", "stops itself and its children with SIGSTOP", """
import signal
if os.fork():
    os.kill(os.getpid(), signal.SIGSTOP)
os.kill(os.getpid(), signal.SIGSTOP)
while True:
    time.sleep(60)""", ends=_TIMED_OUT),
    _limited("waits-on-a-pipe", "reads from a pipe that nobody writes to", """
os.mkfifo("pipe"); open("pipe").read()""", ends=_TIMED_OUT),
    _limited("lives-on-after-sigterm", "saves a better model when it is told to end", """
import signal
def late(*_):
    save(0.9); os._exit(0)
signal.signal(signal.SIGTERM, late)
save()
while True:
    time.sleep(60)""", ends=_TIMED_OUT, breaks="a failed trial has no score"),
)  # fmt: skip

_MEMORY: Final = (
    _limited("allocates-for-ever", "allocates memory until it is stopped", """
held = []
while len(held) < 400:
    held.append(bytearray(os.urandom(1 << 16) * 64))
time.sleep(60)""", ends=_KILLED),
    _limited("allocates-in-children", "allocates memory in many children, each a little", """
for _ in range(40):
    if os.fork() == 0:
        held = bytearray(os.urandom(1 << 16) * 256)
        time.sleep(60)
        os._exit(0)
time.sleep(60)""", ends=_KILLED),
    _limited("child-killed-for-memory", "has a child killed for memory and exits 0 itself", """
if os.fork() == 0:
    held = [bytearray(os.urandom(1 << 16) * 64) for _ in range(200)]
    time.sleep(20)
    os._exit(0)
os.wait()""", ends=_KILLED),
    _limited("memory-on-shm", "fills shared memory, which is the machine's", """
try:
    with open("/dev/shm/" + MARK, "wb", buffering=0) as file:
        for _ in range(400):
            if not file.write(os.urandom(1 << 20)):
                break
        else:
            got_through("400 MiB of shared memory")
except OSError as error:
    print(error)""", ends=_KILLED, may_be_scored=True,
             hurts="the memory would be the machine's, and nobody would free it"),
    _limited("memory-in-files", "holds memory in files without a name", """
held = []
for i in range(400):
    fd = os.memfd_create(str(i))
    os.write(fd, os.urandom(1 << 20))
    held.append(fd)
time.sleep(60)""", ends=_KILLED,
             hurts="it is not seen where the kernel does not count, up to its deadline"),
    _limited("raises-its-victim-score", "has the kernel take another process in its place", """
try:
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-1000")
    got_through("oom_score_adj")
except OSError:
    pass""", hurts="root may do this"),
)  # fmt: skip

_PROCESSES: Final = (
    _limited("fork-bomb", "forks for ever, in groups of its own", """
end = time.time() + 30
for _ in range(7):
    os.fork()
os.setpgid(0, 0)
while time.time() < end:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)""", ends=_KILLED),
    _limited("sleeping-fork-bomb", "doubles until nothing more can be started", """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(14):
    try:
        os.fork()
    except OSError:
        time.sleep(0.05)
time.sleep(60)""", ends=_KILLED,
             hurts="it would take the machine's processes for as long as it is not noticed"),
    _limited("thread-bomb", "starts threads until none can be started", """
import _thread
lock = _thread.allocate_lock()
lock.acquire()
try:
    for _ in range(20_000):
        _thread.start_new_thread(lock.acquire, ())
except RuntimeError:
    pass
time.sleep(60)""", ends=_KILLED, hurts="threads are counted in the sandbox's group only"),
    _limited("descriptor-bomb", "opens files until none can be opened", """
last = 0
try:
    for _ in range(2_000_000):
        last = os.dup(0)
except OSError:
    pass
os.closerange(3, last + 1)"""),
    _limited("kills-everything", "sends SIGKILL to every process it may", """
os.kill(-1, 9)""", ends=_KILLED, may_be_scored=True, hurts="it would end the user's session"),
    _limited("kills-its-parent", "kills whoever started it", """
os.kill(os.getppid(), 9)
time.sleep(0.1)""", ends=ends(Reason.ATTEMPT_LOST, Reason.CRASHED, Reason.EXIT_NONZERO),
             may_be_scored=True, breaks="a trial reaches no process of the machine"),
    _limited("daemon", "leaves a grandchild in a session of its own", """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", LEFT], {})
    os._exit(0)""", breaks=ENDED),
    _limited("daemon-in-a-shell", "leaves daemons as a shell would, deaf to every signal",
             "(trap '' TERM HUP INT; setsid sh -c 'setsid env -i sleep \"$0\" & sleep \"$0\"' "
             '"$LEFT" >/dev/null 2>&1 &)\nsave\n',
             language="sh", breaks=ENDED),
    _limited("chain-of-daemons", "replaces itself faster than it can be looked for", """
import signal
save()
if os.fork() == 0:
    os.setsid()
    start = time.time()
    while time.time() < start + 30:
        if os.fork():
            os._exit(0)
        try:
            if time.time() > start + 0.5:  # after the end of the program
                open(MODEL + "/skill", "w").write("0.9")
        except OSError:
            pass
        time.sleep(0.001)
os._exit(0)""", breaks=ENDED, ends=ends(Reason.OUTPUT_REFUSED, Reason.NO_MODEL),
             may_be_scored=True),
    _limited("zombies", "leaves two thousand zombies", """
for _ in range(2000):
    if os.fork() == 0:
        os._exit(0)""", ends=_KILLED, may_be_scored=True),
    _limited("real-time", "asks for real-time priority and locks its memory", """
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    got_through("real-time priority")
except OSError:
    pass
try:
    os.nice(-10)
    got_through("priority")
except OSError:
    pass""", hurts="root may do this"),
    _limited("core-dump", "crashes with a core of its whole memory", """
import resource
resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
held = bytearray(os.urandom(1 << 16) * 512)
os.abort()""", ends=ends(Reason.CRASHED, Reason.OUT_OF_MEMORY)),
)  # fmt: skip

_DISK: Final = (
    _limited("fills-the-output", "writes to its output until the disk is full", """
os.makedirs(MODEL)
block = os.urandom(1 << 20)
with open(MODEL + "/weights", "wb", buffering=0) as file:
    for _ in range(300):
        file.write(block)""", ends=_TOO_LARGE),
    _limited("fills-the-output-outside-its-model", "writes where nothing is collected", """
block = os.urandom(1 << 20)
with open(OUT + "/cache", "wb", buffering=0) as file:
    for _ in range(300):
        file.write(block)
time.sleep(3)""", ends=_TOO_LARGE),
    _limited("fills-its-scratch", "writes to HOME, /tmp and its working directory", """
block = os.urandom(1 << 20)
for place in (os.environ["HOME"], "." if SANDBOX else "x", "/tmp" if SANDBOX else "y"):
    os.makedirs(place, exist_ok=True)
    with open(place + "/filler", "wb", buffering=0) as file:
        for _ in range(150):
            file.write(block)
time.sleep(3)""", ends=_TOO_LARGE),
    _limited("unlinked-file", "fills the disk with a file that has no name any more", """
block = os.urandom(1 << 20)
with open(OUT + "/filler", "wb", buffering=0) as file:
    os.unlink(OUT + "/filler")
    for _ in range(300):
        file.write(block)
    time.sleep(3)""", ends=_TOO_LARGE, may_be_scored=True),
    _limited("many-small-files", "uses up inodes instead of bytes", """
os.makedirs("files")
for i in range(30_000):
    os.close(os.open(f"files/{i}", os.O_CREAT | os.O_WRONLY))""",
             ends=_TOO_LARGE, may_be_scored=True),
    _limited("allocated-and-not-written", "reserves disk space without writing to it", """
os.makedirs(MODEL)
fd = os.open(MODEL + "/weights", os.O_CREAT | os.O_RDWR)
try:
    os.posix_fallocate(fd, 0, 300 << 20)
except OSError:
    pass
time.sleep(3)""", ends=_TOO_LARGE, may_be_scored=True),
    _limited("endless-output", "prints for ever",
             "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done\n",
             language="sh", ends=_TIMED_OUT),
    _limited("endless-line", "prints one endless line, and as much as the pipe takes", """
block = b"\\0\\xff\\x1b[" * 65536
end = time.time() + 30
while time.time() < end:
    os.write(1, block)""", ends=_TIMED_OUT),
    _limited("flood-of-reports", "reports until its report file is full", """
line = b'{"step": 1, "metric": "score", "value": 0.97}\\n' * 2000
with open(os.environ["ARL_REPORTS"], "ab", buffering=0) as file:
    for _ in range(200):
        file.write(line)""", ends=_TOO_LARGE, may_be_scored=True),
)  # fmt: skip

ATTACKS: Final = (*_TIME, *_MEMORY, *_PROCESSES, *_DISK)
