"""What the filter answers to which call, by interpreting it as the kernel does."""

import re
import struct
from pathlib import Path

import pytest

from targets.seccomp import (
    ALLOW,
    ENOSYS,
    EPERM,
    FAIL,
    MACHINES,
    X32,
    Machine,
    filter_for,
    filter_here,
)

I386 = 0x40000003
HEADERS = {
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "aarch64": "/usr/include/asm-generic/unistd.h",
}
ORDINARY = {
    "x86_64": {"read": 0, "openat": 257, "mmap": 9, "execve": 59, "futex": 202, "kill": 62}
    | {"prctl": 157, "connect": 42, "memfd_create": 319, "shmget": 29, "mbind": 237}
    | {"pidfd_open": 434, "seccomp": 317, "wait4": 61, "vfork": 58, "fork": 57},
    "aarch64": {"read": 63, "openat": 56, "mmap": 222, "execve": 221, "futex": 98, "kill": 129}
    | {"prctl": 167, "connect": 203, "memfd_create": 279, "shmget": 194, "mbind": 235},
}


def answer(machine: Machine, number: int, *arguments: int, audit: int | None = None) -> int:
    """What the kernel would do: a tiny interpreter of classic BPF."""
    data = struct.pack("<IIQ", number, machine.audit if audit is None else audit, 0x7F00DEADBEEF)
    data += struct.pack("<6Q", *(*arguments, *[0] * 6)[:6])
    code = filter_for(machine)
    lines = [struct.unpack_from("<HBBI", code, at) for at in range(0, len(code), 8)]
    held, at = 0, 0
    while True:
        what, yes, no, value = lines[at]
        at += 1
        if what == 0x20:
            held = struct.unpack_from("<I", data, value)[0]
        elif what == 0x54:
            held &= value
        elif what == 0x15:
            at += yes if held == value else no
        elif what == 0x35:
            at += yes if held >= value else no
        elif what == 0x06:
            return int(value)
        else:
            raise AssertionError(f"the kernel knows no instruction {what:#x}")


REFUSED = FAIL | EPERM


@pytest.fixture(params=sorted(MACHINES))
def machine(request: pytest.FixtureRequest) -> Machine:
    return MACHINES[request.param]


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_the_numbers_are_those_of_the_kernels_headers(name: str) -> None:
    header = Path(HEADERS[name])
    text = header.read_text() if header.exists() else ""  # they come with a C compiler
    known = dict(re.findall(r"__NR(?:3264)?_(\w+)\s+(\d+)", text))
    ours = MACHINES[name].calls
    assert len(ours) > 50
    assert {call: number for call, number in ours.items() if call in known} == {
        call: int(known[call]) for call in ours if call in known
    }


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_what_programs_need_is_allowed(name: str) -> None:
    for call, number in ORDINARY[name].items():
        assert answer(MACHINES[name], number, 2, 1, 0) == ALLOW, call


def test_every_call_on_the_list_is_refused_with_an_error_whatever_its_arguments(
    machine: Machine,
) -> None:
    judged = {"clone", "clone3", "personality", "ioctl", "socket", "socketpair"}
    for call in set(machine.calls) - judged:
        for arguments in ((0,) * 6, (1, 2, 3, 4, 5, 6), ((1 << 64) - 1,) * 6):
            assert answer(machine, machine.calls[call], *arguments) == REFUSED, call
    assert {"ptrace", "io_uring_setup", "keyctl", "mount", "unshare"} <= set(machine.calls)


def test_other_architectures_and_the_x32_calls_are_refused(machine: Machine) -> None:
    read = 0 if machine.has_x32 else 63
    for audit in (I386, 0, *(other.audit for other in MACHINES.values())):
        if audit != machine.audit:
            assert answer(machine, read, audit=audit) == REFUSED
    if machine.has_x32:
        assert answer(machine, X32 | read) == REFUSED
        assert answer(machine, 0xFFFFFFFF) == REFUSED


NAMESPACES = [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]


def test_threads_and_children_are_cloned_and_namespaces_are_not(machine: Machine) -> None:
    clone = machine.calls["clone"]
    for flags in (17, 0x3D0F00, 0x4111, 0x1200011):  # fork, a thread, vfork, glibc's fork
        assert answer(machine, clone, flags) == ALLOW
    for flag in NAMESPACES:
        assert answer(machine, clone, 17 | flag) == REFUSED
        assert answer(machine, clone, 0xABCD00000000 | flag) == REFUSED
    assert answer(machine, machine.calls["clone3"], 0, 88) == FAIL | ENOSYS


def test_personalities_that_weaken_the_kernels_protections_are_refused(machine: Machine) -> None:
    personality = machine.calls["personality"]
    for harmless in (0, 8, 0x20000, 0xFFFFFFFF):
        assert answer(machine, personality, harmless) == ALLOW
    for weaker in (0x0040000, 0x0400000, 0x4000000, 1):  # no randomisation, readable = executable
        assert answer(machine, personality, weaker) == REFUSED


def test_a_terminal_can_be_asked_and_not_typed_into(machine: Machine) -> None:
    ioctl = machine.calls["ioctl"]
    for request in (0x5401, 0x5413, 0x541B, 0xC0384627):  # TCGETS, TIOCGWINSZ, FIONREAD, a GPU's
        assert answer(machine, ioctl, 0, request) == ALLOW
    for request in (0x5412, 0x541C, 0x5423):
        assert answer(machine, ioctl, 0, request) == REFUSED
        assert answer(machine, ioctl, 0, 0x100000000 | request) == REFUSED, "the kernel cuts it"


def test_sockets_are_of_the_families_that_programs_need(machine: Machine) -> None:
    socket, pair = machine.calls["socket"], machine.calls["socketpair"]
    for family in (1, 2, 10):
        assert answer(machine, socket, family, 1, 6) == ALLOW
    assert answer(machine, socket, 16, 3, 0) == ALLOW, "routes, which getaddrinfo asks for"
    for protocol in (9, 12, 15, 16, 4):  # audit, netfilter, events, generic, socket diagnosis
        assert answer(machine, socket, 16, 3, protocol) == REFUSED
    for family in (0, 3, 15, 17, 29, 31, 38, 40, 44, 0xFFFFFFFF):  # packet, CAN, vsock …
        assert answer(machine, socket, family, 1, 0) == REFUSED
    assert answer(machine, pair, 1, 1, 0) == ALLOW
    assert answer(machine, pair, 30, 1, 0) == REFUSED


def test_every_path_through_the_filter_ends_in_an_answer(machine: Machine) -> None:
    code = filter_for(machine)
    lines = [struct.unpack_from("<HBBI", code, at) for at in range(0, len(code), 8)]
    assert len(lines) < 4096, "the kernel takes no more"
    for at, (what, yes, no, _) in enumerate(lines):
        if what in (0x15, 0x35):
            assert at + 1 + max(yes, no) < len(lines)
    assert lines[-1][0] == 0x06


def test_a_machine_whose_numbers_are_not_known_has_no_filter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    filter_here.cache_clear()
    assert filter_here() is None
    filter_here.cache_clear()
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert filter_here() == filter_for(MACHINES["x86_64"])
