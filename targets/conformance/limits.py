"""Checks that an attempt's limits are enforced, whatever its program does."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ledger.records import Json
from targets.conformance.ends import SLACK_S, judge_exit
from targets.conformance.inside import FILL, MEMORY, PROCESSES, SPIN, report
from targets.conformance.setting import Ended
from targets.conformance.stage import PATIENCE_S, Stage
from targets.conformance.told import number, real
from targets.conformance.verdicts import Check, Judged, Unchecked, judged
from targets.promises import Keeper, Subject
from targets.protocol import Exit, ExitCause, Limits

MIB: Final = 1 << 20
MEMORY_BYTES: Final = 128 * MIB
MOST_BYTES: Final = 384 * MIB
MOST_PROCESSES: Final = 4400
"""More than any target lets an attempt have."""
QUOTA_BYTES: Final = 4 * MIB
FILL_BYTES: Final = 64 * MIB
SPINNING_S: Final = 1.5
CPUS: Final = 0.25
"""Little, so that a busy machine has enough to show that more is not given."""
CPU_SHARE: Final = 1.6
"""What passes for that much: the kernel counts in slices of 100 ms."""
_FOR_SEVEN_S: Final = "i=0; while [ $i -lt 140 ]; do sleep 0.05; i=$((i + 1)); done"
TIMEOUT_S: Final = 0.6
GRACE_S: Final = 0.4
LEFT_WITH: Final = 3
"""The code of the program that leaves when it is asked to."""
_TRIES: Final = 3


def judge_deadline(deaf: Exit, polite: Exit, timeout_s: float, grace_s: float) -> list[str]:
    """`deaf` ignored SIGTERM, `polite` left at it with code `LEFT_WITH`."""
    problems = judge_exit(polite, ExitCause.DEADLINE, LEFT_WITH)
    if deaf.cause is not ExitCause.DEADLINE:
        problems.append(f"a program past its deadline ended as {deaf.cause} ({deaf.detail})")
    if not timeout_s + grace_s * 0.8 <= deaf.wall_s <= timeout_s + grace_s + SLACK_S:
        problems.append(
            f"it ran {deaf.wall_s:.2f} s with a deadline of {timeout_s:g} s and {grace_s:g} s of "
            "grace"
        )
    return problems


def _deadline(stage: Stage) -> Judged:
    limits = Limits(timeout_s=TIMEOUT_S, grace_s=GRACE_S)
    deaf = stage.launch(stage.spec(f"trap '' TERM; {_FOR_SEVEN_S}", limits=limits))
    ended = stage.finish(deaf).exit
    problems = judge_deadline(ended, _polite(stage), TIMEOUT_S, GRACE_S)
    return judged(problems, f"deaf to SIGTERM, it was gone after {ended.wall_s:.2f} s")


def _polite(
    stage: Stage, timeouts_s: Sequence[float] = (TIMEOUT_S, 4 * TIMEOUT_S, 9 * TIMEOUT_S)
) -> Exit:
    """A program that leaves at SIGTERM. One still starting at its deadline hears none: a later one
    is tried, then."""
    script = f"trap 'exit {LEFT_WITH}' TERM; {_FOR_SEVEN_S}"
    limits = Limits(timeout_s=timeouts_s[0], grace_s=10.0)
    polite = stage.finish(stage.launch(stage.spec(script, limits=limits))).exit
    if polite.code == LEFT_WITH or len(timeouts_s) == 1:
        return polite
    return _polite(stage, timeouts_s[1:])


def judge_stall(silent: Exit, talking: Exit, stall_s: float) -> list[str]:
    problems = judge_exit(talking, ExitCause.EXITED, 0)
    if silent.cause is not ExitCause.STALLED:
        problems.append(f"a silent program ended as {silent.cause}, not as stalled")
    if silent.wall_s > stall_s + SLACK_S:
        problems.append(f"silent for more than {stall_s:g} s, it ran {silent.wall_s:.2f} s")
    return problems


def _stall(stage: Stage) -> Judged:
    def limits(stall_s: float) -> Limits:
        return Limits(timeout_s=PATIENCE_S, grace_s=0.5, stall_s=stall_s)

    silent = stage.launch(stage.spec("sleep 8", limits=limits(0.6)))
    # Longer together than it may be silent, which leaves room for a start that takes its time.
    script = f"for i in 1 2 3 4 5 6 7 8 9; do {report(1)} sleep 0.4; done"
    talking = stage.launch(stage.spec(script, limits=limits(3.0)))
    ended = stage.finish(silent).exit
    problems = judge_stall(ended, stage.finish(talking).exit, 0.6)
    return judged(problems, f"silent, it was ended after {ended.wall_s:.2f} s")


@dataclass(frozen=True, slots=True)
class MemorySeen:
    exit: Exit
    held_bytes: int
    """The most that the program told of before its end."""
    unharmed: bool
    """Whether it held everything it wanted for some seconds."""


def judge_memory(seen: MemorySeen, limit_bytes: int, keeper: Keeper) -> list[str]:
    problems = []
    if seen.unharmed:
        problems.append(f"it held {_mib(seen.held_bytes)} unharmed, of {_mib(limit_bytes)}")
    elif seen.exit.cause is not ExitCause.OUT_OF_MEMORY:
        problems.append(
            f"it ended as {seen.exit.cause} with code {seen.exit.code}, not as out of memory"
        )
    if keeper is Keeper.KERNEL and seen.held_bytes > limit_bytes:
        problems.append(f"the kernel let it hold {_mib(seen.held_bytes)} of {_mib(limit_bytes)}")
    return problems


def _memory(stage: Stage, *, in_child: bool) -> Judged:
    program = stage.python(MEMORY, IN_CHILD=str(int(in_child)), MOST=str(MOST_BYTES))
    limits = Limits(timeout_s=PATIENCE_S, grace_s=0.5, memory_bytes=MEMORY_BYTES)
    ended = stage.run(program, limits=limits)
    facts = stage.facts(ended)
    seen = MemorySeen(ended.exit, number(facts, "held_bytes"), bool(facts.get("unharmed")))
    keeper = stage.promises[Subject.MEMORY].kept_by
    held = f"ended holding {_mib(seen.held_bytes)} of {_mib(MEMORY_BYTES)}"
    return judged(judge_memory(seen, MEMORY_BYTES, keeper), held)


def _own_memory(stage: Stage) -> Judged:
    return _memory(stage, in_child=False)


def _child_memory(stage: Stage) -> Judged:
    return _memory(stage, in_child=True)


def judge_processes(seen: Exit, log: str) -> list[str]:
    """The program counts its children in the log and says `unharmed` at the end."""
    if "unharmed" not in log:
        return []
    return [f"it had {log.split()[-2]} processes at once for 3 s and ended as {seen.cause}"]


def _processes(stage: Stage) -> Judged:
    ended = stage.run(stage.shell(PROCESSES, MOST=str(MOST_PROCESSES)))
    log = stage.log(ended.handle)
    counts = [word for word in log.split() if word.isdecimal()]
    if ended.exit.code == 9:
        raise Unchecked("it could not make a fifo in its output")
    seen = f"ended as {ended.exit.cause} after {counts[-1] if counts else 0} processes"
    return judged(judge_processes(ended.exit, log), seen)


def judge_cpus(cpu_s: float, wall_s: float, cpus: float) -> list[str]:
    used = cpu_s / max(wall_s, 0.001)
    if used <= cpus * CPU_SHARE:
        return []
    return [f"given {cpus:g} processors, its two spinning processes used {used:.2f}"]


def _cpus(stage: Stage) -> Judged:
    """Compared with two bare processes of this machine, which may be too busy to tell."""
    stage.need_here()
    able = max(_bare_share() for _ in range(_TRIES))
    if able < CPUS * CPU_SHARE + 0.1:
        raise Unchecked(f"two bare processes get {able:.2f} processors of this machine just now")
    limits = Limits(timeout_s=PATIENCE_S, grace_s=0.5, cpus=CPUS)
    program = stage.python(SPIN, CHILDREN="2", SECONDS=str(SPINNING_S))
    facts = stage.facts(stage.run(program, limits=limits))
    cpu_s, wall_s = real(facts, "cpu_s"), real(facts, "wall_s")
    used = f"{cpu_s / max(wall_s, 0.001):.2f} of {CPUS:g} processors; bare they use {able:.2f}"
    return judged(judge_cpus(cpu_s, wall_s, CPUS), f"two spinning processes used {used}")


def _bare_share() -> float:
    """How many processors two spinning processes of this machine get."""
    code = "import os, time\nuntil = time.monotonic() + 0.6\nwhile time.monotonic() < until: pass"
    before, started = os.times(), time.monotonic()
    for process in [subprocess.Popen([sys.executable, "-I", "-S", "-c", code]) for _ in "12"]:
        process.wait()
    after, wall_s = os.times(), time.monotonic() - started
    used = after.children_user - before.children_user
    return (used + after.children_system - before.children_system) / wall_s


@dataclass(frozen=True, slots=True)
class FillSeen:
    exit: Exit
    wrote_bytes: int
    refused: bool
    """Whether a write failed inside."""
    unharmed: bool


def judge_fill(seen: FillSeen, quota_bytes: int) -> list[str]:
    if seen.unharmed:
        return [f"it wrote {_mib(seen.wrote_bytes)} unharmed, of {_mib(quota_bytes)}"]
    if seen.refused and seen.wrote_bytes <= quota_bytes:
        return []
    return (
        judge_exit(seen.exit, ExitCause.TOO_MUCH_DATA, seen.exit.code)
        if seen.exit.cause is not ExitCause.TOO_MUCH_DATA
        else []
    )


def _fill(stage: Stage, where: str, limits: Limits) -> Judged:
    program = stage.python(FILL, WHERE=where, MOST=str(FILL_BYTES))
    ended = stage.run(program, limits=limits)
    facts = _facts_or_none(stage, ended)
    seen = FillSeen(
        exit=ended.exit,
        wrote_bytes=number(facts, "wrote_bytes"),
        refused="refused" in facts,
        unharmed=bool(facts.get("unharmed")),
    )
    return judged(judge_fill(seen, QUOTA_BYTES), f"past {_mib(QUOTA_BYTES)}: {ended.exit.cause}")


def _facts_or_none(stage: Stage, ended: Ended) -> dict[str, Json]:
    """A program that was ended on its way told nothing."""
    try:
        return stage.facts(ended)
    except ValueError:
        return {}


def _output_size(stage: Stage) -> Judged:
    limits = Limits(timeout_s=PATIENCE_S, grace_s=0.5, output_bytes=QUOTA_BYTES)
    return _fill(stage, "ARL_OUTPUT", limits)


def _scratch_size(stage: Stage) -> Judged:
    limits = Limits(timeout_s=PATIENCE_S, grace_s=0.5, scratch_bytes=QUOTA_BYTES)
    return _fill(stage, "HOME", limits)


def _mib(size: int) -> str:
    return f"{size / MIB:.0f} MiB"


CHECKS: Final = (
    Check(
        name="deadline",
        claim="a program that ignores SIGTERM is gone at its deadline and grace; one that does "
        "not may save first",
        run=_deadline,
        subjects=(Subject.DEADLINE,),
    ),
    Check(
        name="stall",
        claim="a program that neither reports nor logs is ended; one that reports is not",
        run=_stall,
        subjects=(Subject.STALL,),
    ),
    Check(
        name="memory",
        claim="a program that takes more memory than allowed is ended for it",
        run=_own_memory,
        subjects=(Subject.MEMORY,),
    ),
    Check(
        name="memory of a child",
        claim="a child's memory counts, and its death is told though the program exits with 0",
        run=_child_memory,
        subjects=(Subject.MEMORY,),
    ),
    Check(
        name="processes",
        claim=f"a program cannot keep {MOST_PROCESSES} processes at once",
        run=_processes,
        subjects=(Subject.PROCESSES,),
        alone=True,
    ),
    Check(
        name="processors",
        claim="two spinning processes use no more processors than they were given",
        run=_cpus,
        subjects=(Subject.CPUS,),
        alone=True,
    ),
    Check(
        name="size of the output",
        claim="a program that writes more than allowed to its output is ended for it",
        run=_output_size,
        subjects=(Subject.OUTPUT_SIZE,),
    ),
    Check(
        name="size of the scratch",
        claim="a program that writes more than allowed to its HOME is ended for it",
        run=_scratch_size,
        subjects=(Subject.SCRATCH_SIZE,),
    ),
)
