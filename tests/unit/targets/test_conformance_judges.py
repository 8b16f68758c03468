"""Each judge of the self-check passes what should be and names what should not."""

import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from inner_trials.contract import EXIT_STOPPED, SCORE_BYTES
from targets.conformance import claims, ends, identity, limits, network, reach, streams, trees
from targets.conformance.suite import judge_nothing_left
from targets.promises import Keeper, Promise, Subject
from targets.protocol import Exit, ExitCause

KILLED = -int(signal.SIGKILL)
MIB = 1 << 20


def ended(cause: ExitCause = ExitCause.EXITED, code: int | None = 0, wall_s: float = 1.0) -> Exit:
    return Exit(cause=cause, code=code, wall_s=wall_s, cpu_s=0.1)


STOPPED = ended(ExitCause.STOPPED, EXIT_STOPPED)
DEADLINE = ended(ExitCause.DEADLINE, KILLED, 1.0)
POLITE = ended(ExitCause.DEADLINE, 3, 0.6)
OOM = ended(ExitCause.OUT_OF_MEMORY, KILLED)
TOO_MUCH = ended(ExitCause.TOO_MUCH_DATA, KILLED)

KILL = ends.KillSeen((True, True), ended(ExitCause.KILLED, KILLED), None, "kept\n")
KILL = replace(KILL, again=KILL.first)
TWICE = identity.TwiceSeen(frozenset({"h"}), 1, 1, 1, ())
ADOPTED = identity.AdoptionSeen(
    listed=True, ended_early=None, steps=(1, 2), exit=STOPPED, first_exit=STOPPED
)
RELEASED = identity.ReleaseSeen(
    listed_before=True,
    listed_after=False,
    cause_after=ExitCause.LOST,
    log_after="to be kept\n",
    left=(),
    unknown=ExitCause.LOST,
)
MEMORY = limits.MemorySeen(OOM, 100 * MIB, unharmed=False)
FILL = limits.FillSeen(TOO_MUCH, 6 * MIB, refused=False, unharmed=False)
LOG = "the head\n" + "x" * 40_000 + "the tail\n"
SCORED = streams.ScoreSeen(b'{"x": 0.5}\n', SCORE_BYTES + 1, "none\nclosed\n", b"")
SHUT = network.NetworkSeen(("lo",), 0, (), "")
LISTED = network.EgressSeen(True, (), (), (network.UNLISTED,))
HIDDEN = reach.ProcessesSeen(seen=0, secrets=0, signalled=False, alive=True, processes=2)
EMPTY = reach.ScratchSeen((), (), ())
GONE = trees.TreeSeen(ExitCause.EXITED, 0, tuple((name, -0.2) for name in trees.BEATS), ())
INSIDE = replace(GONE, alive=None)
ENVIRONMENT = {"PATH": "/bin", "ARL_OUTPUT": "/arl/output", "HOME": "/arl/home"}
IMAGE = "trial@sha256:" + "a" * 64
KEPT = {subject: Promise(Keeper.KERNEL, "it is") for subject in Subject}
INPUTS = ["1 2 3", "1 2 3", "tool x", "copied", "/no/{such}"]

