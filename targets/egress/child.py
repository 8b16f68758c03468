"""The proxy of an attempt as its subreaper has it: a child that starts before the program and
ends after it. Standard library only."""

import os
import select
import signal
from typing import Final

from targets import linux, spawning

_END_PATIENCE_S: Final = 5.0


class ProxyChild:
    """None at all for the attempts that may reach no host."""

    def __init__(self) -> None:
        self.pid = 0
        self._asked_to_end = False
        self.trouble = ""
        """That it ended before it was asked to, so that the program stood there without it."""

    def start(self, launch: spawning.Launch, null: int) -> None:
        """Raises OSError."""
        if launch.get("proxy"):
            self.pid = spawning.spawn(launch["proxy"], [(null, 0), (null, 1), (null, 2)])

    def has_ended(self, pid: int) -> bool:
        """Whether it is the process that was just reaped, which is none of the program's."""
        if not self.pid or pid != self.pid:
            return False
        self.pid = 0
        if not self._asked_to_end:
            self.trouble = "its network proxy died"
        return True

    def end(self) -> None:
        """Have it record what is still open and leave; whoever reaps children reaps it."""
        self._asked_to_end = True
        if self.pid:
            linux.signal_process(self.pid, signal.SIGTERM)
            ended = os.pidfd_open(self.pid)
            poll = select.poll()
            poll.register(ended, select.POLLIN)
            poll.poll(_END_PATIENCE_S * 1000)
            os.close(ended)
