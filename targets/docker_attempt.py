"""One attempt in its containers, from its start or its adoption to its recorded end: a thread of
the keeper."""

import json
import os
import signal
import threading
import time
from typing import Final

from targets import docker_turns, layout, linux
from targets.docker_body import CANNOT_EXECUTE
from targets.docker_box import Box, BoxLog
from targets.docker_calls import Refusal, Trouble
from targets.docker_containment import NETWORK
from targets.docker_events import is_certain
from targets.docker_making import Making, Unmade, Unwanted
from targets.docker_network import Network
from targets.docker_surroundings import Surroundings
from targets.docker_turns import Message, Turns
from targets.docker_usage import Usage
from targets.docker_verdict import Seen, code_of, judge
from targets.docker_watch import BoxWatch
from targets.program_log import read_log
from targets.spawning import Launch

_NEVER: Final = float("inf")
_LOOK_AGAIN_S: Final = 2.0
_EVENT_PATIENCE_S: Final = 3.0
"""From the end of a container's first process to the engine's word of it; then it is asked."""
_KILL_PATIENCE_S: Final = 5.0
_LOG_PATIENCE_S: Final = 3.0
_DURABLE_FROM_S: Final = 1.0
_LINE_BYTES: Final = 2000


class Attempt(threading.Thread):
    """Post it the messages of targets.docker_turns."""

    def __init__(self, name: str, around: Surroundings) -> None:
        super().__init__(name=name, daemon=True)
        self.attempt = name
        self._around = around
        self._directory = f"{around.attempts}/{name}"
        self._turns = Turns(self._on_message)
        self.post = self._turns.post
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._record_fd = os.open(f"{self._directory}/{layout.RECORD}", flags)
        self._facts = layout.read_record(self._directory) or {}
        self._making = Making(around, self._turns, lambda: self._seen.asked is None)
        self._launch: Launch = {}
        self._boxes: list[Box] = []
        """The attempt's own first, then the answerer's."""
        self._logs: list[BoxLog] = []
        self._network: Network | None = None
        """Its way out, where it may reach hosts."""
        self._watch: BoxWatch | None = None
        self._seen = Seen(asked=self._facts.get("ending"))
        self._engine: layout.Fact | None = None
        """Which one started it."""
        self._started_at = self._ended_at = 0.0
        self._deadline = self._kill_at = self._look_at = _NEVER
        self._is_started = self._is_over = self._is_deaf = False

    def run(self) -> None:
        try:
            self._live()
        except Exception as error:  # noqa: BLE001 - whatever it was, the attempt must have an end
            self._seen.failure = ("lost", f"its keeper failed: {error!r}")
            self._finish()
        finally:
            self._around.on_end(self.attempt, [box.name for box in self._boxes])
            self._make_durable()
            for box, log in zip(self._boxes, self._logs, strict=True):
                box.close()
                log.close()
            self._turns.close()
            os.close(self._record_fd)

    def _live(self) -> None:
        try:
            self._prepare()
            if "started" in self._facts:
                self._resume()
            else:
                self._start()
            self._follow()
        except Unmade as failure:
            self._seen.failure = (failure.cause, str(failure))
        except Unwanted:
            pass  # it is ended before it ran
        self._finish()

    # starting

    def _prepare(self) -> None:
        try:
            with open(f"{self._directory}/{layout.LAUNCH}", "rb", buffering=0) as file:
                self._launch = json.loads(file.read())
            plans = [self._launch["container"]]
            if self._launch["answerer"] is not None:
                plans.append(self._launch["answerer"]["container"])
        except (OSError, ValueError, KeyError) as error:
            raise Unmade("launch_failed", f"its launch file is damaged: {error!r}") from error
        info = self._making.insist(self._around.find_info)
        if self._launch.get(NETWORK):
            box = Box(self._around.calls, info, self._launch[NETWORK])
            self._network = Network(
                self._making, self._turns, box, self._directory, self._launch["proxy"]
            )
        for plan, log in zip(plans, (layout.LOG, layout.ANSWERER_LOG), strict=False):
            self._boxes.append(Box(self._around.calls, info, plan))
            self._logs.append(BoxLog(f"{self._directory}/{log}", self._launch["log_bytes"]))
        if os.path.exists(f"{self._directory}/{layout.STOP}"):
            self._on_stop()

    def _start(self) -> None:
        if self._network is not None:
            self._network.start(self._note, self._on_network_loss)
        self._making.make(self._directory, self._boxes, self._logs)
        self._making.check_wanted()
        self._engine = self._around.find_identity()
        self._note({"started": time.monotonic(), "engine": self._engine})
        self._is_started = True
        self._making.start(self._boxes)
        self._on_started(time.monotonic())

    def _resume(self) -> None:
        """Follow what an earlier keeper started, or was about to start."""
        self._is_started = True
        for box, log in zip(self._boxes, self._logs, strict=True):
            state = self._making.insist(box.inspect, until_unwanted=False)
            if state is None:
                self._seen.is_gone = self._seen.is_gone or box is self._boxes[0]
                continue
            self._making.attach(box, log, follow=state["Status"] != "exited")
            box.was_tried = True
        if self._seen.is_gone:
            self._is_over = True
            return
        self._engine = self._facts.get("engine")
        if self._network is not None:
            self._network.resume(self._facts.get("proxy"), self._on_network_loss)
        if self._seen.asked is None:
            self._making.start([box for box in self._boxes if box.was_tried])
        self._on_started(self._facts["started"])

    def _on_started(self, at: float) -> None:
        own = self._boxes[0]
        self._started_at = at
        self._look()
        self._started_at = own.begun_at or at
        self._deadline = self._started_at + self._launch["timeout_s"]
        self._watch = BoxWatch(
            self._directory, self._launch, self._logs, time.monotonic(), self._measure
        )
        if self._seen.asked is not None or self._seen.was_told_to_stop:
            self._give_grace()

    # following

    def _follow(self) -> None:
        while not self._is_over and self._watch is not None:
            due = min(self._deadline, self._kill_at, self._look_at, self._watch.due_at())
            self._turns.wait(due)
            now = time.monotonic()
            if now >= self._look_at:
                self._look()
            if now >= due:
                self._on_timers(now, self._watch)

    def _look(self) -> None:
        """Ask the engine how the program is."""
        self._look_at = _NEVER
        own = self._boxes[0]
        try:
            state = own.inspect()
        except (Trouble, Refusal) as trouble:
            self._around.on_trouble(str(trouble))
            self._follow_process(own.find_process())
            self._look_at = time.monotonic() + _LOOK_AGAIN_S
            return
        if state is None or not state["Running"]:
            self._on_end()
            return
        self._find_out_whether_cut_off()
        if self._seen.survives_engine:  # else it ends what it found, in a moment
            self._engine = self._around.find_identity()
        self._listen_again(follow=True)
        self._follow_process(int(state["Pid"]))
        if self._ended_at:
            self._look_at = time.monotonic() + _LOOK_AGAIN_S

    def _follow_process(self, pid: int) -> None:
        own = self._boxes[0]
        if own.watch_process(pid):
            self._turns.add(own.pidfd, self._on_process_end)

    def _on_message(self, message: Message) -> None:
        what, container = message
        if what == docker_turns.KILL:
            self._end("killed")
        elif what == docker_turns.STOP:
            self._on_stop()
        elif what == docker_turns.LOOK and self._is_started:
            self._is_deaf = True
            self._look_at = 0.0
        elif self._boxes and container == self._boxes[0].name:
            self._on_event(what)

    def _find_out_whether_cut_off(self) -> None:
        """Whether another engine has come in place of the one that it ran under."""
        seen, now = self._seen, self._around.find_identity()
        seen.was_cut_off = now != self._engine
        if seen.was_cut_off:
            info = self._making.insist(self._around.calls.info, until_unwanted=False)
            # Where engines cannot be told apart, only what engines do is laid to one.
            seen.survives_engine = bool(info.get("LiveRestoreEnabled")) or not is_certain(now)

    def _listen_again(self, *, follow: bool) -> None:
        """To its output, if the engine that told of it went away."""
        if self._is_deaf:
            self._is_deaf = False
            for box, log in zip(self._boxes, self._logs, strict=True):
                self._making.attach(box, log, follow=follow)

    def _on_stop(self) -> None:
        if not self._seen.was_told_to_stop:
            self._seen.was_told_to_stop = True
            if self._watch is not None:
                self._give_grace()

    def _give_grace(self) -> None:
        """Time to end by itself; before it runs it could not use that."""
        self._kill_at = min(self._kill_at, time.monotonic() + self._launch["grace_s"])

    def _on_event(self, event: str) -> None:
        """What the engine tells of the program's container."""
        if event == docker_turns.DIED:
            self._on_end()
        elif event == docker_turns.OUT_OF_MEMORY:
            self._seen.was_out_of_memory = True
        elif event == docker_turns.SIGNALLED and not self._boxes[0].was_signalled:
            self._seen.was_ended_from_outside = True

    def _on_process_end(self) -> bool:
        """Its first process has ended: what it used is known for a moment longer."""
        self._boxes[0].measure()
        self._ended_at = self._ended_at or time.monotonic()
        self._look_at = min(self._look_at, time.monotonic() + _EVENT_PATIENCE_S)
        return False

    def _on_network_loss(self) -> bool:
        """The program stands there without what it was promised."""
        self._seen.excess = "its network proxy died"
        self._end("lost")
        return False

    def _on_end(self) -> None:
        self._find_out_whether_cut_off()
        self._is_over = True
        self._ended_at = self._ended_at or time.monotonic()

    def _on_timers(self, now: float, watch: BoxWatch) -> None:
        if self._is_over:
            return
        if now >= self._kill_at:
            self._end("killed")
        elif now >= self._deadline:
            self._ask_to_end("deadline", now)
        excess = watch.find_excess(now)
        if excess is not None:
            self._seen.excess = watch.detail
            self._end(excess)
        if self._kill_at == _NEVER and watch.is_stalled(now):
            self._ask_to_end("stalled", now)

    def _measure(self) -> Usage:
        self._boxes[0].measure()
        return self._boxes[0].usage

    def _end(self, cause: str) -> None:
        """Kill the program now, and again until it is gone. The first cause counts."""
        self._decide(cause)
        self._deadline = _NEVER
        self._kill_at = time.monotonic() + _KILL_PATIENCE_S
        if self._is_started and not self._is_over:
            self._signal(signal.SIGKILL)

    def _ask_to_end(self, cause: str, now: float) -> None:
        """SIGTERM now, SIGKILL after the grace period."""
        self._decide(cause)
        self._deadline = _NEVER
        self._kill_at = min(self._kill_at, now + self._launch["grace_s"])
        self._signal(signal.SIGTERM)

    def _decide(self, cause: str) -> None:
        if self._seen.asked is None:
            self._seen.asked = cause
            self._note({"ending": cause})

    def _signal(self, number: signal.Signals) -> None:
        try:
            self._boxes[0].signal(number)
        except (Trouble, Refusal) as trouble:
            self._around.on_trouble(str(trouble))

    # the end

    def _finish(self) -> None:
        """Make sure that nothing of it runs, and record how it ended."""
        for box in self._boxes[1:]:
            self._remove(box)
        if self._boxes:
            own = self._boxes[0]
            if self._is_over:
                self._read_end(own)
            else:  # it never ran, as far as is known
                self._remove(own)
        if self._network is not None:
            self._network.end()
        self._drain()
        self._record()

    def _remove(self, box: Box) -> None:
        box.measure()
        self._making.insist(box.remove, until_unwanted=False)

    def _read_end(self, own: Box) -> None:
        state = self._making.insist(own.inspect, until_unwanted=False)
        seen = self._seen
        seen.is_gone = state is None
        if state is not None:
            self._listen_again(follow=False)
            seen.status = int(state["ExitCode"])
            seen.was_out_of_memory = seen.was_out_of_memory or bool(state["OOMKilled"])
        seen.was_out_of_memory = seen.was_out_of_memory or own.usage.memory_kills > 0
        seen.was_out_of_processes = own.usage.refused_forks > 0

    def _drain(self) -> None:
        """Take what is left of the output, which ends with the containers."""
        until = time.monotonic() + _LOG_PATIENCE_S
        while time.monotonic() < until and any(
            box.log is not None and self._turns.has(box.log.fileno()) for box in self._boxes
        ):
            self._turns.wait(until)

    def _record(self) -> None:
        seen = self._seen
        code = code_of(seen.status)
        if self._watch is not None and seen.asked is None:
            if self._watch.find_last_excess(code) is not None:
                seen.excess = self._watch.detail
        if seen.status in CANNOT_EXECUTE:
            seen.shell = self._boxes[0].shell
            seen.last_line = self._read_last_line()
        verdict = judge(seen)
        usages = [box.usage for box in self._boxes]
        wall_s = max(self._ended_at - self._started_at, 0.0) if self._is_over else 0.0
        exit_fact = {
            "cause": verdict.cause,
            "code": verdict.code,
            "detail": layout.one_line(verdict.detail),
            "wall_s": round(wall_s, 6),
            "cpu_s": round(sum(usage.cpu_s for usage in usages), 6),
            "max_rss_bytes": max((usage.peak_bytes for usage in usages), default=0),
            "boot": self._around.boot,
        }
        try:
            layout.append_fact_surely(self._record_fd, {"exit": exit_fact})
        except OSError:
            pass  # no space to say so: a client that asks hears that it does not run

    def _read_last_line(self) -> str:
        path, total = f"{self._directory}/{layout.LOG}", self._logs[0].total
        data, _, _ = read_log(path, max(total - _LINE_BYTES, 0), _LINE_BYTES)
        lines = data.decode("utf-8", "replace").splitlines()
        return lines[-1] if lines else ""

    def _note(self, fact: layout.Fact) -> None:
        try:
            layout.append_fact(self._record_fd, fact)
        except OSError:
            pass  # a later keeper finds out from the engine

    def _make_durable(self) -> None:
        """Sync what the attempt wrote, then say so in its record."""
        if self._ended_at - self._started_at >= _DURABLE_FROM_S:
            if linux.sync_file_system(self._record_fd):
                self._note({"durable": True})
