"""What a subreaper must know of bubblewrap, which stands between it and a sandboxed program.

Standard library only.
"""

import signal
from collections.abc import Sequence
from typing import Final, NamedTuple

from targets import cgroups, layout, linux

_RAN: Final = b'"exit-code"'
"""Told on the status channel once the program was executed and ended, and never else. Only
bubblewrap has that channel: it closes it before the program starts."""
_NO_PROGRAM: Final = "bwrap: execvp "
_SIGNALLED: Final = 128
"""Added by bubblewrap to the number of the signal that the program died of."""
_STATUS_BYTES: Final = 4096


class Verdict(NamedTuple):
    """How a sandboxed program ended."""

    status: int | None
    """As for a bare process: negative for a signal; None when it never ran."""
    failure: str | None = None
    """Why the program could not be executed."""
    trouble: str = ""
    """Why there was no sandbox to run it in: never the program's fault."""
    cause: str | None = None
    """Why it was ended from outside, if the kernel did that."""


class Enclosed:
    """One program in its sandbox."""

    def __init__(self, directory: str, groups: Sequence[cgroups.Group]) -> None:
        self._log = f"{directory}/{layout.LOG}"
        self._groups = groups
        self._said = b""
        cgroups.make_groups(groups)

    def write(self, data: bytes) -> None:
        """What bubblewrap says on its status channel."""
        self._said = (self._said + data)[:_STATUS_BYTES]
        if _RAN in self._said:
            self.let_die()  # what the program left

    def ask_to_end(self, bwrap: int) -> None:
        """SIGTERM for the program and its group: bubblewrap itself would die of it and take the
        program along unwarned. The first process inside has no handler, so it ignores it."""
        for inside in linux.children_of(bwrap):
            linux.signal_group(inside, signal.SIGTERM)

    def let_die(self) -> None:
        """Call it once it was killed: to end, too, takes processor time."""
        cgroups.lift_quotas(self._groups)

    def conclude(self, status: int | None) -> Verdict:
        """The end of the program, from that of bubblewrap and from what it said. Call it once,
        when nothing of the attempt runs any more."""
        kills = cgroups.count_kills(self._groups)
        cgroups.remove_groups(self._groups)
        verdict = self._judge(status)
        return verdict._replace(cause="out_of_memory") if kills else verdict

    def _judge(self, status: int | None) -> Verdict:
        if status is None or status < 0:  # bubblewrap was killed, and the program with it
            return Verdict(status)
        if _RAN in self._said:
            number = status - _SIGNALLED
            return Verdict(-number if 0 < number < signal.NSIG else status)
        said = self._first_words()
        if said.startswith(_NO_PROGRAM):
            return Verdict(None, failure=f"cannot run {said.removeprefix(_NO_PROGRAM)}")
        return Verdict(None, trouble=f"its sandbox could not be made: {said or status}")

    def _first_words(self) -> str:
        """Nothing of the program ran, so what is in the log is bubblewrap's."""
        try:
            with open(self._log, "rb") as file:
                return layout.one_line(file.read(500).decode("utf-8", "replace"))
        except OSError:
            return ""