Judge = Callable[..., list[str]]
GOOD: list[tuple[Judge, tuple[Any, ...]]] = [
    (ends.judge_exit, (ended(code=7), ExitCause.EXITED, 7)),
    (ends.judge_measures, (ended(wall_s=0.3), 0.2)),
    (ends.judge_stop, (STOPPED, ended(ExitCause.KILLED, KILLED, 0.5), 0.5)),
    (ends.judge_kill, (KILL,)),
    (identity.judge_twice, (TWICE,)),
    (identity.judge_twice, (replace(TWICE, processes=None),)),
    (identity.judge_adoption, (ADOPTED,)),
    (identity.judge_release, (RELEASED,)),
    (limits.judge_deadline, (DEADLINE, POLITE, 0.6, 0.4)),
    (limits.judge_stall, (ended(ExitCause.STALLED, -15, 0.7), ended(), 0.6)),
    (limits.judge_memory, (MEMORY, 128 * MIB, Keeper.KERNEL)),
    (limits.judge_memory, (replace(MEMORY, held_bytes=200 * MIB), 128 * MIB, Keeper.WATCHER)),
    (limits.judge_processes, (ended(ExitCause.TOO_MANY_PROCESSES, KILLED), "100\n200\n")),
    (limits.judge_cpus, (1.55, 1.5, 1.0)),
    (limits.judge_fill, (FILL, 4 * MIB)),
    (limits.judge_fill, (replace(FILL, exit=ended(code=1), refused=True, wrote_bytes=4 * MIB),
                         4 * MIB)),
    (streams.judge_log, (LOG, 8 << 20, 64 << 10)),
    (streams.judge_flood, (1489, 0.1, ended(), 64 << 10)),
    (streams.judge_reports, ((1, 2, 3), 1)),
    (streams.judge_score, (SCORED,)),
    (streams.judge_answers, (b"[question] answered\n",)),
    (streams.judge_labels, (b"[question] answered\n",)),
    (streams.judge_inputs, (INPUTS,)),
    (network.judge_interfaces, (SHUT,)),
    (network.judge_interfaces, (replace(SHUT, interfaces=()),)),
    (network.judge_loopback, (SHUT,)),
    (network.judge_names, (SHUT,)),
    (network.judge_egress, (LISTED,)),
    (reach.judge_host_files, ((), ())),
    (reach.judge_other_processes, (HIDDEN,)),
    (reach.judge_environment, (ENVIRONMENT, "the secret")),
    (reach.judge_writes, ((), "1 2 3\n")),
    (reach.judge_scratch, (EMPTY,)),
    (trees.judge_tree, (GONE, ExitCause.EXITED)),
    (trees.judge_tree, (INSIDE, ExitCause.EXITED)),
    (claims.judge_gpus, ("looked\n",)),
    (claims.judge_image, (IMAGE, f"docker {IMAGE}")),
    (claims.judge_sandbox, (KEPT,)),
]  # fmt: skip


@pytest.mark.parametrize(("judge", "seen"), GOOD)
def test_what_should_be_is_no_problem(judge: Judge, seen: tuple[Any, ...]) -> None:
    assert judge(*seen) == []


