"""The process that owns one attempt: starts its program, watches it, ends all it left behind,
and records how it ended.

Forked from the supervisor without an exec, so that no interpreter is started per attempt.
Standard library only, and nothing is imported after the fork.
"""

import errno
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from typing import Any, Final, NoReturn

from inner_trials.contract import EXIT_STOPPED, SCORE_BYTES
from targets import layout, linux
from targets.program_log import LogWriter

LOCK_FD: Final = 3
"""Kept open by the supervisor and by every subreaper: while one lives, no successor starts."""
EVENT_FD: Final = 4
NULL_FD: Final = 5
RECORD_FD: Final = 6

BLOCKED_SIGNALS: Final = frozenset(
    {signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT}
)
KILL_SIGNAL: Final = signal.SIGTERM
STOP_SIGNAL: Final = signal.SIGUSR1
ORPHANED_SIGNAL: Final = signal.SIGHUP

_RESET_SIGNALS: Final = (signal.SIGPIPE, signal.SIGXFSZ)
"""The two that Python ignores; a program must find them as usual."""
_PIECE_BYTES: Final = 64 * 1024
_MEMORY_CHECK_S: Final = 0.5
_STALL_CHECKS: Final = 8
_DURABLE_FROM_S: Final = 1.0
"""From this wall time on an ending is synced to disk: a shorter attempt is cheaper to redo."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_RECORD_TRIES: Final = 120
_RECORD_RETRY_S: Final = 0.5
_NEVER: Final = float("inf")

Launch = dict[str, Any]
"""The content of launch.json, see targets.workspace."""


def become_subreaper(attempt: str, launch: Launch, boot: str, supervisor: int) -> NoReturn:
    """Run the attempt in directory `attempt` to its end, then leave. Never returns.

    Call it in a process just forked from `supervisor`, with BLOCKED_SIGNALS blocked, RECORD_FD
    open on the attempt's record, and every descriptor from 7 on closed.
    """
    code = 0
    try:
        linux.signal_when_parent_dies(ORPHANED_SIGNAL)
        linux.adopt_orphans()
        os.setsid()
        if os.getppid() != supervisor:
            os._exit(code)  # it died just now; with no fact recorded, this attempt never started
        Subreaper(attempt, launch, boot, supervisor).run()
    except BaseException as error:  # noqa: BLE001 - a fork must not run the supervisor's code
        code = 1
        linux.end_children(os.getpid())
        os.write(2, layout.one_line(f"subreaper of {attempt}: {error!r}").encode() + b"\n")
    os._exit(code)


class Subreaper:
    def __init__(self, attempt: str, launch: Launch, boot: str, supervisor: int) -> None:
        self._attempt = attempt
        self._launch = launch
        self._boot = boot
        self._pid = os.getpid()
        self._supervisor = supervisor
        self._poll = select.poll()
        self._sinks: dict[int, Callable[[bytes], None]] = {}
        self._logs: list[LogWriter] = []
        self._score_fd = -1
        self._score_bytes = 0
        self._trouble = ""
        self._program = 0
        self._status: int | None = None
        self._cause: str | None = None
        self._stop_asked = False
        self._ended_at = 0.0
        self._started_at = time.monotonic()
        self._deadline = self._started_at + launch["timeout_s"]
        self._kill_at = _NEVER
        self._memory_check_at = _NEVER
        self._stall_check_at = _NEVER
        self._activity_at = self._started_at
        self._activity: tuple[int, ...] = ()

    def run(self) -> None:
        layout.append_fact(RECORD_FD, {"subreaper": [self._pid, layout.process_start(self._pid)]})
        self._signals = linux.open_signalfd(BLOCKED_SIGNALS)
        self._poll.register(self._signals, select.POLLIN)
        failure = self._start()
        if failure is None:
            self._watch()
        linux.end_children(self._pid)
        self._drain()
        self._record(failure)

    # starting

    def _start(self) -> str | None:
        """Start the program, and the answerer before it; why it could not be, or None."""
        launch = self._launch
        answerer = launch["answerer"]
        mine: list[int] = []
        try:
            output = self._pipe_into(self._open_log(layout.LOG).write, mine)
            places = [(NULL_FD, 0), (output, 1), (output, 2)]
            if launch["score"]:
                places.append((self._pipe_into(self._keep_score, mine), layout.SCORE_FD))
            if answerer is not None:
                questions, answers = self._start_answerer(answerer, mine)
                places += [(questions, layout.ASK_FD), (answers, layout.ANSWER_FD)]
            self._program = self._spawn(launch, places)
        except OSError as error:
            return layout.one_line(f"cannot run {error.filename or 'it'}: {error.strerror}")
        finally:
            for descriptor in mine:
                os.close(descriptor)
        layout.append_fact(
            RECORD_FD, {"program": [self._program, layout.process_start(self._program)]}
        )
        if launch["memory_bytes"] is not None:
            self._memory_check_at = self._started_at + _MEMORY_CHECK_S
        if launch["stall_s"] is not None:
            self._stall_check_at = self._started_at + launch["stall_s"] / _STALL_CHECKS
        return None

    def _open_log(self, name: str) -> LogWriter:
        log = LogWriter(f"{self._attempt}/{name}", self._launch["log_bytes"])
        self._logs.append(log)
        return log

    def _pipe_into(self, sink: Callable[[bytes], None], mine: list[int]) -> int:
        """The writing end of a pipe whose content goes to `sink`."""
        reader, writer = os.pipe()
        mine.append(writer)
        os.set_blocking(reader, False)
        self._sinks[reader] = sink
        self._poll.register(reader, select.POLLIN)
        return writer

    def _start_answerer(self, answerer: Launch, mine: list[int]) -> tuple[int, int]:
        """Start the candidate's program with its stdin and stdout on two new pipes; the
        evaluator's ends of them: where it asks and where it reads answers."""
        questions_out, questions_in = os.pipe()
        answers_out, answers_in = os.pipe()
        mine += (questions_out, questions_in, answers_out, answers_in)
        errors = self._pipe_into(self._open_log(layout.ANSWERER_LOG).write, mine)
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
        try:
            descriptor = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
            os.write(descriptor, b"500")
            os.close(descriptor)
        except OSError:
            pass  # gone already, or a kernel without it; it only orders the victims
        return pid

    # watching

    def _watch(self) -> None:
        """Until the program ended by itself or was ended."""
        while self._status is None:
            now = time.monotonic()
            due = min(self._deadline, self._kill_at, self._memory_check_at, self._stall_check_at)
            for descriptor, _ in self._poll.poll(max(due - now, 0.0) * 1000 + 1):
                if descriptor == self._signals:
                    self._on_signals(linux.read_signals(descriptor))
                else:
                    self._pump(descriptor)
            now = time.monotonic()
            if now >= due:
                self._on_timers(now)

    def _on_signals(self, numbers: set[int]) -> None:
        if signal.SIGCHLD in numbers:
            self._reap()
        if self._status is not None:
            return
        if ORPHANED_SIGNAL in numbers or os.getppid() != self._supervisor:
            self._end("lost")
        if KILL_SIGNAL in numbers:
            self._end("killed")
        if STOP_SIGNAL in numbers and not self._stop_asked:
            self._stop_asked = True
            self._kill_at = min(self._kill_at, time.monotonic() + self._launch["grace_s"])

    def _reap(self) -> None:
        """Note the program's end; orphans it left are reaped on the way."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._program:
                    self._status = os.waitstatus_to_exitcode(status)
                    self._ended_at = time.monotonic()
        except ChildProcessError:
            return

    def _end(self, cause: str) -> None:
        """Kill the program now; what it left is ended once it is gone. The first cause counts."""
        self._cause = self._cause or cause
        self._kill_at = _NEVER
        self._signal_program(signal.SIGKILL)

    def _signal_program(self, number: int) -> None:
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
            self._deadline = _NEVER
            self._ask_to_end("deadline", now)
        if now >= self._memory_check_at:
            self._memory_check_at = now + _MEMORY_CHECK_S
            if self._memory_used() > self._launch["memory_bytes"]:
                self._end("out_of_memory")
        if now >= self._stall_check_at:
            self._check_stall(now)

    def _ask_to_end(self, cause: str, now: float) -> None:
        """SIGTERM now, SIGKILL after the grace period."""
        self._cause = self._cause or cause
        self._stall_check_at = _NEVER
        self._kill_at = min(self._kill_at, now + self._launch["grace_s"])
        self._signal_program(signal.SIGTERM)

    def _check_stall(self, now: float) -> None:
        try:
            reports = os.stat(f"{self._attempt}/{layout.REPORTS}")
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

    def _memory_used(self) -> int:
        """Bytes held by the whole tree: what each has for itself, and the largest shared part
        once, since shared pages are counted in every process that maps them."""
        private = shared = 0
        for pid in linux.descendants_of(self._pid):
            try:
                with open(f"/proc/{pid}/statm", "rb") as file:
                    resident_pages, shared_pages = map(int, file.read().split()[1:3])
            except OSError:
                continue
            private += resident_pages - shared_pages
            shared = max(shared, shared_pages)
        return (private + shared) * _PAGE_BYTES

    # its output

    def _pump(self, descriptor: int) -> bool:
        """Move what is waiting to its sink; False once there is nothing (more)."""
        try:
            data = os.read(descriptor, _PIECE_BYTES)
        except BlockingIOError:
            return False
        if data:
            self._sinks[descriptor](data)
            return True
        self._poll.unregister(descriptor)
        os.close(descriptor)
        del self._sinks[descriptor]
        return False

    def _keep_score(self, data: bytes) -> None:
        data = data[: SCORE_BYTES + 1 - self._score_bytes]
        if not data:
            return
        try:
            if self._score_fd < 0:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
                self._score_fd = os.open(f"{self._attempt}/{layout.SCORE}", flags, 0o600)
            self._score_bytes += os.write(self._score_fd, data)
        except OSError as error:
            self._trouble = f"its score could not be stored: {error.strerror}"

    def _drain(self) -> None:
        """Take what is left in the pipes, now that nobody of the attempt can write."""
        for descriptor in list(self._sinks):
            while self._pump(descriptor):
                pass
        for log in self._logs:
            log.close()

    # the end

    def _record(self, failure: str | None) -> None:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        wall_s = self._ended_at - self._started_at if self._ended_at else 0.0
        fact = {
            "exit": {
                "cause": self._final_cause(failure),
                "code": self._status,
                "detail": failure if failure is not None else self._detail(),
                "wall_s": round(wall_s, 6),
                "cpu_s": round(usage.ru_utime + usage.ru_stime, 6),
                "max_rss_bytes": usage.ru_maxrss * 1024,
                "boot": self._boot,
            }
        }
        _append_surely(fact)
        os.write(EVENT_FD, f"{os.path.basename(self._attempt)}\n".encode())
        if wall_s >= _DURABLE_FROM_S and linux.sync_file_system(RECORD_FD):
            layout.append_fact(RECORD_FD, {"durable": True})

    def _final_cause(self, failure: str | None) -> str:
        if failure is not None:
            return "launch_failed"
        if self._trouble:
            return "lost"
        if self._cause is not None:
            return self._cause
        stopped = self._stop_asked and self._status == EXIT_STOPPED
        return "stopped" if stopped else "exited"

    def _detail(self) -> str:
        parts = [self._trouble] if self._trouble else []
        if self._status is not None and self._status < 0:
            parts.append(f"killed by {_signal_name(-self._status)}")
        lost = sum(log.lost for log in self._logs)
        if lost:
            parts.append(f"{lost} bytes of its log were lost to a full disk")
        return "; ".join(parts)


def _append_surely(fact: layout.Fact) -> None:
    """Record the end even if the disk is full for a while (it fits the record's own block, so
    that is rare); when it stays full, the supervisor finds no end and says lost."""
    for _ in range(_RECORD_TRIES):
        try:
            layout.append_fact(RECORD_FD, fact)
            return
        except OSError:
            time.sleep(_RECORD_RETRY_S)
    raise OSError(errno.ENOSPC, "no space for the attempt's record")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
