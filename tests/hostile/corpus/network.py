"""Attempts to reach a network or a socket."""

from typing import Final

from tests.hostile.corpus.entry import Attack

NETWORK: Final = "a trial has no network"
PACKET: Final = "it would send a packet to an address of others"

ATTACKS: Final = (
    Attack(
        name="controller-socket",
        tries="connects to a service of the host on its loopback address",
        breaks=NETWORK,
        code="""
import socket
for family, address in ((socket.AF_INET, ("127.0.0.1", PORT)), (socket.AF_INET6, ("::1", PORT))):
    with socket.socket(family) as s:
        s.settimeout(1)
        try:
            s.connect(address)
        except OSError:
            continue
        got_through(address)
""",
    ),
    Attack(
        name="public-address",
        tries="connects to a public test address, by TCP and by UDP",
        breaks=NETWORK,
        code="""
import socket
for kind, address in ((1, ("192.0.2.1", 80)), (2, ("192.0.2.1", 53)), (1, ("198.51.100.1", 443))):
    with socket.socket(socket.AF_INET, kind) as s:
        s.settimeout(1)
        try:
            s.connect(address)
            s.send(b"x")
        except OSError:
            continue
        got_through(address)
""",
        hurts=PACKET,
    ),
    Attack(
        name="gateway-and-metadata",
        tries="connects to its gateway, to private ranges and to a cloud's metadata service",
        breaks=NETWORK,
        code="""
import socket
addresses = {"169.254.169.254", "172.17.0.1", "10.0.0.1", "192.168.0.1", "100.100.100.200"}
try:
    for line in open("/proc/net/route").read().splitlines()[1:]:
        word = bytes.fromhex(line.split()[2])[::-1]
        addresses.add(".".join(map(str, word)))
except OSError:
    pass
for address in addresses - {"0.0.0.0"}:
    with socket.socket() as s:
        s.settimeout(0.5)
        try:
            s.connect((address, 80))
        except ConnectionRefusedError:
            pass
        except OSError:
            continue
        got_through(address)
""",
        hurts=PACKET,
    ),
    Attack(
        name="names",
        tries="resolves a name: a channel that needs no connection",
        breaks=NETWORK,
        code="""
import socket
try:
    socket.getaddrinfo("leak.example.org", 80)
    got_through("a resolver")
except OSError:
    pass
""",
        hurts=PACKET,
    ),
    Attack(
        name="named-socket",
        tries="connects to a socket in the file system of the machine",
        breaks=NETWORK,
        code="""
import socket
with socket.socket(socket.AF_UNIX) as s:
    try:
        os.chdir(BASE)
        s.connect("socket")
        got_through("a named socket")
    except OSError:
        pass
""",
    ),
    Attack(
        name="abstract-socket",
        tries="connects to a socket without a file, which no mount hides",
        breaks=NETWORK,
        code="""
import socket
with socket.socket(socket.AF_UNIX) as s:
    try:
        s.connect("\\0" + MARK)
        got_through("an abstract socket")
    except OSError:
        pass
try:
    for line in open("/proc/net/unix"):
        if MARK in line:
            got_through("the list of sockets")
except OSError:
    pass
""",
    ),
    Attack(
        name="docker-socket",
        tries="looks for the socket of a container engine",
        breaks=NETWORK,
        code="""
import glob, socket
for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock",
             "/run/podman/podman.sock", "/run/user/0/docker.sock",
             *glob.glob("/tmp/*/docker.sock"), *glob.glob(BASE + "/*/docker.sock"),
             os.environ.get("DOCKER_HOST", "")[7:]):
    if path and os.path.exists(path):
        with socket.socket(socket.AF_UNIX) as s:
            try:
                s.connect(path)
            except OSError:
                continue
            got_through(path)
""",
        hurts="an engine that is there would answer",
    ),
    Attack(
        name="raw-sockets",
        tries="opens raw, packet, netlink and virtual machine sockets",
        breaks=NETWORK,
        code="""
import socket
for family, kind, protocol in ((2, 3, 1), (17, 3, 0x300), (40, 1, 0), (38, 5, 0)):
    try:
        s = socket.socket(family, kind, protocol)
    except OSError:
        continue
    if family in (2, 17):
        got_through(f"a socket of family {family}")
    if family == 40:
        try:
            s.settimeout(0.5)
            s.connect((2, 1024))
            got_through("the hypervisor")
        except OSError:
            pass
""",
        hurts="root may open them",
    ),
    Attack(
        name="opens-a-port",
        tries="serves its checkpoint, and itself, to whoever connects",
        breaks=NETWORK,
        code="""
import socket
with socket.socket() as s:
    s.bind(("0.0.0.0", 0))
    s.listen()
names = [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line]
if set(names) - {"lo"} - {n for n in names if n.startswith(("tunl", "sit", "ip6", "gre", "erspan",
                                                             "ip_vti"))}:
    got_through(names)
""",
    ),
)
