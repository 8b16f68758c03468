"""How an attempt in a container ended: pure, from all that its keeper saw. Standard library
only."""

import re
import signal
from dataclasses import dataclass
from typing import Final

from inner_trials.contract import EXIT_STOPPED
from targets import linux
from targets.docker_container.body import CANNOT_EXECUTE

_SIGNALLED: Final = 128
"""Added by a container's init to the number of the signal that the program died of."""
_ENDED_BY_ENGINE: Final = frozenset(
    {_SIGNALLED + signal.SIGKILL, _SIGNALLED + signal.SIGTERM, 255}
)
_PLACE: Final = re.compile(r"^((line )?\d+: )?(exec: )?")
"""In its script, as shells say it."""
_NO_SHELL = re.compile(r"\[FATAL tini \(\d+\)\] exec (/bin/sh failed: .*)")
"""Of a container's init: the image has none."""


@dataclass(slots=True, kw_only=True)
class Seen:
    """What is known of an attempt so far."""

    asked: str | None = None
    """The cause for which the keeper ends or ended it."""
    failure: tuple[str, str] | None = None
    """Why it never ran: a cause and a sentence."""
    is_gone: bool = False
    """Its container was removed by somebody else."""
    status: int | None = None
    """Exit status of the container; None if it never ran."""
    was_out_of_memory: bool = False
    was_out_of_processes: bool = False
    was_ended_from_outside: bool = False
    """Somebody told the engine to end it, or the engine itself did as it stopped."""
    was_cut_off: bool = False
    """The engine was away when it ended, or found it ended when it came back."""
    survives_engine: bool = False
    """The engine leaves containers alone when it starts (live-restore)."""
    was_told_to_stop: bool = False
    """Cooperatively."""
    excess: str = ""
    """What it wrote too much, in a few words."""
    shell: str = ""
    """What the shell calls itself that executes the program."""
    last_line: str = ""
    """Of its log."""


@dataclass(frozen=True, slots=True)
class Verdict:
    cause: str
    code: int | None
    detail: str = ""


def judge(seen: Seen) -> Verdict:
    """The cause, the program's own exit status, and a line for a person."""
    code = code_of(seen.status)
    if seen.asked is not None:
        return Verdict(seen.asked, code, _joined(seen.excess, linux.signal_text(code)))
    if seen.failure is not None:
        return Verdict(seen.failure[0], None, seen.failure[1])
    if seen.is_gone:
        return Verdict("lost", None, "its container was removed from outside")
    found = _forced(seen, code) or _own(seen, code)
    return Verdict(found.cause, found.code, _joined(found.detail, linux.signal_text(found.code)))


def _forced(seen: Seen, code: int | None) -> Verdict | None:
    """What ended it if that was not itself."""
    if seen.was_out_of_memory:
        return Verdict("out_of_memory", code)
    if seen.was_ended_from_outside:
        return Verdict("lost", code, "its container was ended from outside, or by its engine")
    engine_did = not seen.survives_engine or seen.status in _ENDED_BY_ENGINE
    if seen.was_cut_off and engine_did:
        return Verdict("lost", code, "its engine was restarted")
    if seen.was_out_of_processes:
        return Verdict("too_many_processes", code)
    return Verdict("too_much_data", code, seen.excess) if seen.excess else None


def _own(seen: Seen, code: int | None) -> Verdict:
    if seen.status in CANNOT_EXECUTE:
        unable = _find_inability(seen)
        if unable is not None:
            return Verdict("launch_failed", None, f"cannot run {unable}")
    if seen.was_told_to_stop and code == EXIT_STOPPED:
        return Verdict("stopped", code)
    return Verdict("exited", code)


def _find_inability(seen: Seen) -> str | None:
    """What could not be executed, and why, where it was not the program that left so."""
    if seen.last_line.startswith(f"{seen.shell}: "):
        return _PLACE.sub("", seen.last_line.removeprefix(f"{seen.shell}: "))
    lacking = _NO_SHELL.fullmatch(seen.last_line)
    return None if lacking is None else f"{lacking[1]}; an image needs a shell there"


def code_of(status: int | None) -> int | None:
    """As for a bare process: negative for a signal."""
    if status is None:
        return None
    number = status - _SIGNALLED
    return -number if 0 < number < signal.NSIG else status


def _joined(*details: str) -> str:
    return "; ".join(detail for detail in details if detail)
