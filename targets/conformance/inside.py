"""The programs that checks run inside: small texts for /bin/sh and for Python.

None does harm where it gets through: it says so, and takes back what it did.
"""

from typing import Final

FACTS: Final = "ARL-DOCTOR "
"""Before the JSON object that a program tells."""

_TELL: Final = f"""
import json, os, sys, time
def tell(**facts):
    print("\\n{FACTS}" + json.dumps(facts), flush=True)
"""

UNTIL_ASKED: Final = 'while [ ! -e "$ARL_STOP" ]; do sleep 0.05; done; '


def report(step: int) -> str:
    """Shell: one value of `loss` at a step."""
    return f"""echo '{{"step": {step}, "metric": "loss", "value": 0.5}}' >> "$ARL_REPORTS"; """


MEMORY: Final = f"""{_TELL}
piece = 8 << 20
held = []
if os.environ["IN_CHILD"] == "1" and os.fork():
    os.wait()
    sys.exit(0)
while len(held) * piece < int(os.environ["MOST"]):
    held.append(b"x" * piece)
    tell(held_bytes=len(held) * piece)
    time.sleep(0.02)
time.sleep(3)
tell(held_bytes=len(held) * piece, unharmed=True)
"""
"""Takes memory in small steps up to $MOST; with IN_CHILD only a child of it does."""

PROCESSES: Final = """
cd "$ARL_OUTPUT" && mkfifo never || exit 9
n=0
while [ $n -lt $MOST ]; do
  (read x <never) 2>/dev/null &
  n=$((n + 1))
  case $n in *00) echo "$n";; esac
done
sleep 3
echo unharmed
"""
"""Children that only wait, up to $MOST of them."""

SPIN: Final = f"""{_TELL}
children = int(os.environ["CHILDREN"])
until = time.monotonic() + float(os.environ["SECONDS"])
for _ in range(children - 1):
    if not os.fork():
        while time.monotonic() < until: pass
        os._exit(0)
started = time.monotonic()
while time.monotonic() < until: pass
for _ in range(children - 1): os.wait()
used = os.times()
tell(wall_s=time.monotonic() - started,
     cpu_s=used.user + used.system + used.children_user + used.children_system)
"""

FILL: Final = f"""{_TELL}
path = os.path.join(os.environ[os.environ["WHERE"]], "filled")
wrote = 0
try:
    with open(path, "wb", buffering=0) as file:
        while wrote < int(os.environ["MOST"]):
            wrote += file.write(b"x" * (1 << 20))
            time.sleep(0.005)
except OSError as error:
    tell(wrote_bytes=wrote, refused=error.strerror)
    sys.exit(1)
tell(wrote_bytes=wrote)
time.sleep(4)
tell(wrote_bytes=wrote, unharmed=True)
"""
"""Writes up to $MOST bytes below the directory that the variable named $WHERE holds."""

FLOOD: Final = """
import json, os
line = json.dumps({"step": 1, "metric": "loss", "value": 0.5}) + "\\n"
with open(os.environ["ARL_REPORTS"], "a") as file:
    for _ in range(int(os.environ["MOST"]) // (len(line) * 1000)):
        file.write(line * 1000)
"""

TREE: Final = f"""{_TELL}
import signal
def beat(name):
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    path = os.path.join(os.environ["ARL_OUTPUT"], "beat-" + name)
    until = time.time() + 12  # it is no trouble for ever
    while time.time() < until:
        with open(path, "a") as file: file.write("%.3f\\n" % time.time())
        time.sleep(0.03)
    os._exit(0)
def let_go():
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2): os.dup2(nothing, descriptor)
if not os.fork(): beat("child")
if not os.fork():
    os.setsid()
    let_go()
    beat("session")
if not os.fork():
    os.setsid()
    if os.fork(): os._exit(0)
    let_go()
    beat("daemon")
names = ["beat-child", "beat-session", "beat-daemon"]
paths = [os.path.join(os.environ["ARL_OUTPUT"], name) for name in names]
while not all(os.path.exists(path) and os.path.getsize(path) for path in paths):
    time.sleep(0.01)
print("it grows", flush=True)
if os.environ["THEN"] == "exit": os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(12)
"""
"""A child, one in a session of its own and a daemon, all deaf to signals, write the time."""

NETWORK: Final = f"""{_TELL}
import socket
def rows(name):
    try:
        with open("/proc/net/" + name) as file: return file.read().splitlines()
    except OSError: return []
interfaces = sorted(l.split(":")[0].strip() for l in rows("dev")[2:] if ":" in l)
routes = [l for l in rows("route")[1:] if l.strip()]
routes += [l for l in rows("ipv6_route") if l.split()[-1] != "lo"]
reached = []
def attempt(name, family, kind, address):
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(2)
            s.connect(address)
            s.sendall(os.environ["WORD"].encode())
            if kind == socket.SOCK_DGRAM: return  # whether it came is known outside
            reached.append(name)
    except OSError: pass
port4, port6, udp = (int(os.environ[n]) for n in ("PORT4", "PORT6", "UDP"))
attempt("127.0.0.1", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port4))
if port6: attempt("::1", socket.AF_INET6, socket.SOCK_STREAM, ("::1", port6))
attempt("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", udp))
attempt("an abstract socket", socket.AF_UNIX, socket.SOCK_STREAM, "\\0" + os.environ["ABSTRACT"])
attempt("a socket file", socket.AF_UNIX, socket.SOCK_STREAM, os.environ["SOCKET"])
resolved = None
if interfaces in ([], ["lo"]) and not routes:  # a question could go nowhere but to ourselves
    try: resolved = socket.getaddrinfo("example.com", 80)[0][4][0]
    except OSError: resolved = ""
tell(interfaces=interfaces, routes=len(routes), reached=reached, resolved=resolved)
"""

