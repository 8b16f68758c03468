"""Checks that an attempt is one, and is found again until it is released."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from inner_trials.contract import EXIT_STOPPED
from ledger.errors import InvalidInput
from targets.conformance import canaries
from targets.conformance.ends import judge_exit, read_text
from targets.conformance.inside import UNTIL_ASKED, report
from targets.conformance.stage import Stage
from targets.conformance.verdicts import Check, Judged, judged
from targets.protocol import Exit, ExitCause, Found


@dataclass(frozen=True, slots=True)
class TwiceSeen:
    handles: frozenset[str]
    starts: int
    """Lines that its starts wrote to its output."""
    processes: int | None
    """That ran of it at once on this machine; None where that cannot be seen."""
    listed: int
    """Entries of its name."""
    strangers: tuple[str, ...]
    """Names listed for this owner that nobody launched."""


def judge_twice(seen: TwiceSeen) -> list[str]:
    problems = []
    if len(seen.handles) != 1:
        problems.append(f"one name got {len(seen.handles)} handles: {sorted(seen.handles)}")
    if seen.starts != 1:
        problems.append(f"its program was started {seen.starts} times")
    if seen.processes is not None and seen.processes != 1:
        problems.append(f"{seen.processes} processes of it ran at once")
    if seen.listed != 1:
        problems.append(f"list_owned has its name {seen.listed} times")
    if seen.strangers:
        problems.append(f"list_owned has attempts nobody launched: {', '.join(seen.strangers)}")
    return problems


def _launch_twice(stage: Stage) -> Judged:
    argv = ("sleep", f"30.{int.from_bytes(os.urandom(5))}")
    script = f'echo started >> "$ARL_OUTPUT/started"; echo ready; exec {" ".join(argv)}'
    spec = stage.spec(script)
    targets = (stage.target, stage.second(), stage.target)
    with ThreadPoolExecutor(len(targets)) as pool:
        handles = list(pool.map(lambda target: stage.launch(spec, target), targets))
    stage.await_log(handles[0], "ready")
    processes = None
    if stage.is_here():
        stage.until(lambda: canaries.processes_running(argv), "its process to run")
        processes = len(canaries.processes_running(argv))
    found = stage.target.list_owned(stage.setup.owner)
    stage.target.kill(handles[0])
    ended = stage.finish(handles[0])
    handles.append(stage.launch(spec))
    again = stage.finish(handles[-1])
    started = read_text(Path(stage.target.outputs(ended.handle).root, "started"))
    seen = TwiceSeen(
        handles=frozenset(handles),
        starts=started.count("started") + (again.exit != ended.exit),
        processes=processes,
        listed=sum(f.name == spec.name for f in found),
        strangers=_strangers(stage, found),
    )
    return judged(judge_twice(seen), "thrice at once and once after its end: one start")


def _strangers(stage: Stage, found: Sequence[Found]) -> tuple[str, ...]:
    return tuple(f.name for f in found if f.name not in stage.known)


@dataclass(frozen=True, slots=True)
class AdoptionSeen:
    listed: bool | None
    """Whether list_owned had it as running; None: not at all."""
    ended_early: Exit | None
    """What observe said while it ran."""
    steps: tuple[int, ...]
    """Of the values seen by the second object from the beginning."""
    exit: Exit
    first_exit: Exit | None
    """What the object that launched it says of the end."""


def judge_adoption(seen: AdoptionSeen) -> list[str]:
    problems = []
    if seen.listed is None:
        problems.append("list_owned of a second object does not have it")
    elif not seen.listed:
        problems.append("list_owned has it as ended while it runs")
    if seen.ended_early is not None:
        problems.append(f"a second object took it for {seen.ended_early.cause} while it ran")
    problems += judge_exit(seen.exit, ExitCause.STOPPED, EXIT_STOPPED)
    if seen.steps != (1, 2):
        problems.append(f"of the values of steps 1 and 2 a second object saw {seen.steps}")
    if seen.first_exit != seen.exit:
        problems.append("the two objects tell its end differently")
    return problems


def _adoption(stage: Stage) -> Judged:
    spec = stage.spec(report(1) + UNTIL_ASKED + report(2) + f"exit {EXIT_STOPPED}")
    handle = stage.launch(spec)
    stage.until(lambda: stage.target.observe(handle, cursor="").values, "its first value")
    other = stage.second()
    found = {f.name: f.running for f in other.list_owned(stage.setup.owner)}
    ended_early = other.observe(handle, cursor="").exit
    other.request_stop(handle)
    ended = stage.finish(handle, other)
    seen = AdoptionSeen(
        listed=found.get(spec.name),
        ended_early=ended_early,
        steps=tuple(value.step for value in ended.values),
        exit=ended.exit,
        first_exit=stage.target.observe(handle, cursor="").exit,
    )
    return judged(judge_adoption(seen), "found running, stopped and followed to its end")


@dataclass(frozen=True, slots=True)
class ReleaseSeen:
    listed_before: bool
    listed_after: bool
    cause_after: ExitCause | None
    log_after: str
    left: tuple[str, ...]
    """On this machine, besides its log."""
    unknown: ExitCause | None
    """What observe says of a handle that never was."""


def judge_release(seen: ReleaseSeen) -> list[str]:
    problems = []
    if not seen.listed_before:
        problems.append("list_owned does not have an ended attempt")
    if seen.listed_after:
        problems.append("list_owned still has it after its release")
    if seen.cause_after is not ExitCause.LOST:
        problems.append(f"after its release observe says {seen.cause_after}, not lost")
    if seen.log_after != "to be kept\n":
        problems.append(f"its log was not kept: {seen.log_after!r}")
    if seen.left:
        problems.append(f"its release left {', '.join(seen.left[:3])}")
    if seen.unknown is not ExitCause.LOST:
        problems.append(f"an attempt that never was is {seen.unknown}, not lost")
    return problems


def _release(stage: Stage) -> Judged:
    target, spec = stage.target, stage.spec('echo to be kept; echo x > "$ARL_OUTPUT/x"')
    ended = stage.finish(stage.launch(spec))
    before = {f.name for f in target.list_owned(stage.setup.owner)}
    target.release(ended.handle)
    target.release(ended.handle)
    seen = ReleaseSeen(
        listed_before=spec.name in before,
        listed_after=spec.name in {f.name for f in target.list_owned(stage.setup.owner)},
        cause_after=_cause(stage, ended.handle),
        log_after=stage.log(ended.handle),
        left=tuple(canaries.left_behind(stage.setup.roots, spec.name)),
        unknown=_cause(stage, f"{spec.name}-never"),
    )
    return judged(judge_release(seen), "gone, but for its log")


def _cause(stage: Stage, handle: str) -> ExitCause | None:
    try:
        seen = stage.target.observe(handle, cursor="").exit
    except InvalidInput:  # it cannot even be a handle of this target
        return ExitCause.LOST
    return None if seen is None else seen.cause


CHECKS: Final = (
    Check(
        name="launched twice",
        claim="launching one name several times starts one program",
        run=_launch_twice,
    ),
    Check(
        name="adoption",
        claim="another controller finds a running attempt and follows it to its end",
        run=_adoption,
    ),
    Check(
        name="release",
        claim="what is left of an ended attempt is its log",
        run=_release,
    ),
)