OPEN = Promise(Keeper.NO, "it is not")
BAD: list[tuple[Judge, tuple[Any, ...], str]] = [
    (ends.judge_exit, (ended(code=0), ExitCause.EXITED, 7), "exited with code 0"),
    (ends.judge_exit, (ended(ExitCause.KILLED, 7), ExitCause.EXITED, 7), "told as killed"),
    (ends.judge_measures, (ended(wall_s=0.0), 0.2), "were told as 0.000 s"),
    (ends.judge_measures, (ended(wall_s=60.0), 0.2), "were told as 60.000 s"),
    (ends.judge_measures, (replace(ended(wall_s=0.3), cpu_s=-1.0), 0.2), "processor time"),
    (ends.judge_stop, (ended(), ended(ExitCause.KILLED, KILLED), 0.5), "told as exited"),
    (ends.judge_stop, (STOPPED, ended(), 0.5), "ignored the request ended as exited"),
    (ends.judge_stop, (STOPPED, ended(ExitCause.KILLED, KILLED, 0.1), 0.5), "0.10 s of 0.5 s"),
    (ends.judge_kill, (replace(KILL, refused=(False, True)),), "outputs were given out"),
    (ends.judge_kill, (replace(KILL, refused=(True, False)),), "could be released"),
    (ends.judge_kill, (replace(KILL, first=ended()),), "ended as exited"),
    (ends.judge_kill, (replace(KILL, again=None),), "another way after a second kill"),
    (ends.judge_kill, (replace(KILL, kept=""),), "did not survive"),
    (identity.judge_twice, (replace(TWICE, handles=frozenset({"a", "b"})),), "2 handles"),
    (identity.judge_twice, (replace(TWICE, starts=2),), "started 2 times"),
    (identity.judge_twice, (replace(TWICE, starts=0),), "started 0 times"),
    (identity.judge_twice, (replace(TWICE, processes=2),), "2 processes of it ran at once"),
    (identity.judge_twice, (replace(TWICE, listed=2),), "its name 2 times"),
    (identity.judge_twice, (replace(TWICE, strangers=("x",)),), "nobody launched: x"),
    (identity.judge_adoption, (replace(ADOPTED, listed=None),), "does not have it"),
    (identity.judge_adoption, (replace(ADOPTED, listed=False),), "as ended while it runs"),
    (identity.judge_adoption, (replace(ADOPTED, ended_early=ended()),), "while it ran"),
    (identity.judge_adoption, (replace(ADOPTED, steps=(2,)),), "saw (2,)"),
    (identity.judge_adoption, (replace(ADOPTED, first_exit=None),), "differently"),
    (identity.judge_adoption, (replace(ADOPTED, exit=ended()),), "told as exited"),
    (identity.judge_release, (replace(RELEASED, listed_before=False),), "does not have an ended"),
    (identity.judge_release, (replace(RELEASED, listed_after=True),), "still has it"),
    (identity.judge_release, (replace(RELEASED, cause_after=None),), "observe says None"),
    (identity.judge_release, (replace(RELEASED, log_after=""),), "log was not kept"),
    (identity.judge_release, (replace(RELEASED, left=("/x",)),), "left /x"),
    (identity.judge_release, (replace(RELEASED, unknown=None),), "never was is None"),
    (limits.judge_deadline, (ended(), POLITE, 0.6, 0.4), "deadline ended as exited"),
    (limits.judge_deadline, (replace(DEADLINE, wall_s=9.0), POLITE, 0.6, 0.4), "ran 9.00 s"),
    (limits.judge_deadline, (replace(DEADLINE, wall_s=0.6), POLITE, 0.6, 0.4), "ran 0.60 s"),
    (limits.judge_deadline, (DEADLINE, DEADLINE, 0.6, 0.4), "with code 3"),
    (limits.judge_stall, (ended(), ended(), 0.6), "not as stalled"),
    (limits.judge_stall, (ended(ExitCause.STALLED, -15, 9.0), ended(), 0.6), "ran 9.00 s"),
    (limits.judge_stall, (ended(ExitCause.STALLED), ended(ExitCause.STALLED), 0.6), "stalled"),
    (limits.judge_memory, (replace(MEMORY, unharmed=True), 128 * MIB, Keeper.KERNEL), "unharmed"),
    (limits.judge_memory, (replace(MEMORY, exit=ended(code=0)), 128 * MIB, Keeper.KERNEL),
     "exited with code 0, not as out of memory"),
    (limits.judge_memory, (replace(MEMORY, held_bytes=200 * MIB), 128 * MIB, Keeper.KERNEL),
     "the kernel let it hold 200 MiB"),
    (limits.judge_processes, (ended(), "4300\n4400\nunharmed\n"), "4400 processes at once"),
    (limits.judge_cpus, (2.9, 1.5, 1.0), "used 1.93"),
    (limits.judge_fill, (replace(FILL, unharmed=True, wrote_bytes=64 * MIB), 4 * MIB), "64 MiB"),
    (limits.judge_fill, (replace(FILL, exit=ended()), 4 * MIB), "told as exited"),
    (streams.judge_log, (LOG[9:], 8 << 20, 64 << 10), "head of its log is gone"),
    (streams.judge_log, (LOG[:-9], 8 << 20, 64 << 10), "tail of its log is gone"),
    (streams.judge_log, (LOG * 3, 8 << 20, 64 << 10), "bytes of its log are kept"),
    (streams.judge_log, (LOG, 40_000, 64 << 10), "said to have logged 40000"),
    (streams.judge_flood, (180_000, 0.1, ended(), 64 << 10), "180000 values"),
    (streams.judge_flood, (0, 0.1, ended(), 64 << 10), "no value"),
    (streams.judge_flood, (1000, 60.0, ended(), 64 << 10), "60.0 s"),
    (streams.judge_flood, (1000, 0.1, ended(ExitCause.LOST), 64 << 10), "ended as lost"),
    (streams.judge_reports, ((1, 3), 1), "(1, 3) came"),
    (streams.judge_reports, ((1, 2, 3), 0), "0 were rejected"),
    (streams.judge_score, (replace(SCORED, score=b'{"x": 1.0}\n'),), "was read as"),
    (streams.judge_score, (replace(SCORED, long_score=SCORE_BYTES * 2),), "too long"),
    (streams.judge_score, (replace(SCORED, train_log="3\n"),), "found a score channel"),
    (streams.judge_score, (replace(SCORED, train_score=b"1"),), "has a score"),
    (streams.judge_answers, (b"\n",), "as the candidate's answer"),
    (streams.judge_labels, (b"the label\n",), "read the evaluator's inputs"),
    (streams.judge_inputs, ([],), "gave []"),
    (network.judge_interfaces, (replace(SHUT, interfaces=("eth0", "lo")),), "eth0"),
    (network.judge_interfaces, (replace(SHUT, routes=1),), "1 routes"),
    (network.judge_loopback, (replace(SHUT, reached=("udp",)),), "udp"),
    (network.judge_names, (replace(SHUT, resolved="192.0.2.1"),), "192.0.2.1"),
    (network.judge_egress, (replace(LISTED, has_proxy=False),), "finds no proxy"),
    (network.judge_egress, (replace(LISTED, passed=("127.0.0.1:1",)),), "passed on 127.0.0.1:1"),
    (network.judge_egress, (replace(LISTED, reached=("127.0.0.1",)),), "listeners: 127.0.0.1"),
    (network.judge_egress, (replace(LISTED, refusals=()),), "is not recorded"),
    (reach.judge_host_files, (("/proc/9/root/x",), ()), "/proc/9/root/x"),
    (reach.judge_host_files, ((), ("/srv/arl",)), "can list ARL's own directory /srv/arl"),
    (reach.judge_other_processes, (replace(HIDDEN, seen=1),), "sees a process"),
    (reach.judge_other_processes, (replace(HIDDEN, signalled=True),), "sees a process"),
    (reach.judge_other_processes, (replace(HIDDEN, secrets=1),), "the controller's secret"),
    (reach.judge_other_processes, (replace(HIDDEN, alive=False),), "died of it"),
    (reach.judge_environment, ({"X": "a the secret"}, "the secret"), "secret in X"),
    (reach.judge_environment, ({"ARL_HOME": "/x"}, "the secret"), "variables ARL_HOME"),
    (reach.judge_environment, ({"ARL_SCORE_FD": "3"}, "the secret"), "ARL_SCORE_FD"),
    (reach.judge_writes, (("/usr",), "1 2 3\n"), "changed /usr"),
    (reach.judge_writes, ((), "changed\n"), "now holds"),
    (reach.judge_scratch, (replace(EMPTY, used=("/tmp",)),), "not empty at the start: /tmp"),
    (reach.judge_scratch, (replace(EMPTY, beside=("/dev/shm",)),), "another attempt's files"),
    (reach.judge_scratch, (replace(EMPTY, after=("/tmp",)),), "an earlier attempt left"),
    (trees.judge_tree, (GONE, ExitCause.KILLED), "not as killed"),
    (trees.judge_tree, (replace(GONE, alive=2), ExitCause.EXITED), "2 processes of it live on"),
    (trees.judge_tree, (replace(GONE, growing=("beat-daemon",)), ExitCause.EXITED), "daemon"),
    (trees.judge_tree, (replace(GONE, last_beats=()), ExitCause.EXITED), "child, daemon, session"),
    (trees.judge_tree, (replace(INSIDE, last_beats=(*GONE.last_beats, ("beat-child", 3.0))),
                        ExitCause.EXITED), "wrote after its end was told: child"),
    (claims.judge_gpus, ("gpu /dev/nvidia0\nlooked\n",), "/dev/nvidia0"),
    (claims.judge_image, ("python:3.11", "python:3.11"), "no digest"),
    (claims.judge_image, (IMAGE, "CPython 3.11"), "does not name"),
    (claims.judge_sandbox, ({**KEPT, Subject.NETWORK: OPEN},), "does not promise network"),
]  # fmt: skip


