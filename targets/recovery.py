"""What a new supervisor does about attempts an earlier one left behind. Standard library only."""

import os
import signal
import time
from collections.abc import Collection, Mapping
from typing import Final

from inner_trials.contract import ATTEMPT
from targets import cgroups, layout, linux

_MARK: Final = f"{ATTEMPT}=".encode()
_ROUNDS: Final = 50
_ROUND_S: Final = 0.02


def unfinished_attempts(root: str) -> dict[str, layout.Fact]:
    """The attempts below `root` that started and have no recorded end, with their records."""
    found = {}
    for name in os.listdir(f"{root}/{layout.ATTEMPTS}"):
        facts = layout.read_record(f"{root}/{layout.ATTEMPTS}/{name}")
        if facts and "subreaper" in facts and "exit" not in facts:
            found[name] = facts
    return found


def end_unfinished(root: str, boot: str) -> None:
    """End whatever still runs of them and record each as lost."""
    unfinished = unfinished_attempts(root)
    here = {name: facts for name, facts in unfinished.items() if facts.get("boot") == boot}
    if here:
        _end_processes(here)
    for name in unfinished:
        why = "its supervisor was gone" if name in here else "the machine restarted"
        try:
            record_lost(f"{root}/{layout.ATTEMPTS}/{name}", f"{why}, so it was ended", boot)
        except OSError:
            continue  # no space to say so: a client that asks hears that it does not run


def record_lost(attempt: str, detail: str, boot: str) -> None:
    """Append a lost exit to the record of an attempt of which nothing runs any more."""
    cgroups.remove_groups_of(attempt)
    fact = {"exit": {"cause": "lost", "code": None, "detail": detail, "boot": boot}}
    descriptor = os.open(
        f"{attempt}/{layout.RECORD}", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    )
    try:
        layout.append_fact(descriptor, fact)
    finally:
        os.close(descriptor)


def kill_stuck_subreapers(root: str) -> None:
    """End subreapers that outlived their supervisor and do not leave (stopped by hand, say)."""
    for facts in unfinished_attempts(root).values():
        _kill_if_same(facts.get("subreaper"))


def _kill_if_same(identity: object) -> None:
    """Kill the process recorded as [pid, start] unless the pid belongs to another one now."""
    if isinstance(identity, list) and len(identity) == 2:
        pid, start = identity
        if isinstance(pid, int) and start is not None and layout.process_start(pid) == start:
            linux.signal_process(pid, signal.SIGKILL)


def _end_processes(attempts: Mapping[str, layout.Fact]) -> None:
    """Kill the recorded programs with all they started, then all that carry the attempt's name
    in their environment: whoever left the tree still has that."""
    for facts in attempts.values():
        program = facts.get("program")
        below = linux.descendants_of(program[0]) if program and _is_alive(program) else set()
        _kill_if_same(program)
        for pid in below:
            linux.signal_process(pid, signal.SIGKILL)
    names = {name.encode() for name in attempts}
    for _ in range(_ROUNDS):
        marked = _processes_of(names)
        if not marked:
            return
        for pid in marked:
            linux.signal_process(pid, signal.SIGKILL)
        time.sleep(_ROUND_S)


def _is_alive(identity: list[int]) -> bool:
    return layout.process_start(identity[0]) == identity[1]


def _processes_of(names: Collection[bytes]) -> list[int]:
    """Live processes of this user whose environment says that they belong to an attempt."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal() and _attempt_of(entry) in names:
            if layout.process_start(entry) is not None:
                found.append(int(entry))
    return found


def _attempt_of(pid: str) -> bytes | None:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        return None
    for variable in variables:
        if variable.startswith(_MARK):
            return variable[len(_MARK) :]
    return None
