"""Checks of what goes in and out of an attempt: inputs, reports, log, score, answers."""

import time
from dataclasses import dataclass
from typing import Final

from inner_trials.contract import SCORE_BYTES
from ledger.records import AttemptKind
from targets.conformance.inside import FLOOD, report
from targets.conformance.stage import PATIENCE_S, Stage
from targets.conformance.verdicts import Check, Judged, judged
from targets.promises import Subject
from targets.protocol import Exit, ExitCause, Limits, Program

KIB: Final = 1024
LOG_BYTES: Final = 64 * KIB
REPORT_BYTES: Final = 64 * KIB
FLOOD_BYTES: Final = 8 << 20
REPORT_LINE_BYTES: Final = 44
"""Of the shortest line that FLOOD writes."""
DRAIN_S: Final = 10.0
ROWS: Final = "1 2 3\n"


def judge_log(log: str, size: int, limit_bytes: int) -> list[str]:
    problems = []
    if not log.startswith("the head\n"):
        problems.append(f"the head of its log is gone: it begins with {log[:40]!r}")
    if not log.endswith("the tail\n"):
        problems.append(f"the tail of its log is gone: it ends with {log[-40:]!r}")
    if len(log) > limit_bytes + 4 * KIB:
        problems.append(f"{len(log)} bytes of its log are kept, of {limit_bytes}")
    if size < FLOOD_BYTES:
        problems.append(f"of more than {FLOOD_BYTES} bytes it is said to have logged {size}")
    return problems


def _log_size(stage: Stage) -> Judged:
    script = f"echo the head; yes 'a line' | head -c {FLOOD_BYTES}; echo; echo the tail"
    limits = Limits(timeout_s=PATIENCE_S, grace_s=0.5, log_bytes=LOG_BYTES)
    ended = stage.run(script, limits=limits)
    log = stage.log(ended.handle)
    size = stage.target.read_log(ended.handle, offset=0, limit=1).size
    kept = f"head, tail and {len(log) // KIB} KiB of {size // KIB} KiB kept"
    return judged(judge_log(log, size, LOG_BYTES), kept)


def judge_flood(values: int, drained_s: float, exit: Exit, limit_bytes: int) -> list[str]:
    problems = []
    most = limit_bytes // REPORT_LINE_BYTES + 1
    if values > most:
        problems.append(f"{values} values came through a limit that holds {most}")
    if not values:
        problems.append("no value came before the limit")
    if drained_s > DRAIN_S:
        problems.append(f"it took {drained_s:.1f} s to read them")
    if exit.cause is not ExitCause.EXITED:
        problems.append(f"the program that wrote too many ended as {exit.cause}")
    return problems


def _report_flood(stage: Stage) -> Judged:
    limits = Limits(timeout_s=PATIENCE_S, grace_s=0.5, report_bytes=REPORT_BYTES)
    handle = stage.launch(stage.spec(stage.python(FLOOD, MOST=str(FLOOD_BYTES)), limits=limits))
    ended = stage.finish(handle)
    started = time.monotonic()
    stage.finish(handle)
    problems = judge_flood(len(ended.values), time.monotonic() - started, ended.exit, REPORT_BYTES)
    return judged(
        problems, f"{len(ended.values)} values of {REPORT_BYTES // KIB} KiB came through"
    )


def judge_reports(steps: tuple[int, ...], rejected: int) -> list[str]:
    problems = []
    if steps != (1, 2, 3):
        problems.append(f"steps 1, 2, 3 were reported, {steps} came")
    if rejected != 1:
        problems.append(f"one line was no report, {rejected} were rejected")
    return problems


def _reports(stage: Stage) -> Judged:
    script = report(1) + 'echo nonsense >> "$ARL_REPORTS"; ' + report(2) + report(3)
    ended = stage.run(script)
    steps = tuple(value.step for value in ended.values)
    return judged(judge_reports(steps, ended.rejected), "in order and once, nonsense is counted")


@dataclass(frozen=True, slots=True)
class ScoreSeen:
    score: bytes
    long_score: int
    """Bytes kept of one that was longer than allowed."""
    train_log: str
    train_score: bytes


def judge_score(seen: ScoreSeen) -> list[str]:
    problems = []
    if seen.score != b'{"x": 0.5}\n':
        problems.append(f"an evaluation's score was read as {seen.score[:60]!r}")
    if seen.long_score != SCORE_BYTES + 1:
        problems.append(f"of a score that is too long {seen.long_score} bytes were kept")
    if seen.train_log != "none\nclosed\n":
        problems.append(f"a training program found a score channel: {seen.train_log!r}")
    if seen.train_score:
        problems.append(f"a training program has a score: {seen.train_score[:60]!r}")
    return problems


