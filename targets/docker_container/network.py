"""The way out of an attempt that may reach hosts: a container whose network the program's shares,
and the proxy on this machine that the only socket in it leads to."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any, Final

from targets import layout, linux
from targets.docker_container.box import Box, BoxLog
from targets.docker_container.making import Making, Unmade
from targets.docker_container.record import Record
from targets.docker_container.turns import Turns
from targets.docker_container.usage import open_pidfd
from targets.spawning import Launch

LOG: Final = "network.log"
_LOG_BYTES: Final = 64 * 1024
_READY: Final = "ready"
_READY_PATIENCE_S: Final = 60.0
_END_PATIENCE_S: Final = 5.0
# It begins once its parent is gone: it ends with whoever it finds as its parent then, which is
# nobody, since keepers may be killed and attempts go on.
_DETACHED: Final = """
exec 9<&0
{ read -r line <&9; exec 9<&-; exec setsid "$@"; } </dev/null >/dev/null 2>&1 &
echo $!
"""

Identity = list[int]
"""A process: its pid, and when it started."""


class Network:
    """Of one attempt. For one thread."""

    def __init__(
        self, making: Making, turns: Turns, box: Box, directory: str, proxy: Launch
    ) -> None:
        self._making = making
        self._turns = turns
        self._box = box
        self._directory = directory
        self._log = BoxLog(f"{directory}/{LOG}", _LOG_BYTES)
        self._plan = proxy
        self._pidfd = -1

    def start(self, record: Record, on_loss: Callable[[], bool]) -> None:
        """Have the proxy and the network there before the program. `on_loss` is called when the
        proxy ends by itself. Raises Unmade, Unwanted."""
        if "proxy" in record.facts:  # half made, and who made it alone heard what came of it
            self.resume(record, on_loss)
            raise Unmade("lost", "its keeper died while its network was made")
        try:
            proxy = start_detached(self._plan["argv"], self._plan["env"])
        except OSError as error:
            raise Unmade("lost", f"its network proxy could not be started: {error}") from error
        record.note({"proxy": proxy})
        self._watch(proxy, on_loss)
        self._making.make(self._directory, [self._box], [self._log])
        self._making.start([self._box])
        until = time.monotonic() + _READY_PATIENCE_S
        while self._said() != _READY:
            self._making.check_wanted()
            stream = self._box.log
            is_over = stream is None or not self._turns.has(stream.fileno())
            if (is_over and self._said() != _READY) or time.monotonic() > until:
                raise Unmade("lost", f"it has no network: {self._said() or 'nothing came of it'}")
            self._turns.wait(until)

    def resume(self, record: Record, on_loss: Callable[[], bool]) -> None:
        """Of an earlier keeper's attempt."""
        proxy: Identity | None = record.facts.get("proxy")
        if proxy is None or not self._watch(proxy, on_loss):
            on_loss()

    @property
    def id(self) -> str:
        """Of its container; empty until there is one."""
        return self._box.id

    def end(self) -> None:
        """Have the proxy write down what is still open and leave, and delete the container."""
        if self._pidfd >= 0:
            self._turns.drop(self._pidfd)
            for number in (signal.SIGTERM, signal.SIGKILL):
                if not _has_ended(self._pidfd, 0.0):
                    linux.signal_process(self._pid, number)
                    _has_ended(self._pidfd, _END_PATIENCE_S)
            os.close(self._pidfd)
            self._pidfd = -1
        self._making.remove(self._box)
        if self._box.log is not None:
            self._turns.drop(self._box.log.fileno())
        self._box.close()
        self._log.close()

    def _watch(self, proxy: Identity, on_loss: Callable[[], bool]) -> bool:
        self._pid, start = proxy
        pidfd = open_pidfd(self._pid)
        if pidfd < 0:
            return False
        if layout.process_start(self._pid) != start:  # a stranger has its number now
            os.close(pidfd)
            return False
        self._pidfd = pidfd
        self._turns.add(pidfd, on_loss)
        return True

    def _said(self) -> str:
        """The first line that came from the container."""
        try:
            with open(f"{self._directory}/{LOG}", encoding="utf-8", errors="replace") as file:
                return layout.one_line(file.readline())
        except OSError:
            return ""


def start_detached(argv: list[str], environment: dict[str, str]) -> Identity:
    """A program that is nobody's child. Raises OSError."""
    with subprocess.Popen(
        ["/bin/sh", "-c", _DETACHED, "sh", *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        cwd="/",
        start_new_session=True,
    ) as starter:
        said: Any = starter.stdout
        pid = int(said.readline())
        starter.wait()
    start = layout.process_start(pid)
    if start is None:
        raise OSError(0, "it ended at once")
    return [pid, start]


def _has_ended(pidfd: int, patience_s: float) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(patience_s * 1000))
