"""The command line that runs a program inside bubblewrap: pure, from what it may see and do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

USER: Final = 1000
"""Who a program is inside, whoever runs ARL outside."""
HOST_NAME: Final = "arl"
OPTIONAL: Final = ("--disable-userns", "--size")
"""Options that older versions of bubblewrap lack; used where they exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosure:
    """What one program finds inside. Paths are those it sees, mapped to those of the machine."""

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    """All of it."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Path to what the link says, for /bin and its like."""
    read_only: Mapping[str, str] = field(default_factory=dict)
    writable: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    """Besides /dev/null, zero, full, random, urandom, tty and pts."""
    enter: tuple[str, ...] = ()
    """What starts bubblewrap in a network made for this program alone, where its proxy listens;
    empty: bubblewrap makes one, with nothing but loopback. The machine's own is never shared."""
    shared_memory_bytes: int
    """Of /dev/shm, where bubblewrap can limit it."""
    status_fd: int | None = None
    filter_fd: int | None = None
    """On which bubblewrap finds a program that judges calls to the kernel; see targets.seccomp."""


def bwrap_argv(bwrap: str, enclosure: Enclosure, *, has: frozenset[str]) -> tuple[str, ...]:
    """The argv for bubblewrap at path `bwrap`, which has the options `has` of OPTIONAL.

    Namespaces, user and host name first, then mounts, outer ones before those inside them, then
    the program. Only what is named is there; everything else is an empty, read-only root.
    """
    shared_memory = ["--tmpfs", "/dev/shm"]
    if "--size" in has:
        shared_memory[:0] = ["--size", str(enclosure.shared_memory_bytes)]
    return (
        *enclosure.enter,
        bwrap,
        *_isolation(enclosure, has),
        *_environment(enclosure),
        *(part for at, to in enclosure.links.items() for part in ("--symlink", to, at)),
        *("--proc", "/proc", "--dev", "/dev"),
        *shared_memory,
        *(part for path in enclosure.devices for part in ("--dev-bind-try", path, path)),
        *_mounts(enclosure),
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", enclosure.cwd),
        "--",
        *enclosure.argv,
    )


def _isolation(enclosure: Enclosure, has: frozenset[str]) -> tuple[str, ...]:
    network = ("--share-net",) if enclosure.enter else ()
    nested = ("--disable-userns",) if "--disable-userns" in has else ()
    status, judge = enclosure.status_fd, enclosure.filter_fd
    return (
        *("--unshare-all", "--unshare-user", *network, *nested),
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *("--uid", str(USER), "--gid", str(USER), "--hostname", HOST_NAME),
        *(() if status is None else ("--json-status-fd", str(status))),
        *(() if judge is None else ("--seccomp", str(judge))),
    )


def _environment(enclosure: Enclosure) -> tuple[str, ...]:
    pairs = enclosure.environment.items()
    return ("--clearenv", *(part for pair in pairs for part in ("--setenv", *pair)))


def _mounts(enclosure: Enclosure) -> tuple[str, ...]:
    """By path, so that nothing mounted is hidden by what contains it."""
    mounts = [("--ro-bind", at, of) for at, of in enclosure.read_only.items()]
    mounts += [("--bind", at, of) for at, of in enclosure.writable.items()]
    mounts.sort(key=lambda mount: mount[1].rstrip("/").split("/"))
    return tuple(part for how, at, of in mounts for part in (how, of, at))
