"""Checks that nothing of an attempt lives on: children, new sessions, daemons."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from targets.conformance import canaries
from targets.conformance.inside import TREE
from targets.conformance.stage import PATIENCE_S, Stage
from targets.conformance.verdicts import Check, Judged, judged
from targets.promises import Subject
from targets.protocol import ExitCause, Limits

BEATS: Final = ("beat-child", "beat-session", "beat-daemon")
QUIET_S: Final = 0.4
"""Many heartbeats' time."""
DEADLINE_S: Final = 2.0
LATE_DEADLINE_S: Final = 8.0
"""Before what TREE starts ends by itself."""
UNGROWN: Final = "what these wrote is not in its output"
LATE_S: Final = 1.0
"""How far the clocks inside and outside may be apart."""


@dataclass(frozen=True, slots=True)
class TreeSeen:
    cause: ExitCause
    alive: int | None
    """Its processes on this machine after its end was told; None where they cannot be seen."""
    last_beats: tuple[tuple[str, float], ...]
    """Of each process that wrote any: seconds from the told end, positive after it."""
    growing: tuple[str, ...]
    """Those whose heartbeats went on."""


def judge_tree(seen: TreeSeen, cause: ExitCause) -> list[str]:
    problems = []
    if seen.cause is not cause:
        problems.append(f"it ended as {seen.cause}, not as {cause}")
    if seen.alive:
        problems.append(f"{seen.alive} processes of it live on after its end was told")
    if seen.growing:
        problems.append(f"still writing after its end: {_names(seen.growing)}")
    late = [name for name, after_s in seen.last_beats if after_s > LATE_S]
    if late:
        problems.append(f"they wrote after its end was told: {_names(late)}")
    missing = sorted(set(BEATS) - {name for name, _ in seen.last_beats})
    if missing:
        problems.append(f"{UNGROWN}: {_names(missing)}")
    return problems


def _names(beats: "list[str] | tuple[str, ...]") -> str:
    return ", ".join(name.removeprefix("beat-") for name in beats)


def _grow(stage: Stage, then: str, cause: ExitCause, timeout_s: float = PATIENCE_S) -> Judged:
    mark = f"tree-{os.urandom(6).hex()}"
    program = stage.python(f"MARK = {mark!r}\n{TREE}", THEN=then)
    limits = Limits(timeout_s=timeout_s, grace_s=0.3)
    handle = stage.launch(stage.spec(program, limits=limits))
    if then == "kill":
        stage.await_log(handle, "it grows")
        stage.target.kill(handle)
    ended = stage.finish(handle)
    is_here = stage.is_here()
    alive = len(canaries.processes_with(mark)) if is_here else None
    output = Path(stage.target.outputs(handle).root)
    sizes = {name: _size(output / name) for name in BEATS}
    time.sleep(QUIET_S)
    seen = TreeSeen(
        cause=ended.exit.cause,
        alive=alive,
        last_beats=tuple(
            (name, last - ended.told_at)
            for name in BEATS
            if (last := _last(output / name)) is not None
        ),
        growing=tuple(name for name in BEATS if _size(output / name) != sizes[name]),
    )
    how = "seen from inside and outside" if is_here else "seen from inside"
    return judged(judge_tree(seen, cause), f"child, session and daemon are gone, {how}")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _last(path: Path) -> float | None:
    try:
        return float(path.read_text(encoding="ascii").split()[-1])
    except (OSError, IndexError, ValueError):
        return None


def _after_exit(stage: Stage) -> Judged:
    return _grow(stage, "exit", ExitCause.EXITED)


def _after_kill(stage: Stage) -> Judged:
    return _grow(stage, "kill", ExitCause.KILLED)


def _after_deadline(stage: Stage) -> Judged:
    """A program still starting at its deadline shows nothing: a later one is tried, then."""
    found = _grow(stage, "deadline", ExitCause.DEADLINE, DEADLINE_S)
    if found.problems and all(problem.startswith(UNGROWN) for problem in found.problems):
        return _grow(stage, "deadline", ExitCause.DEADLINE, LATE_DEADLINE_S)
    return found


CHECKS: Final = (
    Check(
        name="tree after an exit",
        claim="what a program leaves running is gone when its end is told",
        run=_after_exit,
        subjects=(Subject.TREE_KILLED,),
    ),
    Check(
        name="tree after a kill",
        claim="a kill ends children, new sessions and daemons that ignore every signal",
        run=_after_kill,
        subjects=(Subject.TREE_KILLED,),
    ),
    Check(
        name="tree at the deadline",
        claim="so does the deadline",
        run=_after_deadline,
        subjects=(Subject.TREE_KILLED, Subject.DEADLINE),
    ),
)
