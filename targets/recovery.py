"""What a new supervisor does about attempts an earlier one left behind. Standard library only."""

import os
import signal
import time
from collections.abc import Mapping
from typing import Final

from inner_trials.contract import ATTEMPT, INPUTS
from targets import cgroups, layout, linux

_ATTEMPT: Final = ATTEMPT.encode()
_INPUTS: Final = INPUTS.encode()
_MARK: Final = layout.MARK.encode()
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
    """End whatever still runs of them and record each as lost. What runs of one that is here as
    a copy goes on: it is another root's."""
    unfinished = unfinished_attempts(root)
    copied = {name for name in unfinished if layout.is_copy(f"{root}/{layout.ATTEMPTS}/{name}")}
    here = {
        name: facts
        for name, facts in unfinished.items()
        if facts.get("boot") == boot and name not in copied
    }
    if here:
        _end_processes(root, here)
    for name in unfinished:
        why = "its supervisor was gone" if name in here else "the machine restarted"
        detail = layout.COPIED if name in copied else f"{why}, so it was ended"
        try:
            record_lost(f"{root}/{layout.ATTEMPTS}/{name}", detail, boot)
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
    for name, facts in unfinished_attempts(root).items():
        if not layout.is_copy(f"{root}/{layout.ATTEMPTS}/{name}"):
            _kill_if_same(facts.get("subreaper"))


def _kill_if_same(identity: object) -> None:
    """Kill the process recorded as [pid, start] unless the pid belongs to another one now."""
    if isinstance(identity, list) and len(identity) == 2:
        pid, start = identity
        if isinstance(pid, int) and start is not None and layout.process_start(pid) == start:
            linux.signal_process(pid, signal.SIGKILL)


def _end_processes(root: str, attempts: Mapping[str, layout.Fact]) -> None:
    """Kill the recorded programs with all they started, then all whose environment says that they
    belong to the attempt: whoever left the tree still has that."""
    for facts in attempts.values():
        program = facts.get("program")
        below = linux.descendants_of(program[0]) if program and _is_alive(program) else set()
        _kill_if_same(program)
        for pid in below:
            linux.signal_process(pid, signal.SIGKILL)
    for _ in range(_ROUNDS):
        marked = _processes_of(root, attempts)
        if not marked:
            return
        for pid in marked:
            linux.signal_process(pid, signal.SIGKILL)
        time.sleep(_ROUND_S)


def _is_alive(identity: list[int]) -> bool:
    return layout.process_start(identity[0]) == identity[1]


def _processes_of(root: str, attempts: Mapping[str, layout.Fact]) -> list[int]:
    """Live processes of this user whose environment says that they belong to an attempt."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            name, mark, inputs = _marks_of(entry)
            if name in attempts and _is_at(f"{root}/{layout.ATTEMPTS}/{name}", mark, inputs):
                if layout.process_start(entry) is not None:
                    found.append(int(entry))
    return found


def _is_at(attempt: str, mark: str, inputs: str) -> bool:
    """Whether a process that says so is of the attempt in that directory, and not of its namesake
    below another root. What finds its inputs elsewhere is in a sandbox, and ends with that."""
    if mark:
        return mark == layout.mark_of(layout.read_launch(attempt).get("directory", attempt))
    directory = os.path.dirname(inputs).removesuffix(f"/{layout.ANSWERER}")
    if not inputs:
        return True  # an earlier version started it
    name = os.path.basename(attempt)
    return os.path.basename(directory) == name and not layout.is_elsewhere(directory, attempt)


def _marks_of(pid: str) -> tuple[str, str, str]:
    """The attempt that a process says it is of, its sandbox's mark, and where it finds its
    inputs; empty for what it does not say."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        return "", "", ""
    said = dict(variable.partition(b"=")[::2] for variable in variables)
    name, mark, inputs = (os.fsdecode(said.get(key, b"")) for key in (_ATTEMPT, _MARK, _INPUTS))
    return name, mark, inputs
