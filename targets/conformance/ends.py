"""Checks of how an attempt ends: by itself, by a signal, by a stop request, by a kill."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from inner_trials.contract import EXIT_STOPPED
from ledger.errors import Conflict
from targets.conformance.inside import UNTIL_ASKED
from targets.conformance.stage import PATIENCE_S, Stage
from targets.conformance.verdicts import Check, Judged, judged
from targets.promises import Subject
from targets.protocol import Exit, ExitCause, Limits, Program

SLACK_S: Final = 5.0
"""A busy machine may be this late."""


def judge_exit(seen: Exit, cause: ExitCause, code: int | None) -> list[str]:
    """An end must be told as what it was."""
    if (seen.cause, seen.code) == (cause, code):
        return []
    told = f"{seen.cause} with code {seen.code}"
    return [f"it ended as {cause} with code {code}, and was told as {told} ({seen.detail})"]


def judge_measures(seen: Exit, least_wall_s: float) -> list[str]:
    problems = []
    if not least_wall_s <= seen.wall_s <= least_wall_s + SLACK_S:
        problems.append(f"its {least_wall_s:g} s were told as {seen.wall_s:.3f} s")
    if not 0 <= seen.cpu_s <= seen.wall_s + SLACK_S:
        problems.append(f"its processor time was told as {seen.cpu_s:.3f} s")
    return problems


def _exit_code(stage: Stage) -> Judged:
    seen = stage.run("sleep 0.2; exit 7").exit
    problems = judge_exit(seen, ExitCause.EXITED, 7) + judge_measures(seen, 0.2)
    return judged(problems, f"code 7 after {seen.wall_s:.2f} s")


def _signal(stage: Stage) -> Judged:
    killed = stage.run("kill -KILL $$").exit
    ended = stage.run("kill -TERM $$").exit
    problems = judge_exit(killed, ExitCause.EXITED, -9) + judge_exit(ended, ExitCause.EXITED, -15)
    return judged(problems, "SIGKILL is code -9, SIGTERM -15")


def _missing_program(stage: Stage) -> Judged:
    pinned = stage.pinned()
    absent = Program(argv=("/no/such/program",), python=pinned.python, image=pinned.image)
    seen = stage.run(absent).exit
    problems = judge_exit(seen, ExitCause.LAUNCH_FAILED, None)
    if "/no/such/program" not in seen.detail:
        problems.append(f"the detail does not name the program: {seen.detail!r}")
    return judged(problems, seen.detail)


def judge_stop(asked: Exit, ignored: Exit, grace_s: float) -> list[str]:
    problems = judge_exit(asked, ExitCause.STOPPED, EXIT_STOPPED)
    if ignored.cause is not ExitCause.KILLED:
        problems.append(f"one that ignored the request ended as {ignored.cause}, not as killed")
    elif ignored.wall_s < grace_s * 0.8:
        problems.append(f"it was killed after {ignored.wall_s:.2f} s of {grace_s:g} s of grace")
    return problems


def _stop(stage: Stage) -> Judged:
    asked = stage.launch(stage.spec(UNTIL_ASKED + f"exit {EXIT_STOPPED}"))
    limits = Limits(timeout_s=PATIENCE_S, grace_s=0.5)
    deaf = stage.launch(stage.spec("trap '' TERM; sleep 30; sleep 30", limits=limits))
    for handle in (asked, asked, deaf):
        stage.target.request_stop(handle)
    stopped, ignored = stage.finish(asked).exit, stage.finish(deaf).exit
    stage.target.request_stop(asked)
    problems = judge_stop(stopped, ignored, limits.grace_s)
    return judged(problems, f"left by itself; the deaf one killed after {ignored.wall_s:.2f} s")


@dataclass(frozen=True, slots=True)
class KillSeen:
    refused: tuple[bool, bool]
    """Whether its outputs, and its release, were refused while it ran."""
    first: Exit
    again: Exit | None
    """As observed after a second kill of what had ended."""
    kept: str
    """What it wrote before."""


def judge_kill(seen: KillSeen) -> list[str]:
    problems = []
    if not seen.refused[0]:
        problems.append("its outputs were given out while it ran")
    if not seen.refused[1]:
        problems.append("it could be released while it ran")
    if seen.first.cause is not ExitCause.KILLED:
        problems.append(f"it ended as {seen.first.cause}, not as killed")
    if seen.again != seen.first:
        problems.append("its end was told another way after a second kill")
    if seen.kept != "kept\n":
        problems.append(f"what it had written did not survive: {seen.kept!r}")
    return problems


def _kill(stage: Stage) -> Judged:
    target = stage.target
    handle = stage.launch(stage.spec('echo kept > "$ARL_OUTPUT/file"; echo ready; sleep 30'))
    stage.await_log(handle, "ready")
    refused = (_is_refused(stage, handle), _is_release_refused(stage, handle))
    for _ in range(2):
        target.kill(handle)
    first = stage.finish(handle).exit
    target.kill(handle)
    kept = read_text(Path(target.outputs(handle).root, "file"))
    seen = KillSeen(refused, first, target.observe(handle, cursor="").exit, kept)
    return judged(judge_kill(seen), "twice is once; its outputs survive")


def _is_refused(stage: Stage, handle: str) -> bool:
    try:
        stage.target.outputs(handle)
    except Conflict:
        return True
    return False


def _is_release_refused(stage: Stage, handle: str) -> bool:
    try:
        stage.target.release(handle)
    except Conflict:
        return True
    return False


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return f"({error.strerror})"


CHECKS: Final = (
    Check(
        name="exit code",
        claim="a program's exit code and time are told as they were",
        run=_exit_code,
    ),
    Check(name="signals", claim="a death by a signal is its negative number", run=_signal),
    Check(
        name="missing program",
        claim="a program that is not there is a failed launch that names it",
        run=_missing_program,
    ),
    Check(
        name="stop request",
        claim="a program sees that it should leave, and one that does not is killed",
        run=_stop,
        subjects=(Subject.DEADLINE,),
    ),
    Check(
        name="kill",
        claim="a kill ends it, twice is once, and what it wrote survives",
        run=_kill,
    ),
)
