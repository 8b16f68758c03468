"""The process that owns one attempt: starts its program, watches it, ends all it left behind,
and records how it ended.

Forked from the supervisor without an exec, so that no interpreter is started per attempt, and
used again for the next one when the last was short: nothing of an attempt is left by then.
Standard library only, and nothing is imported after the fork.
"""

import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Final, NoReturn

from inner_trials.contract import EXIT_STOPPED
from targets import layout, linux, spawning
from targets.egress.child import ProxyChild
from targets.enclosed import Enclosed
from targets.program_log import LogWriter
from targets.streams import ScoreWriter, Streams
from targets.watchdog import Watchdog

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
_DURABLE_FROM_S: Final = 1.0
"""From this wall time on an ending is synced to disk: a shorter attempt is cheaper to redo."""
_ATTEMPTS_EACH: Final = 1000
_LONGEST_POLL_S: Final = 3600.0
_NEVER: Final = float("inf")


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
            message = linux.read_message(CHANNEL_FD)
            if not message:
                break
            if not message.startswith(RUN):
                continue  # meant for the attempt that just ended
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
        self._launch: spawning.Launch = {}
        self._poll = select.poll()
        self._poll.register(signals, select.POLLIN)
        self._poll.register(CHANNEL_FD, select.POLLIN)
        self._streams = Streams(self._poll)
        self._logs: list[LogWriter] = []
        self._score: ScoreWriter | None = None
        self._enclosed: Enclosed | None = None
        self._proxy = ProxyChild()
        self._program = 0
        self._status: int | None = None
        self._cause: str | None = None
        self._stop_asked = False
        self._cpu_s = 0.0
        self._max_rss_bytes = 0
        self._started_at = time.monotonic()
        self._deadline = self._kill_at = _NEVER
        self.wall_s = 0.0

    def run(self) -> None:
        """Start it, watch it, end what it left, and record how it ended."""
        failure = self._start()
        if failure is None:
            self._watch()
            while CHANNEL_FD in dict(self._poll.poll(0)):  # was it asked for just before?
                self._on_message()
        self._proxy.end()
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
            self._program = self._spawn(given)
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
        self._deadline = self._started_at + self._launch["timeout_s"]
        self._watchdog = Watchdog(self._directory, self._launch, self._logs, self._started_at)
        self._watchdog.apart = self._proxy.pid
        return None

    def _spawn(self, given: list[int]) -> int:
        """The program's pid. Our copies of the descriptors it was given are in `given`."""
        launch, directory = self._launch, self._directory
        output = self._streams.add(self._open_log(layout.LOG), given)
        places = [(NULL_FD, 0), (output, 1), (output, 2)]
        if launch["score"]:
            self._score = ScoreWriter(f"{directory}/{layout.SCORE}")
            places.append((self._streams.add(self._score.write, given), layout.SCORE_FD))
        if launch.get("sandboxed"):
            self._enclosed = Enclosed(directory, launch.get("cgroups", []))
            places.append((self._streams.add(self._enclosed.write, given), layout.STATUS_FD))
        self._proxy.start(launch, NULL_FD)
        if launch["answerer"] is not None:
            errors = self._streams.add(self._open_log(layout.ANSWERER_LOG), given)
            places += spawning.start_answerer(launch["answerer"], errors, given)
        return spawning.spawn(launch, places)

    def _open_log(self, name: str) -> Callable[[bytes], None]:
        log = LogWriter(f"{self._directory}/{name}", self._launch["log_bytes"])
        self._logs.append(log)
        return log.write

    # watching

    def _watch(self) -> None:
        """Until the program ended by itself or was ended."""
        while self._status is None:
            now = time.monotonic()
            due = min(self._deadline, self._kill_at, self._watchdog.due_at())
            for descriptor, _ in self._poll.poll(min(max(due - now, 0.0), _LONGEST_POLL_S) * 1000):
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
        if self._proxy.trouble:
            self._end("lost")

    def _count(self, pid: int, status: int, usage: linux.Usage) -> None:
        """Note what a reaped process used, and the program's end when it was that."""
        if self._proxy.has_ended(pid):
            return
        self._cpu_s += usage.ru_utime + usage.ru_stime
        self._max_rss_bytes = max(self._max_rss_bytes, usage.ru_maxrss * 1024)
        if pid == self._program:
            self._status = os.waitstatus_to_exitcode(status)
            self.wall_s = time.monotonic() - self._started_at

    def _on_message(self) -> None:
        message = linux.read_message(CHANNEL_FD)
        if not message:  # the supervisor died
            self._poll.unregister(CHANNEL_FD)
            self._end("lost")
        elif message == KILL:
            self._end("killed")
        elif message == STOP and not self._stop_asked:
            self._stop_asked = True
            self._kill_at = min(self._kill_at, time.monotonic() + self._launch["grace_s"])

    def _end(self, cause: str) -> None:
        """Kill the program now; what it left is ended once it is gone. The first cause counts."""
        if self._status is not None:
            return
        self._cause = self._cause or cause
        self._kill_at = _NEVER
        linux.signal_group(self._program, signal.SIGKILL)
        if self._enclosed is not None:
            self._enclosed.let_die()

    def _ask_to_end(self, cause: str, now: float) -> None:
        """SIGTERM now, SIGKILL after the grace period."""
        self._cause = self._cause or cause
        self._deadline = _NEVER
        self._kill_at = min(self._kill_at, now + self._launch["grace_s"])
        if self._enclosed is not None:
            self._enclosed.ask_to_end(self._program)
        else:
            linux.signal_group(self._program, signal.SIGTERM)

    def _on_timers(self, now: float) -> None:
        if self._status is not None:
            return
        if now >= self._kill_at:
            self._end("killed")
        elif now >= self._deadline:
            self._ask_to_end("deadline", now)
        excess = self._watchdog.find_excess(now)
        if excess is not None:
            self._end(excess)
        if self._kill_at == _NEVER and self._watchdog.is_stalled(now):
            self._ask_to_end("stalled", now)

    # the end

    def _record(self, failure: str | None) -> None:
        trouble = self._score.trouble if self._score is not None else ""
        if self._enclosed is not None:
            self._status, unrun, unmade, why = self._enclosed.conclude(self._status)
            failure, trouble = failure or unrun, unmade or trouble
            self._cause = self._cause or why
        if failure is None and self._cause is None:
            self._cause = self._watchdog.find_last_excess(self._status)
        cause = self._cause or "exited"
        if failure is not None:
            cause = "launch_failed"
        elif trouble:
            cause = "lost"
        elif self._cause is None and self._stop_asked and self._status == EXIT_STOPPED:
            cause = "stopped"
        lost = sum(log.lost for log in self._logs)
        details = (
            failure or self._watchdog.detail,
            trouble or self._proxy.trouble,
            linux.signal_text(self._status),
            f"{lost} bytes of its log were lost to a full disk" if lost else "",
        )
        exit_fact = {
            "cause": cause,
            "code": self._status,
            "detail": "; ".join(detail for detail in details if detail),
            "wall_s": round(self.wall_s, 6),
            "cpu_s": round(self._cpu_s, 6),
            "max_rss_bytes": self._max_rss_bytes,
            "boot": self._boot,
        }
        layout.append_fact_surely(self._record_fd, {"exit": exit_fact})
