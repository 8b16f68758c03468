"""What a process gives up before it runs a model's code: other processes, memory, time, files.

Its text is put in front of the scripts that run in the sandbox; standard library only.
"""

import ctypes
import os
import resource
import struct
from collections.abc import Mapping

# (AUDIT_ARCH, clone, clone3, and the calls that only ever make processes) by machine.
CALLS = {
    "x86_64": (0xC000003E, 56, 435, (57, 58)),
    "aarch64": (0xC00000B7, 220, 435, ()),
}
CLONE_THREAD = 0x00010000
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 22, 38
SECCOMP_MODE_FILTER = 2
SIGKILL, EPERM, ENOSYS = 9, 1, 38
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
ARCHITECTURE_AT, NUMBER_AT, FIRST_ARGUMENT_AT = 4, 0, 16
X32 = 0x40000000


def set_limits(limits: Mapping[str, int]) -> None:
    forbid_processes()
    for kind, most in (
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_CPU, limits["cpu_time_s"]),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_FSIZE, 1024 * 1024),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))


def forbid_processes() -> None:
    """From here on the kernel lets this process start threads but no process, and nothing takes
    that back: killing it is all there is to end. It also dies with its parent.

    Raises:
        OSError: this kernel has no seccomp filters.
        KeyError: the machine is neither x86_64 nor aarch64.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    program = b"".join(struct.pack("=HBBI", *line) for line in _filter(os.uname().machine))
    code = ctypes.create_string_buffer(program)
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    for call in (
        (PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0),
        (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0),
    ):
        if libc.prctl(*call) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


def _filter(machine: str) -> list[tuple[int, int, int, int]]:
    """Classic BPF: (operation, lines to skip if true, if false, operand)."""
    architecture, clone, clone3, makers = CALLS[machine]
    deny = 8 + len(makers)
    lines = [
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (EQUAL, 0, deny - 2, architecture),
        (LOAD, 0, 0, NUMBER_AT),
        (AT_LEAST, deny - 4, 0, X32),
    ]
    lines += [(EQUAL, deny - 5 - index, 0, call) for index, call in enumerate(makers)]
    return [
        *lines,
        (EQUAL, 5, 0, clone3),
        (EQUAL, 0, 3, clone),
        (LOAD, 0, 0, FIRST_ARGUMENT_AT),
        (ANY_BIT, 1, 0, CLONE_THREAD),
        (RETURN, 0, 0, ERRNO | EPERM),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, ERRNO | ENOSYS),
    ]
