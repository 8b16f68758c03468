"""One attempt in its containers, from its start or its adoption to its recorded end: a thread of
the keeper."""

import os
import signal
import threading
import time
from typing import Final

from targets import layout
from targets.docker_container import turns as docker_turns
from targets.docker_container.body import CANNOT_EXECUTE
from targets.docker_container.calls import Refusal, Trouble
from targets.docker_container.making import Making, Unmade, Unwanted
from targets.docker_container.parts import Parts, read_launch
from targets.docker_container.record import Record
from targets.docker_container.surroundings import Surroundings
from targets.docker_container.turns import Message, Turns
from targets.docker_container.verdict import Seen, code_of, judge
from targets.docker_container.watch import BoxWatch
from targets.spawning import Launch

_NEVER: Final = float("inf")
_LOOK_AGAIN_S: Final = 2.0
_EVENT_PATIENCE_S: Final = 3.0
"""From the end of a container's first process to the engine's word of it; then it is asked."""
_KILL_PATIENCE_S: Final = 5.0
_DURABLE_FROM_S: Final = 1.0


class Attempt(threading.Thread):
    """Post it the messages of targets.docker_container.turns."""

    def __init__(self, name: str, around: Surroundings) -> None:
        super().__init__(name=name, daemon=True)
        self.attempt = name
        self._around = around
        self._directory = f"{around.attempts}/{name}"
        self._turns = Turns(self._on_message)
        self.post = self._turns.post
        self._record = Record(self._directory)
        self._making = Making(around, self._turns, lambda: self._seen.asked is None)
        self._launch: Launch = {}
        self._parts: Parts | None = None
        self._watch: BoxWatch | None = None
        self._seen = Seen(asked=self._record.facts.get("ending"))
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
            parts = self._parts
            self._around.on_end(self.attempt, [] if parts is None else parts.left())
            if self._ended_at - self._started_at >= _DURABLE_FROM_S:
                self._record.make_durable()
            if parts is not None:
                parts.close()
            self._turns.close()
            self._record.close()

    def _live(self) -> None:
        try:
            self._launch = read_launch(self._directory)
            if os.path.exists(f"{self._directory}/{layout.STOP}"):
                self._on_stop()
            self._parts = Parts(
                self._around, self._making, self._turns, self._directory, self._launch
            )
            if "started" in self._record.facts:
                self._resume(self._parts)
            else:
                self._start(self._parts)
            self._follow()
        except Unmade as failure:
            self._seen.failure = (failure.cause, str(failure))
        except Unwanted:
            pass  # it is ended before it ran
        self._finish()

    # starting

    def _start(self, parts: Parts) -> None:
        if parts.network is not None:
            parts.network.start(self._record, self._on_network_loss)
        self._making.make(self._directory, parts.boxes, parts.logs)
        self._making.check_wanted()
        self._engine = self._around.find_identity()
        self._record.note({"started": time.monotonic(), "engine": self._engine})
        self._is_started = True
        self._making.start(parts.boxes)
        self._on_started(parts, time.monotonic())

    def _resume(self, parts: Parts) -> None:
        """Follow what an earlier keeper started, or was about to start."""
        self._is_started = True
        if not parts.adopt():
            self._is_over = True
            return
        facts = self._record.facts
        self._engine = facts.get("engine")
        if parts.network is not None:
            parts.network.resume(self._record, self._on_network_loss)
        if self._seen.asked is None:
            self._making.start([box for box in parts.boxes if box.was_tried])
        self._on_started(parts, facts["started"])

    def _on_started(self, parts: Parts, at: float) -> None:
        self._started_at = at
        self._look()
        self._started_at = parts.own.begun_at or at
        self._deadline = self._started_at + self._launch["timeout_s"]
        self._watch = BoxWatch(
            self._directory, self._launch, parts.logs, time.monotonic(), parts.measure
        )
        if self._seen.asked is not None or self._seen.was_told_to_stop:
            self._give_grace()
        parts.follow_answerer()

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
        parts = self._parts
        if parts is None:
            return
        try:
            state = parts.own.inspect()
        except (Trouble, Refusal) as trouble:
            self._around.on_trouble(str(trouble))
            self._follow_process(parts, parts.own.find_process())
            self._look_at = time.monotonic() + _LOOK_AGAIN_S
            return
        if state is None or not state["Running"]:
            self._on_end()
            return
        self._compare_engine()
        if self._seen.survives_engine:  # else it ends what it found, in a moment
            self._engine = self._around.find_identity()
        self._listen_again(parts)
        self._follow_process(parts, int(state["Pid"]))
        if self._ended_at:
            self._look_at = time.monotonic() + _LOOK_AGAIN_S

    def _follow_process(self, parts: Parts, pid: int) -> None:
        def on_end() -> bool:
            """What it used is known for a moment longer."""
            parts.measure()
            self._ended_at = self._ended_at or time.monotonic()
            self._look_at = min(self._look_at, time.monotonic() + _EVENT_PATIENCE_S)
            return False

        if parts.own.watch_process(pid):
            self._turns.add(parts.own.pidfd, on_end)

    def _on_message(self, message: Message) -> None:
        what, container = message
        if what == docker_turns.KILL:
            self._end("killed")
        elif what == docker_turns.STOP:
            self._on_stop()
        elif what == docker_turns.LOOK and self._is_started:
            self._is_deaf = True
            self._look_at = 0.0
        elif container == self.attempt:
            self._on_event(what)

    def _compare_engine(self) -> None:
        """Whether another one has come in place of that which it ran under."""
        seen = self._seen
        seen.was_cut_off, seen.survives_engine = self._making.compare_engine(self._engine)

    def _listen_again(self, parts: Parts) -> None:
        if self._is_deaf:
            self._is_deaf = False
            parts.listen_again()

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
        elif event == docker_turns.SIGNALLED:
            ours = self._parts is not None and self._parts.own.was_signalled
            self._seen.was_ended_from_outside = self._seen.was_ended_from_outside or not ours

    def _on_network_loss(self) -> bool:
        """The program stands there without what it was promised."""
        self._seen.excess = "its network proxy died"
        self._end("lost")
        return False

    def _on_end(self) -> None:
        self._compare_engine()
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
            self._record.note({"ending": cause})

    def _signal(self, number: signal.Signals) -> None:
        try:
            if self._parts is not None:
                self._parts.own.signal(number)
        except (Trouble, Refusal) as trouble:
            self._around.on_trouble(str(trouble))

    # the end

    def _finish(self) -> None:
        """Make sure that nothing of it runs, and record how it ended."""
        parts, seen = self._parts, self._seen
        if parts is not None:
            parts.end_helpers()
            if self._is_over:
                self._read_end(parts)
            else:  # it never ran, as far as is known
                parts.remove(parts.own)
            parts.drain()
            if seen.status in CANNOT_EXECUTE:
                seen.shell, seen.last_line = parts.own.shell, parts.read_last_line()
        if self._watch is not None and seen.asked is None:
            if self._watch.find_last_excess(code_of(seen.status)) is not None:
                seen.excess = self._watch.detail
        usages = [] if parts is None else [box.usage for box in parts.boxes]
        wall_s = max(self._ended_at - self._started_at, 0.0) if self._is_over else 0.0
        self._record.end(judge(seen), usages, wall_s, self._around.boot)

    def _read_end(self, parts: Parts) -> None:
        state = self._making.insist(parts.own.inspect, until_unwanted=False)
        seen, usage = self._seen, parts.own.usage
        seen.is_gone = state is None
        if state is not None:
            self._listen_again(parts)
            seen.status = int(state["ExitCode"])
            seen.was_out_of_memory = seen.was_out_of_memory or bool(state["OOMKilled"])
        seen.was_out_of_memory = seen.was_out_of_memory or usage.memory_kills > 0
        seen.was_out_of_processes = usage.refused_forks > 0