def _score(stage: Stage) -> Judged:
    target = stage.target
    write = 'echo "{\\"x\\": 0.5}" >&"$ARL_SCORE_FD"; echo "{\\"x\\": 1.0}"'
    scored = stage.run(write, kind=AttemptKind.EVALUATE)
    much = f'head -c {SCORE_BYTES + 300_000} /dev/zero >&"$ARL_SCORE_FD"'
    long = stage.run(much, kind=AttemptKind.EVALUATE)
    trained = stage.run('echo "${ARL_SCORE_FD-none}"; (echo 1 >&3) 2>/dev/null || echo closed')
    seen = ScoreSeen(
        score=target.score(scored.handle),
        long_score=len(target.score(long.handle)),
        train_log=stage.log(trained.handle),
        train_score=target.score(trained.handle),
    )
    return judged(judge_score(seen), "an evaluation's alone, and cut one byte past the limit")


def judge_answers(score: bytes) -> list[str]:
    if score == b"[question] answered\n":
        return []
    return [f"the evaluator read {score[:80]!r} as the candidate's answer"]


def judge_labels(score: bytes) -> list[str]:
    if b"the label" in score:
        return ["the candidate's program read the evaluator's inputs"]
    return judge_answers(score)


def _ask(stage: Stage, answerer: str) -> bytes:
    """What the evaluator got as the answer to its question."""
    ask = (
        'cat {labels}/label; echo question >&"$ARL_ASK_FD"; read -r a <&"$ARL_ANSWER_FD"; '
        'echo "$a" >&"$ARL_SCORE_FD"'
    )
    spec = stage.spec(
        ask,
        kind=AttemptKind.EVALUATE,
        inputs={"labels": stage.put_tree({"label": "the label\n"})},
        answerer=stage.shell(answerer + 'while read -r line; do echo "[$line] answered"; done'),
    )
    ended = stage.finish(stage.launch(spec))
    if "the label" not in stage.log(ended.handle):
        raise ValueError("the evaluator could not read its own inputs")
    return stage.target.score(ended.handle)


def _answers(stage: Stage) -> Judged:
    return judged(judge_answers(_ask(stage, "")), "asked, answered and scored")


def _labels(stage: Stage) -> Judged:
    peek = 'cat "$ARL_INPUTS/../../inputs/labels/label" "$ARL_INPUTS/labels/label" 2>/dev/null; '
    return judged(judge_labels(_ask(stage, peek)), "not by its own paths")


def judge_inputs(lines: list[str]) -> list[str]:
    expected = [ROWS.strip(), ROWS.strip(), "tool x", "copied", "/no/{such}"]
    if lines == expected:
        return []
    return [f"its input, the copy and the tool gave {lines}, not {expected}"]


def _inputs(stage: Stage) -> Judged:
    pinned = stage.pinned()
    script = (
        'cat rows; cat "$ARL_INPUTS/data/rows"; {data}/tool x; echo copied > rows; cat rows; '
        'echo "$EXTRA"'
    )
    program = Program(
        argv=("/bin/sh", "-c", script),
        python=pinned.python,
        image=pinned.image,
        environment={"EXTRA": "/no/{such}"},
        working_input="data",
    )
    ended = stage.run(program, inputs={"data": put_rows(stage)})
    return judged(judge_inputs(stage.log(ended.handle).splitlines()), "mounted, and copied")


def put_rows(stage: Stage) -> str:
    """The digest of a small tree that some checks have as their input."""
    tool = '#!/bin/sh\necho "tool $1"\n'
    return stage.put_tree({"rows": ROWS, "tool": tool}, executable="tool")


CHECKS: Final = (
    Check(
        name="reports",
        claim="reported values come in order and once, and what is none is counted",
        run=_reports,
    ),
    Check(
        name="report flood",
        claim="a program that reports without end is cut off at its limit",
        run=_report_flood,
        subjects=(Subject.REPORT_SIZE,),
    ),
    Check(
        name="log",
        claim="of a log that is too long the head and the tail are kept",
        run=_log_size,
        subjects=(Subject.LOG_SIZE,),
    ),
    Check(
        name="score",
        claim="an evaluation has a score channel of its own, and a training has none",
        run=_score,
    ),
    Check(
        name="answers",
        claim="in answers mode the candidate's program answers the evaluator's questions",
        run=_answers,
    ),
    Check(
        name="labels",
        claim="in answers mode the candidate's program has none of the evaluator's inputs",
        run=_labels,
        subjects=(Subject.HOST_FILES,),
    ),
    Check(
        name="inputs",
        claim="inputs are mounted by name, and the working directory is a copy of one",
        run=_inputs,
    ),
)
