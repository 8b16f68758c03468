"""Checks of what a program can reach: files, processes, secrets, the clock, other attempts."""

import contextlib
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from inner_trials import contract
from ledger.records import Json
from targets.conformance import canaries, inside
from targets.conformance.setting import Ended
from targets.conformance.stage import Stage
from targets.conformance.streams import ROWS, put_rows
from targets.conformance.told import number, real, texts
from targets.conformance.verdicts import Check, Judged, judged
from targets.promises import Subject

CLOCK_S: Final = 1.5
"""How far a clock inside may be from ours, with what it takes to ask."""
_SHARED: Final = ("/tmp", "/var/tmp", "/dev/shm")
_OWN_NAMES: Final = frozenset(
    {
        contract.ATTEMPT,
        contract.PARAMS,
        contract.REPORTS,
        contract.STOP,
        contract.OUTPUT,
        contract.INPUTS,
    }
)


def judge_host_files(found: tuple[str, ...], listed: tuple[str, ...]) -> list[str]:
    problems = []
    if found:
        problems.append(f"it read a file of this machine's as {found[0]}")
    if listed:
        problems.append(f"it can list ARL's own directory {listed[0]}")
    return problems


def _host_files(stage: Stage) -> Judged:
    stage.need_here()
    part, other = secrets.token_hex(8), secrets.token_hex(8)
    canary = stage.setup.work / f"canary-{part}"
    canary.write_text(f"{part}-{other}\n", encoding="ascii")
    canary.chmod(0o644)
    program = stage.python(
        inside.READS,
        CANARY=str(canary),
        PART=part,
        OTHER_PART=other,
        ROOTS=":".join(map(str, stage.setup.roots)),
    )
    facts = stage.facts(stage.run(program))
    problems = judge_host_files(texts(facts, "found"), texts(facts, "listed"))
    return judged(problems, "by no path, and through no process")


@dataclass(frozen=True, slots=True)
class ProcessesSeen:
    seen: int
    """Of this machine's processes that carry our mark."""
    secrets: int
    """Processes in whose environment it read the controller's canary."""
    signalled: bool
    alive: bool
    """Whether our own process still ran afterwards."""
    processes: int
    """It saw in all."""


def judge_other_processes(seen: ProcessesSeen) -> list[str]:
    problems = []
    if seen.seen or seen.signalled:
        problems.append("it sees a process of this machine that is not its own")
    if seen.secrets:
        problems.append("it read the controller's secret in another process's environment")
    if not seen.alive:
        problems.append("a process of this machine died of it")
    return problems


def _other_processes(stage: Stage) -> Judged:
    stage.need_here()
    part, _, other = stage.secret.partition("-")
    with canaries.sleeper(f"{part}.{other}", stage.secret) as pid:
        program = stage.python(
            inside.PROCESSES_SEEN, PART=part, OTHER_PART=other, SLEEPER=str(pid)
        )
        facts = stage.facts(stage.run(program))
        alive = pid in canaries.processes_with(f"{part}.{other}")
    seen = ProcessesSeen(
        seen=len(texts(facts, "seen")),
        secrets=len(texts(facts, "secrets")),
        signalled=facts["signalled"] is True,
        alive=alive,
        processes=number(facts, "processes"),
    )
    return judged(judge_other_processes(seen), f"it sees {seen.processes} processes, its own")


def judge_environment(environment: dict[str, str], secret: str) -> list[str]:
    problems = []
    holding = [name for name, value in environment.items() if secret in value]
    if holding:
        problems.append(f"it has the controller's secret in {', '.join(holding)}")
    others = sorted(n for n in environment if n.startswith("ARL_") and n not in _OWN_NAMES)
    if others:
        problems.append(f"it has ARL's variables {', '.join(others)}")
    return problems


def _environment(stage: Stage) -> Judged:
    facts = stage.facts(stage.run(stage.python(inside.ENVIRONMENT)))
    found = facts["environment"]
    environment = {k: str(v) for k, v in found.items()} if isinstance(found, dict) else {}
    problems = judge_environment(environment, stage.secret)
    return judged(problems, f"{len(environment)} variables, all the contract's")