EGRESS: Final = f"""{_TELL}
import socket
from urllib.parse import urlsplit
proxy = urlsplit(os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY") or "")
here = "127.0.0.1:" + os.environ["PORT4"]
passed = []
def ask(host):
    with socket.create_connection((proxy.hostname, proxy.port), timeout=5) as s:
        s.settimeout(5)
        s.sendall(("CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % (host, host)).encode())
        answer = s.recv(4096).split(b" ")
        if len(answer) > 1 and answer[1][:1] == b"2":
            passed.append(host)
            s.sendall(os.environ["WORD"].encode())
if proxy.hostname:
    for host in (os.environ["UNLISTED"], here):
        try: ask(host)
        except OSError: pass
try:
    with socket.create_connection(("127.0.0.1", int(os.environ["PORT4"])), timeout=2) as s:
        s.sendall(os.environ["WORD"].encode())
except OSError: pass
tell(proxy=bool(proxy.hostname), passed=passed)
"""
"""Asks its proxy for a name that no list has and for this machine; nothing of it gets out."""

READS: Final = f"""{_TELL}
canary, word = os.environ["CANARY"], os.environ["PART"]  # the word is put together here
word = word + "-" + os.environ["OTHER_PART"]
found = []
def look(path):
    try:
        with open(path, errors="replace") as file:
            if word in file.read(1 << 16): found.append(path)
    except OSError: pass
look(canary)
path = os.environ["ARL_OUTPUT"]
for _ in range(12):
    path += "/.."
    look(path + canary)
for pid in os.listdir("/proc"):
    if pid.isdecimal():
        for way in ("root", "cwd"): look("/proc/%s/%s%s" % (pid, way, canary))
listed = []
for root in os.environ["ROOTS"].split(":"):
    try:
        if root and os.listdir(root): listed.append(root)
    except OSError: pass
tell(found=found[:5], listed=listed)
"""

PROCESSES_SEEN: Final = f"""{_TELL}
import signal
def read(pid, name):
    try:
        with open("/proc/%s/%s" % (pid, name), errors="replace") as file: return file.read(1 << 16)
    except OSError: return ""
word = os.environ["PART"] + "." + os.environ["OTHER_PART"]
secret = os.environ["PART"] + "-" + os.environ["OTHER_PART"]
pids = [p for p in os.listdir("/proc") if p.isdecimal()]
seen = [p for p in pids if word in read(p, "cmdline")]
secrets = [p for p in pids if secret in read(p, "environ")]
signalled = False
try:
    os.kill(int(os.environ["SLEEPER"]), 0)
    signalled = word in read(os.environ["SLEEPER"], "cmdline")
except OSError: pass
tell(seen=seen, secrets=secrets, signalled=signalled, processes=len(pids))
"""

ENVIRONMENT: Final = f"""{_TELL}
tell(environment=dict(os.environ))
"""

WRITES: Final = f"""{_TELL}
changed = []
def attempt(name, work):
    try: work()
    except OSError: return
    changed.append(name)
def make(path):
    with open(path, "x"): pass
    os.unlink(path)
def append(path):
    with open(path, "r+b") as file:
        last = file.read()[-1:]
        file.seek(-1, 2)
        file.write(last)
data = os.path.join(os.environ["ARL_INPUTS"], "data")
attempt("its input's file", lambda: append(data + "/rows"))
attempt("its input's mode", lambda: os.chmod(data + "/rows", 0o777))
attempt("its input's directory", lambda: make(data + "/arl-doctor-new"))
attempt("its inputs", lambda: make(os.environ["ARL_INPUTS"] + "/arl-doctor-new"))
for place in ("/usr", "/usr/bin", "/etc", "/bin", "/lib"):
    attempt(place, lambda: make(place + "/arl-doctor-new"))
attempt("its params", lambda: append(os.environ["ARL_PARAMS"]))
tell(changed=changed)
"""
"""What it can change it puts back as it was, but for a mode of its own input's copy."""

SCRATCH: Final = f"""{_TELL}
own = os.environ["HOME"], os.environ.get("TMPDIR", "/tmp")
found, used = [], []
with open("/proc/self/mountinfo") as file:  # an interpreter that lives below /tmp is no leftover
    mounts = [line.split()[4] + "/" for line in file]
for place in dict.fromkeys(("/tmp", "/var/tmp", "/dev/shm", *own)):
    try: names = os.listdir(place)
    except OSError: continue
    roots = {{n: os.path.join(place, n) + "/" for n in names}}
    names = [n for n, root in roots.items() if not any(m.startswith(root) for m in mounts)]
    if place in ("/tmp", *own) and names: used.append(place)
    if any(n.startswith(os.environ["MARK"]) for n in names): found.append(place)
if os.environ["LEAVE"] == "1":
    for place in ("/tmp", "/var/tmp", "/dev/shm", *own):
        try:
            with open(os.path.join(place, os.environ["MARK"]), "w"): pass
        except OSError: pass
    print("left something", flush=True)
    while not os.path.exists(os.environ["ARL_STOP"]): time.sleep(0.05)
tell(found=found, used=used)
"""

CLOCK: Final = f"""{_TELL}
at = time.time()
settable = False
with open("/proc/self/status") as file:
    rights = int(next(l for l in file if l.startswith("CapEff:")).split()[1], 16)
if rights & (1 << 25):  # CAP_SYS_TIME, though perhaps only in a user namespace: to the same time
    try:
        time.clock_settime(time.CLOCK_REALTIME, time.time())
        settable = True
    except OSError: pass
tell(at=at, settable=settable)
"""

GPUS: Final = """for d in /dev/nvidia[0-9]*; do [ -e "$d" ] && echo "gpu $d"; done; echo looked"""
