"""The process that owns one attempt: starts its program, watches it, ends all it left behind,
and records how it ended.

Forked from the supervisor without an exec, so that no interpreter is started per attempt, and
used again for the next one when the last was short: nothing of an attempt is left by then.
Standard library only, and nothing is imported after the fork.
"""

import errno
import json
import os
import select
import signal
import time
from typing import Any, Final, NoReturn

from inner_trials.contract import EXIT_STOPPED
from targets import layout, linux
from targets.program_log import LogWriter
from targets.streams import ScoreWriter, Streams

LOCK_FD: Final = 3
"""Kept open by the supervisor and by every subreaper: while one lives, no successor starts."""
NULL_FD: Final = 4
CHANNEL_FD: Final = 5
"""Of the subreaper, to its supervisor: RUN (and the attempt's name), STOP and KILL come in, IDLE
or LEAVING go out. Its end means that the supervisor died."""

RUN: Final = b"run "
STOP: Final = b"stop"
KILL: Final = b"kill"
IDLE: Final = b"idle"
"""The attempt's end is recorded; ready for the next."""
LEAVING: Final = b"leaving"
"""The attempt's end is recorded; will leave."""

BLOCKED_SIGNALS: Final = frozenset({signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
_RESET_SIGNALS: Final = (signal.SIGPIPE, signal.SIGXFSZ)
"""The two that Python ignores; a program must find them as usual."""
_MESSAGE_BYTES: Final = 4096
_MEMORY_CHECK_S: Final = 0.5
_STALL_CHECKS: Final = 8
_DURABLE_FROM_S: Final = 1.0
"""From this wall time on an ending is synced to disk: a shorter attempt is cheaper to redo."""
_ATTEMPTS_EACH: Final = 1000
_RECORD_TRIES: Final = 120
_RECORD_RETRY_S: Final = 0.5
_NEVER: Final = float("inf")

Launch = dict[str, Any]
"""The content of launch.json, see targets.workspace."""


def serve_attempts(attempts: str, boot: str) -> NoReturn:
    """Run the attempts whose names come in over the channel, one after the other. Never returns.

    Call it in a process just forked from the supervisor, with BLOCKED_SIGNALS blocked and every
    descriptor closed that is not a standard one or named above.
    """
    code = 1
    try:
        linux.adopt_orphans()
        os.setsid()
        signals = linux.open_signalfd({signal.SIGCHLD})
        for left in reversed(range(_ATTEMPTS_EACH)):
            message = os.read(CHANNEL_FD, _MESSAGE_BYTES)
            while message and not message.startswith(RUN):  # meant for the one that just ended
                message = os.read(CHANNEL_FD, _MESSAGE_BYTES)
            if not message:
                break
            attempt = Attempt(f"{attempts}/{message[len(RUN) :].decode()}", boot, signals)
            attempt.run()
            is_long = attempt.wall_s >= _DURABLE_FROM_S
            try:
                os.write(CHANNEL_FD, LEAVING if is_long or not left else IDLE)
            except BrokenPipeError:
                break  # the supervisor died; the end is recorded all the same
            if is_long:
                attempt.make_durable()
                break
            attempt.close()
        code = 0
    except BaseException as error:  # noqa: BLE001 - a fork must never run its parent's code
        for _ in linux.end_children(os.getpid()):
            pass
        os.write(2, layout.one_line(f"subreaper {os.getpid()}: {error!r}").encode() + b"\n")
    os._exit(code)


class Attempt:
    """One attempt from its start to its recorded end."""

    def __init__(self, directory: str, boot: str, signals: int) -> None:
        self._directory = directory
        self._boot = boot
        self._signals = signals
        self._pid = os.getpid()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._record_fd = os.open(f"{directory}/{layout.RECORD}", flags)
        self._launch: Launch = {}
        self._poll = select.poll()
        self._poll.register(signals, select.POLLIN)
        self._poll.register(CHANNEL_FD, select.POLLIN)
        self._streams = Streams(self._poll)
        self._logs: list[LogWriter] = []
        self._score: ScoreWriter | None = None
        self._program = 0
        self._status: int | None = None
        self._cause: str | None = None
        self._stop_asked = False
        self._cpu_s = 0.0
        self._max_rss_bytes = 0
        self._started_at = time.monotonic()
        self._deadline = self._kill_at = self._memory_check_at = self._stall_check_at = _NEVER
        self._activity_at = self._started_at
        self._activity: tuple[int, ...] = ()
        self.wall_s = 0.0

    def run(self) -> None:
        """Start it, watch it, end what it left, and record how it ended."""
        failure = self._start()
        if failure is None:
            self._watch()
        for pid, status, usage in linux.end_children(self._pid):
            self._count(pid, status, usage)
        self._streams.drain()
        self._record(failure)

    def make_durable(self) -> None:
        """Sync what the attempt wrote, then say so in its record."""
        if linux.sync_file_system(self._record_fd):
            layout.append_fact(self._record_fd, {"durable": True})

    def close(self) -> None:
        for log in self._logs:
            log.close()
        if self._score is not None:
            self._score.close()
        os.close(self._record_fd)

    # starting

    def _start(self) -> str | None:
        """Start the program, and the answerer before it; why it could not be, or None."""
        given: list[int] = []
        try:
            with open(f"{self._directory}/{layout.LAUNCH}", "rb", buffering=0) as file:
                self._launch = json.loads(file.read())
            self._program = self._spawn(self._launch, self._connect(given))
        except OSError as error:
            return layout.one_line(f"cannot run {error.filename or 'it'}: {error.strerror}")
        except ValueError as error:
            return layout.one_line(f"its launch file is damaged: {error}")
        finally:
            for descriptor in given:
                os.close(descriptor)
            os.chdir("/")
        start = layout.process_start(self._program)
        layout.append_fact(self._record_fd, {"program": [self._program, start]})
        self._set_timers()
        return None

    def _connect(self, given: list[int]) -> list[tuple[int, int]]:
        """The descriptors of the program, as (ours, its number); those to close after the start
        are added to `given`."""
        output = self._streams.add(self._open_log(layout.LOG).write, given)
        places = [(NULL_FD, 0), (output, 1), (output, 2)]
        if self._launch["score"]:
            self._score = ScoreWriter(f"{self._directory}/{layout.SCORE}")
            places.append((self._streams.add(self._score.write, given), layout.SCORE_FD))
        answerer = self._launch["answerer"]
        if answerer is not None:
            questions, answers = self._start_answerer(answerer, given)
            places += [(questions, layout.ASK_FD), (answers, layout.ANSWER_FD)]
        return places

    def _open_log(self, name: str) -> LogWriter:
        log = LogWriter(f"{self._directory}/{name}", self._launch["log_bytes"])
        self._logs.append(log)
        return log

    def _start_answerer(self, answerer: Launch, given: list[int]) -> tuple[int, int]:
        """Start the candidate's program with its stdin and stdout on two new pipes; the
        evaluator's ends of them: where it asks and where it reads answers."""
        questions_out, questions_in = os.pipe()
        answers_out, answers_in = os.pipe()
        given += (questions_out, questions_in, answers_out, answers_in)
        errors = self._streams.add(self._open_log(layout.ANSWERER_LOG).write, given)
        self._spawn(answerer, [(questions_out, 0), (answers_in, 1), (errors, 2)])
        return questions_in, answers_out

    def _spawn(self, program: Launch, places: list[tuple[int, int]]) -> int:
        """Start a program in a session of its own with exactly the descriptors in `places`."""
        argv = program["argv"]
        if program["missing"]:
            raise FileNotFoundError(errno.ENOENT, "command not found", argv[0])
        os.chdir(program["cwd"])
        pid = os.posix_spawn(
            argv[0],
            argv,
            program["env"],
            file_actions=[(os.POSIX_SPAWN_DUP2, source, to) for source, to in places],
            setsid=True,
            setsigmask=(),
            setsigdef=_RESET_SIGNALS,
        )
        linux.prefer_as_memory_victim(pid)
        return pid

    def _set_timers(self) -> None:
        launch = self._launch
        self._deadline = self._started_at + launch["timeout_s"]
        if launch["memory_bytes"] is not None:
            self._memory_check_at = self._started_at + _MEMORY_CHECK_S
        if launch["stall_s"] is not None:
            self._stall_check_at = self._started_at + launch["stall_s"] / _STALL_CHECKS

    # watching

    def _watch(self) -> None:
        """Until the program ended by itself or was ended."""
        while self._status is None:
            now = time.monotonic()
            due = min(self._deadline, self._kill_at, self._memory_check_at, self._stall_check_at)
            for descriptor, _ in self._poll.poll(max(due - now, 0.0) * 1000):
                if descriptor == self._signals:
                    self._on_child_end()
                elif descriptor == CHANNEL_FD:
                    self._on_message()
                else:
                    self._streams.pump(descriptor)
            if time.monotonic() >= due:
                self._on_timers(time.monotonic())

    def _on_child_end(self) -> None:
        linux.read_signals(self._signals)
        for pid, status, usage in linux.reap_ready():
            self._count(pid, status, usage)

    def _count(self, pid: int, status: int, usage: linux.Usage) -> None:
        """Note what a reaped process used, and the program's end when it was that."""
        self._cpu_s += usage.ru_utime + usage.ru_stime
        self._max_rss_bytes = max(self._max_rss_bytes, usage.ru_maxrss * 1024)
        if pid == self._program:
            self._status = os.waitstatus_to_exitcode(status)
            self.wall_s = time.monotonic() - self._started_at

    def _on_message(self) -> None:
        message = os.read(CHANNEL_FD, _MESSAGE_BYTES)
        if self._status is not None:
            return
        if message == KILL:
            self._end("killed")
        elif message == STOP and not self._stop_asked:
            self._stop_asked = True
            self._kill_at = min(self._kill_at, time.monotonic() + self._launch["grace_s"])
        elif not message:
            # The supervisor died.
            self._poll.unregister(CHANNEL_FD)
            self._end("lost")

    def _end(self, cause: str) -> None:
        """Kill the program now; what it left is ended once it is gone. The first cause counts."""
        self._cause = self._cause or cause
        self._kill_at = _NEVER
        self._signal_program(signal.SIGKILL)

    def _ask_to_end(self, cause: str, now: float) -> None:
        """SIGTERM now, SIGKILL after the grace period."""
        self._cause = self._cause or cause
        self._stall_check_at = self._deadline = _NEVER
        self._kill_at = min(self._kill_at, now + self._launch["grace_s"])
        self._signal_program(signal.SIGTERM)

    def _signal_program(self, number: int) -> None:
        # The program is not reaped yet, so neither its pid nor its group can be anybody else's.
        try:
            os.killpg(self._program, number)
        except OSError:
            linux.signal_process(self._program, number)

    def _on_timers(self, now: float) -> None:
        if self._status is not None:
            return
        if now >= self._kill_at:
            self._end("killed")
        elif now >= self._deadline:
            self._ask_to_end("deadline", now)
        if now >= self._memory_check_at:
            self._memory_check_at = now + _MEMORY_CHECK_S
            if linux.memory_below(self._pid) > self._launch["memory_bytes"]:
                self._end("out_of_memory")
        if now >= self._stall_check_at:
            self._check_stall(now)

    def _check_stall(self, now: float) -> None:
        try:
            reports = os.stat(f"{self._directory}/{layout.REPORTS}")
            activity = (reports.st_size, reports.st_mtime_ns, *(log.total for log in self._logs))
        except OSError:
            activity = tuple(log.total for log in self._logs)
        stall_s = self._launch["stall_s"]
        self._stall_check_at = now + stall_s / _STALL_CHECKS
        if activity != self._activity:
            self._activity = activity
            self._activity_at = now
        elif now - self._activity_at >= stall_s:
            self._ask_to_end("stalled", now)

    # the end

    def _record(self, failure: str | None) -> None:
        trouble = self._score.trouble if self._score is not None else ""
        exit_fact = {
            "cause": self._final_cause(failure, trouble),
            "code": self._status,
            "detail": self._detail(failure, trouble),
            "wall_s": round(self.wall_s, 6),
            "cpu_s": round(self._cpu_s, 6),
            "max_rss_bytes": self._max_rss_bytes,
            "boot": self._boot,
        }
        _append_surely(self._record_fd, {"exit": exit_fact})

    def _final_cause(self, failure: str | None, trouble: str) -> str:
        if failure is not None:
            return "launch_failed"
        if trouble:
            return "lost"
        if self._cause is not None:
            return self._cause
        stopped = self._stop_asked and self._status == EXIT_STOPPED
        return "stopped" if stopped else "exited"

    def _detail(self, failure: str | None, trouble: str) -> str:
        parts = [part for part in (failure, trouble) if part]
        if self._status is not None and self._status < 0:
            parts.append(f"killed by {_signal_name(-self._status)}")
        lost = sum(log.lost for log in self._logs)
        if lost:
            parts.append(f"{lost} bytes of its log were lost to a full disk")
        return "; ".join(parts)


def _append_surely(descriptor: int, fact: layout.Fact) -> None:
    """Record the end even if the disk is full for a while (it fits the record's own block, so
    that is rare); when it stays full, the supervisor finds no end and says lost."""
    for _ in range(_RECORD_TRIES):
        try:
            layout.append_fact(descriptor, fact)
            return
        except OSError:
            time.sleep(_RECORD_RETRY_S)
    raise OSError(errno.ENOSPC, "no space for the attempt's record")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