def judge_writes(changed: tuple[str, ...], rows: str) -> list[str]:
    problems = [f"it changed {', '.join(changed)}"] if changed else []
    if rows != ROWS:
        problems.append(f"the stored input now holds {rows[:40]!r}")
    return problems


def _read_only(stage: Stage) -> Judged:
    tree = put_rows(stage)
    facts = stage.facts(stage.run(stage.python(inside.WRITES), inputs={"data": tree}))
    rows = (stage.setup.shelf.checkout(tree) / "rows").read_text(encoding="utf-8")
    problems = judge_writes(texts(facts, "changed"), rows)
    return judged(problems, "inputs, parameters and the system cannot be changed")


@dataclass(frozen=True, slots=True)
class ScratchSeen:
    used: tuple[str, ...]
    """Of /tmp and HOME: those that were not empty at the start."""
    beside: tuple[str, ...]
    """Places where an attempt found what one beside it left."""
    after: tuple[str, ...]
    """And what one before it left."""


def judge_scratch(seen: ScratchSeen) -> list[str]:
    problems = []
    if seen.used:
        problems.append(f"not empty at the start: {', '.join(seen.used)}")
    if seen.beside:
        problems.append(f"it sees another attempt's files in {', '.join(seen.beside)}")
    if seen.after:
        problems.append(f"it finds what an earlier attempt left in {', '.join(seen.after)}")
    return problems


def _scratch(stage: Stage) -> Judged:
    mark = f"arl-doctor-left-{secrets.token_hex(6)}"

    def look() -> dict[str, Json]:
        return stage.facts(stage.run(stage.python(inside.SCRATCH, MARK=mark, LEAVE="0")))

    try:
        spec = stage.spec(stage.python(inside.SCRATCH, MARK=mark, LEAVE="1"))
        handle = stage.launch(spec)
        stage.await_log(handle, "left something")
        beside = look()
        stage.target.request_stop(handle)
        stage.finish(handle)
        after = look()
    finally:
        for place in _SHARED:  # where a target keeps none of this, it is ours to tidy
            with contextlib.suppress(OSError):
                Path(place, mark).unlink()
    used = {*texts(beside, "used"), *texts(after, "used")}
    seen = ScratchSeen(tuple(sorted(used)), texts(beside, "found"), texts(after, "found"))
    return judged(judge_scratch(seen), "empty, and no other attempt's")


def judge_clock(at: float, before: float, after: float, *, settable: bool) -> list[str]:
    problems = []
    if not before - CLOCK_S <= at <= after + CLOCK_S:
        problems.append(f"its clock is {at - (before + after) / 2:+.1f} s from ours")
    if settable:
        problems.append("it can set the clock")
    return problems


def _clock(stage: Stage) -> Judged:
    before = time.time()
    ended: Ended = stage.run(stage.python(inside.CLOCK))
    facts = stage.facts(ended)
    settable = facts["settable"] is True
    problems = judge_clock(real(facts, "at"), before, ended.told_at, settable=settable)
    return judged(problems, "agrees with ours, and cannot be set")


CHECKS: Final = (
    Check(
        name="files of the machine",
        claim="a file of this machine that anybody may read cannot be read",
        run=_host_files,
        subjects=(Subject.HOST_FILES,),
    ),
    Check(
        name="read-only",
        claim="inputs, parameters and the system cannot be changed",
        run=_read_only,
        subjects=(Subject.READ_ONLY,),
    ),
    Check(
        name="scratch",
        claim="/tmp and HOME are empty at the start and no other attempt's",
        run=_scratch,
        subjects=(Subject.PRIVATE_SCRATCH,),
    ),
    Check(
        name="other processes",
        claim="processes of this machine can neither be seen nor signalled",
        run=_other_processes,
        subjects=(Subject.OTHER_PROCESSES,),
    ),
    Check(
        name="environment",
        claim="nothing of the controller's environment is in the program's",
        run=_environment,
        subjects=(Subject.ENVIRONMENT,),
    ),
    Check(
        name="clock",
        claim="the clock agrees with ours and cannot be set",
        run=_clock,
        subjects=(Subject.CLOCK,),
    ),
)
