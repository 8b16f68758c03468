"""Which calls to the kernel a sandboxed program may not make: a classic BPF program for seccomp.

Pure. What is refused fails with EPERM, as if the machine did not allow it; clone3 fails as if the
kernel did not know it, since its flags lie in memory that no filter can read, and every C library
then uses clone instead. Calls that a kernel learns later are allowed until this file names them:
each is still subject to all the sandbox's other walls.
"""

import functools
import platform
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

DESCRIPTOR: Final = 7
"""On which bubblewrap finds the program; it closes it before anything runs inside."""

EPERM: Final = 1
ENOSYS: Final = 38

ALLOW: Final = 0x7FFF0000
FAIL: Final = 0x00050000
"""Plus the error's number."""

X32: Final = 0x40000000
"""Bit of the x86_64 calls that take 32-bit pointers."""

_NUMBER_AT: Final = 0
_ARCHITECTURE_AT: Final = 4
_ARGUMENTS_AT: Final = 16
"""In what the kernel shows to the program; both machines are little-endian."""

_LOAD: Final = 0x20
_AND: Final = 0x54
_JUMP_IF_EQUAL: Final = 0x15
_JUMP_IF_AT_LEAST: Final = 0x35
_RETURN: Final = 0x06
_MOST_SKIPPED: Final = 255

NEW_NAMESPACES: Final = 0x7E020000
"""CLONE_NEW* but CLONE_NEWTIME, which clone does not know."""
PERSONALITIES: Final = (0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
"""Plain, 32 bits' uname, the uname of a 2.6, both, and asking for the current one."""
TERMINAL_TRICKS: Final = (0x5412, 0x541C, 0x5423)
"""TIOCSTI types into a terminal, TIOCLINUX pastes, TIOCSETD loads a line discipline."""
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
_NETLINK_ROUTE: Final = 0


@dataclass(frozen=True, slots=True)
class Machine:
    """What the kernel calls an architecture, and its numbers of the calls below."""

    audit: int
    calls: Mapping[str, int]
    has_x32: bool


_REFUSED: Final = {
    # name: (x86_64, aarch64 and whoever uses the generic table)
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    # interfaces past the checks of ordinary calls, or that most exploits need
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "userfaultfd": (323, 282),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "fanotify_init": (300, 262),
    # namespaces and mounts
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "lookup_dcookie": (212, 18),
    # keys are not of any namespace
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    # the machine
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "create_module": (174, None),
    "query_module": (178, None),
    "get_kernel_syms": (177, None),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "nfsservctl": (180, 42),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "uselib": (134, None),
    "_sysctl": (156, None),
    # the clock
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
}
_JUDGED: Final = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "personality": (135, 92),
    "ioctl": (16, 29),
    "socket": (41, 198),
    "socketpair": (53, 199),
}
"""Allowed or refused by their arguments."""


def _machine(audit: int, column: int, *, has_x32: bool) -> Machine:
    numbers = {name: both[column] for name, both in {**_REFUSED, **_JUDGED}.items()}
    calls = {name: number for name, number in numbers.items() if number is not None}
    return Machine(audit, calls, has_x32)


MACHINES: Final[Mapping[str, Machine]] = {
    "x86_64": _machine(0xC000003E, 0, has_x32=True),
    "aarch64": _machine(0xC00000B7, 1, has_x32=False),
}


@functools.cache
def filter_here() -> bytes | None:
    """The program for this machine, as `bwrap --seccomp` reads it; None where its kernel's
    numbers are not known here."""
    machine = MACHINES.get(platform.machine())
    return None if machine is None else filter_for(machine)


def filter_for(machine: Machine) -> bytes:
    """Of eight bytes an instruction, in the order of the machine's memory."""
    return b"".join(struct.pack("<HBBI", *line) for line in _assembled(_program(machine)))


@dataclass(frozen=True, slots=True)
class _Line:
    """One instruction; a jump names what to do where its condition holds, and else goes on."""

    code: int
    value: int
    then: str = ""


_ENDS: Final = {
    "allow": _Line(_RETURN, ALLOW),
    "refuse": _Line(_RETURN, FAIL | EPERM),
    "unknown": _Line(_RETURN, FAIL | ENOSYS),
}


def _program(machine: Machine) -> Sequence[_Line]:
    """Whatever is decided by the number alone comes last: the kernel remembers those answers and
    does not run the program again."""
    calls = machine.calls
    lines = [
        _Line(_LOAD, _ARCHITECTURE_AT),
        _Line(_JUMP_IF_EQUAL, machine.audit, "skip 1"),
        _Line(_RETURN, FAIL | EPERM),
        _Line(_LOAD, _NUMBER_AT),
    ]
    if machine.has_x32:
        lines.append(_Line(_JUMP_IF_AT_LEAST, X32, "refuse"))
    lines.append(_Line(_JUMP_IF_EQUAL, calls["clone3"], "unknown"))
    lines += _when(calls["clone"], [*_argument(0, NEW_NAMESPACES), *_only((0,))])
    lines += _when(calls["personality"], [*_argument(0), *_only(PERSONALITIES)])
    lines += _when(calls["ioctl"], [*_argument(1), *_none_of(TERMINAL_TRICKS)])
    lines += _when(calls["socket"], _family())
    lines += _when(calls["socketpair"], [*_argument(0), *_only((UNIX,))])
    lines += [_Line(_JUMP_IF_EQUAL, calls[name], "refuse") for name in _REFUSED if name in calls]
    return [*lines, _ENDS["allow"]]


def _when(number: int, body: Sequence[_Line]) -> list[_Line]:
    """`body`, which ends in an answer, for that call alone."""
    return [
        _Line(_JUMP_IF_EQUAL, number, "skip 1"),
        _Line(_JUMP_IF_AT_LEAST, 0, f"skip {len(body)}"),  # always
        *body,
    ]


def _argument(index: int, mask: int | None = None) -> list[_Line]:
    """Its low half: all that the kernel itself reads of the arguments judged here."""
    load = [_Line(_LOAD, _ARGUMENTS_AT + 8 * index)]
    return load if mask is None else [*load, _Line(_AND, mask)]


def _only(values: Sequence[int]) -> list[_Line]:
    return [*(_Line(_JUMP_IF_EQUAL, value, "allow") for value in values), _ENDS["refuse"]]


def _none_of(values: Sequence[int]) -> list[_Line]:
    return [*(_Line(_JUMP_IF_EQUAL, value, "refuse") for value in values), _ENDS["allow"]]


def _family() -> list[_Line]:
    """Sockets as programs need them; of netlink only what C libraries ask about addresses."""
    netlink = [*_argument(2), *_only((_NETLINK_ROUTE,))]
    return [
        *_argument(0),
        *(_Line(_JUMP_IF_EQUAL, family, "allow") for family in (UNIX, INET, INET6)),
        _Line(_JUMP_IF_EQUAL, NETLINK, "skip 1"),
        _ENDS["refuse"],
        *netlink,
    ]


def _assembled(lines: Sequence[_Line]) -> list[tuple[int, int, int, int]]:
    """With the ends in place behind the last line, and jumps counted."""
    places = {name: len(lines) + number for number, name in enumerate(_ENDS)}
    done = []
    for at, line in enumerate([*lines, *_ENDS.values()]):
        how, _, count = line.then.partition(" ")
        skipped = int(count) if how == "skip" else places.get(how, at + 1) - at - 1
        if skipped > _MOST_SKIPPED:
            raise ValueError(f"line {at} jumps over {skipped} lines, {_MOST_SKIPPED} at most")
        done.append((line.code, skipped, 0, line.value))
    return done