@pytest.mark.parametrize(("judge", "seen", "words"), BAD)
def test_what_should_not_be_is_named(judge: Judge, seen: tuple[Any, ...], words: str) -> None:
    assert words in "; ".join(judge(*seen))


@pytest.mark.parametrize(
    ("at", "settable", "words"),
    [(100.5, False, ""), (98.0, False, "from ours"), (130.0, False, "from ours"),
     (100.5, True, "can set the clock")],
)  # fmt: skip
def test_a_clock_is_judged_by_the_time_around_the_question(
    at: float, settable: bool, words: str
) -> None:
    problems = reach.judge_clock(at, 100.0, 101.0, settable=settable)
    assert (words in "; ".join(problems)) == bool(problems or not words)
    assert bool(problems) == bool(words)


def test_whatever_is_left_fails_the_whole_run() -> None:
    assert judge_nothing_left([], [], []) == ""
    assert "nobody launched: a" in judge_nothing_left(["a"], [], [])
    assert "still has b" in judge_nothing_left([], ["b"], [])
    assert "mount /x" in judge_nothing_left([], [], ["mount /x"])


def test_every_judge_is_seen_to_fail_and_to_pass() -> None:
    parts = (claims, ends, identity, limits, network, reach, streams, trees)
    judges = {f for part in parts for name, f in vars(part).items() if name.startswith("judge_")}
    judges.discard(reach.judge_clock)
    assert {judge for judge, _ in GOOD} == judges
    assert {judge for judge, _, _ in BAD} == judges
