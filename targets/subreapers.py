"""The supervisor's subreapers: forked when there is no idle one, kept for the next attempt.

Standard library only.
"""

import os
import signal
import socket
from typing import Final

from targets import layout, linux, subreaper

_KEEP_IDLE: Final = 16
OPEN_FILES: Final = 65536


class Subreaper:
    __slots__ = ("attempt", "channel", "identity", "is_new", "pid")

    def __init__(self, pid: int, channel: int) -> None:
        self.pid = pid
        self.identity = [pid, layout.process_start(pid)]
        self.channel = channel
        self.attempt = ""
        """The name of the attempt it runs or ran last."""
        self.is_new = True

    def send(self, message: bytes) -> None:
        os.write(self.channel, message)

    def receive(self) -> bytes:
        """Its message; empty when it is gone."""
        try:
            return os.read(self.channel, 64)
        except OSError:
            return b""


class Subreapers:
    def __init__(self, attempts: str, boot: str) -> None:
        self._attempts = attempts
        self._boot = boot
        self._pid = os.getpid()
        self._idle: list[Subreaper] = []
        self._by_pid: dict[int, Subreaper] = {}
        self.by_channel: dict[int, Subreaper] = {}

    @property
    def busy(self) -> int:
        """How many run an attempt or still make one durable."""
        return len(self._by_pid) - len(self._idle)

    def take(self, name: str) -> Subreaper:
        """One to run the attempt `name`. Raises OSError when none can be forked."""
        chosen = None
        while self._idle and chosen is None:
            candidate = self._idle.pop()
            candidate.is_new = False
            if not _is_dead(candidate.pid):
                chosen = candidate
        if chosen is None:
            chosen = self._fork()
        chosen.attempt = name
        return chosen

    def give_back(self, which: Subreaper, *, leaves: bool) -> None:
        """Its attempt ended. It is kept for another one, unless it leaves by itself."""
        if leaves or which.pid not in self._by_pid:
            return
        if len(self._idle) < _KEEP_IDLE:
            self._idle.append(which)
        else:
            self.hang_up(which)

    def hang_up(self, which: Subreaper) -> None:
        """Close its channel: it leaves, or is dead, and is buried when the kernel says so."""
        os.close(which.channel)
        del self.by_channel[which.channel]
        which.channel = -1
        if which in self._idle:
            self._idle.remove(which)

    def bury(self, pid: int) -> Subreaper | None:
        """Forget a reaped process; None when it was no subreaper."""
        return self._by_pid.pop(pid, None)

    def end_orphans(self) -> None:
        """Kill the descendants of dead subreapers: every child that is not a subreaper."""
        for _ in range(100):
            orphans = [pid for pid in linux.children_of(self._pid) if pid not in self._by_pid]
            for pid in orphans:
                linux.signal_process(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            if not orphans:
                return

    def _fork(self) -> Subreaper:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            pid = os.fork()
            if pid == 0:
                os.dup2(theirs.fileno(), subreaper.CHANNEL_FD, inheritable=False)
                os.closerange(subreaper.CHANNEL_FD + 1, OPEN_FILES)
                subreaper.serve_attempts(self._attempts, self._boot)
        ours.settimeout(0)  # one that does not read must not hold up the supervisor
        forked = Subreaper(pid, ours.detach())
        self._by_pid[pid] = self.by_channel[forked.channel] = forked
        return forked


def _is_dead(pid: int) -> bool:
    """Whether a child of ours has ended and waits to be reaped."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
