"""The few Linux calls that Python has no function for. Standard library only."""

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import Final

_PR_SET_CHILD_SUBREAPER: Final = 36
_SFD_CLOEXEC: Final = 0o2000000
_SFD_NONBLOCK: Final = 0o4000
_SIGINFO_BYTES: Final = 128
_MESSAGE_BYTES: Final = 4096
_WATCH: Final = 0x00000002 | 0x02000000 | 0x80000000
"""IN_MODIFY | IN_DONT_FOLLOW | IN_ONESHOT."""
_WATCH_TOUCHED: Final = 0x00000004
"""IN_ATTRIB."""
_IN_CLOEXEC_NONBLOCK: Final = 0o2000000 | 0o4000

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")

_libc = ctypes.CDLL(None, use_errno=True)
_libc.inotify_add_watch.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
_mask = ctypes.create_string_buffer(128)


def adopt_orphans() -> None:
    """From now on every descendant whose parent dies becomes a child of this process."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def open_signalfd(numbers: Iterable[int]) -> int:
    """A descriptor that reads the given, blocked signals of the process that calls this."""
    _libc.sigemptyset(_mask)
    for number in numbers:
        _libc.sigaddset(_mask, int(number))
    descriptor: int = _libc.signalfd(-1, _mask, _SFD_CLOEXEC | _SFD_NONBLOCK)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "signalfd")
    return descriptor


def read_signals(descriptor: int) -> set[int]:
    """The numbers of the signals that arrived since the last call."""
    try:
        data = os.read(descriptor, 16 * _SIGINFO_BYTES)
    except BlockingIOError:
        return set()
    return {
        int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), _SIGINFO_BYTES)
    }


def read_message(descriptor: int) -> bytes:
    """A message of a sequenced socket; empty when the other side is gone."""
    try:
        return os.read(descriptor, _MESSAGE_BYTES)
    except ConnectionResetError:  # with a message of ours unread
        return b""


def open_inotify() -> int:
    """An inotify descriptor, or -1 where the machine has none left."""
    descriptor: int = _libc.inotify_init1(_IN_CLOEXEC_NONBLOCK)
    return descriptor


def watch_once(inotify: int, path: str) -> int:
    """Have the next change of the file at `path` told once; -1 when it cannot be watched."""
    watch: int = _libc.inotify_add_watch(inotify, os.fsencode(path), _WATCH)
    return watch


def watch_directory(inotify: int, path: str) -> int:
    """Have every file that is touched in a directory told; -1 when it cannot be."""
    watch: int = _libc.inotify_add_watch(inotify, os.fsencode(path), _WATCH_TOUCHED)
    return watch


def read_names(inotify: int) -> set[str]:
    """Names of the files that `watch_directory` has told of since the last call."""
    try:
        data = os.read(inotify, 64 * 1024)
    except BlockingIOError:
        return set()
    names, at = set(), 0
    while at < len(data):
        length = int.from_bytes(data[at + 12 : at + 16], sys.byteorder)
        names.add(os.fsdecode(data[at + 16 : at + 16 + length].rstrip(b"\0")))
        at += 16 + length
    return names - {""}


def sync_file_system(descriptor: int) -> bool:
    """Wait until all that was written to the file system of `descriptor` is on the disk."""
    return int(_libc.syncfs(descriptor)) == 0


def children_of(pid: int) -> list[int]:
    """The live and dead children of a process, all its threads' included; empty if it is gone."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    found: list[int] = []
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
        except FileNotFoundError:
            if thread == str(pid):
                return _children_by_search(pid)
        except OSError:
            continue
    return found


def _children_by_search(pid: int) -> list[int]:
    """For kernels without CONFIG_PROC_CHILDREN: every process whose parent is `pid`."""
    wanted = str(pid).encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[1] == wanted:
                found.append(int(name))
    return found


def descendants_of(pid: int) -> set[int]:
    """Every process below `pid`, itself not included."""
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for child in children_of(waiting.pop()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def signal_process(pid: int, number: int) -> None:
    """Send a signal; a process that is gone or not ours is no error."""
    try:
        os.kill(pid, number)
    except OSError:
        pass  # gone already, which is what a signal is for


def signal_group(pid: int, number: int) -> None:
    """Send a signal to the group that a process leads, or to itself before it leads one. It must
    not be reaped yet, so that neither number can be anybody else's."""
    try:
        os.killpg(pid, number)
    except OSError:
        signal_process(pid, number)


Usage = resource.struct_rusage
Reaped = tuple[int, int, Usage]
"""As os.wait4 gives it: pid, status, what it and the children it waited for used."""


def reap_ready() -> Iterator[Reaped]:
    """Reap every child that has ended already."""
    try:
        while (reaped := os.wait4(-1, os.WNOHANG))[0]:
            yield reaped
    except ChildProcessError:
        return


def end_children(own_pid: int) -> Iterator[Reaped]:
    """Kill and reap every descendant of this process, which must have called adopt_orphans.

    Iterate it to its end. The direct children are killed first: they cannot be replaced by a
    stranger of the same pid before they are reaped, and what they leave becomes a direct child
    in turn. Whoever forks faster than that is stopped first, all of it, then killed.
    """
    turn = 0
    while _has_children():
        if turn > 2:
            _freeze(own_pid)
        for child in children_of(own_pid):
            _kill_with_group(child, own_pid)
        turn += 1
        yield os.wait4(-1, 0)
        yield from reap_ready()


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _kill_with_group(child: int, own_pid: int) -> None:
    signal_process(child, signal.SIGKILL)
    try:
        group = os.getpgid(child)
        # The child is not reaped yet, so the number of its group is not anybody else's.
        if group != os.getpgid(own_pid):
            os.killpg(group, signal.SIGKILL)
    except OSError:
        pass  # the group went with its last member


def _freeze(own_pid: int) -> None:
    """Stop every descendant until none is left running that could fork."""
    stopped: set[int] = set()
    for _ in range(200):
        fresh = descendants_of(own_pid) - stopped
        if not fresh:
            return
        for pid in fresh:
            signal_process(pid, signal.SIGSTOP)
        stopped |= fresh


def prefer_as_memory_victim(pid: int) -> None:
    """When the machine runs out of memory the kernel should take this one before others."""
    try:
        descriptor = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return  # gone already
    try:
        os.write(descriptor, b"500")
    except OSError:
        pass  # not allowed here; it only orders the victims
    finally:
        os.close(descriptor)


def memory_of(pids: Iterable[int]) -> int:
    """Bytes held by some processes: what each has for itself, and the largest shared part once,
    since shared pages are counted in every process that maps them."""
    private = shared = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                resident_pages, shared_pages = map(int, file.read().split()[1:3])
        except OSError:
            continue
        private += resident_pages - shared_pages
        shared = max(shared, shared_pages)
    return (private + shared) * _PAGE_BYTES


def signal_text(status: int | None) -> str:
    """Which signal a program died of, for a person; empty when it was none."""
    if status is None or status >= 0:
        return ""
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
