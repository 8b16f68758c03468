"""Targets that do not do what they say, each in one way, for the self-check to catch."""

import os
import signal
import subprocess
import threading
from collections.abc import Collection, Sequence
from dataclasses import replace

from ledger.records import AttemptKind
from targets.bubblewrap import BubblewrapTarget
from targets.local_process import LocalOutputs, LocalProcessTarget
from targets.promises import Promises
from targets.protocol import (
    AttemptSpec,
    Exit,
    ExitCause,
    Found,
    LogChunk,
    Observation,
    OutputReader,
)


class Boastful(LocalProcessTarget):
    """Promises everything, and is a plain process of this machine."""

    is_sandbox = True

    def promises(self) -> Promises:
        return {}


class Timeless(BubblewrapTarget):
    """Enforces neither deadline nor silence."""

    def launch(self, spec: AttemptSpec) -> str:
        limits = replace(spec.limits, timeout_s=60.0, stall_s=None)
        return super().launch(replace(spec, limits=limits))


class Limitless(BubblewrapTarget):
    """Enforces no limit of memory, log, reports or disk."""

    def launch(self, spec: AttemptSpec) -> str:
        limits = replace(
            spec.limits,
            memory_bytes=None,
            output_bytes=None,
            scratch_bytes=None,
            log_bytes=1 << 30,
            report_bytes=1 << 30,
        )
        return super().launch(replace(spec, limits=limits))


class Doubling(LocalProcessTarget):
    """Starts every program twice."""

    def launch(self, spec: AttemptSpec) -> str:
        super().launch(replace(spec, name=f"{spec.name}-again"))
        return super().launch(spec)


class Leaking(LocalProcessTarget):
    """Leaves one process of each attempt running when it says that it ended."""

    leaked: list[subprocess.Popen[bytes]]

    def launch(self, spec: AttemptSpec) -> str:
        marked = [*spec.program.argv[-1:], "60"]
        self.leaked = [*getattr(self, "leaked", []), _sleeping(marked)]
        return super().launch(spec)

    def close(self) -> None:
        for process in getattr(self, "leaked", []):
            process.kill()
            process.wait()
        super().close()


def _sleeping(argv: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv, executable="/bin/sleep", env={})


class Hasty(LocalProcessTarget):
    """Says that it killed what it kills a second later."""

    def kill(self, handle: str) -> None:
        self._said = {*getattr(self, "_said", ()), handle}
        timer = threading.Timer(1.0, super().kill, (handle,))
        timer.start()
        self._timers = [*getattr(self, "_timers", ()), timer]

    def observe(self, handle: str, *, cursor: str) -> Observation:
        seen = super().observe(handle, cursor=cursor)
        if handle in getattr(self, "_said", ()) and seen.exit is None:
            ended = Exit(cause=ExitCause.KILLED, code=-signal.SIGKILL)
            return replace(seen, exit=ended, more=False)
        return seen

    def outputs(self, handle: str) -> OutputReader:
        return LocalOutputs(f"{self._directory(handle)}/output")

    def close(self) -> None:
        for timer in getattr(self, "_timers", ()):
            timer.join()
        super().close()


class Forgetful(LocalProcessTarget):
    """Lists nothing, and calls what another object launched lost."""

    def launch(self, spec: AttemptSpec) -> str:
        self._mine = {*getattr(self, "_mine", ()), spec.name}
        return super().launch(spec)

    def observe(self, handle: str, *, cursor: str) -> Observation:
        if handle in getattr(self, "_mine", ()):
            return super().observe(handle, cursor=cursor)
        lost = Exit(cause=ExitCause.LOST, code=None)
        return Observation(values=(), cursor=cursor, exit=lost)

    def list_owned(self, owner: str) -> Sequence[Found]:
        return []


class Hoarding(LocalProcessTarget):
    """Never deletes anything."""

    def release(self, handle: str) -> None:
        self.outputs(handle)


class Talkative(LocalProcessTarget):
    """Gives every program the controller's whole environment."""

    def launch(self, spec: AttemptSpec) -> str:
        more = {**os.environ, **spec.program.environment}
        return super().launch(replace(spec, program=replace(spec.program, environment=more)))


class Generous(LocalProcessTarget):
    """Gives a training program a score channel."""

    def launch(self, spec: AttemptSpec) -> str:
        return super().launch(replace(spec, kind=AttemptKind.EVALUATE))


class Deaf(LocalProcessTarget):
    """Drops every request to stop."""

    def request_stop(self, handle: str) -> None:
        self.read_log(handle, offset=0, limit=1)


class Flattering(LocalProcessTarget):
    """Tells every end as a success."""

    def observe(self, handle: str, *, cursor: str) -> Observation:
        seen = super().observe(handle, cursor=cursor)
        if seen.exit is None:
            return seen
        return replace(seen, exit=replace(seen.exit, cause=ExitCause.EXITED, code=0))


class Headless(LocalProcessTarget):
    """Keeps only the end of a log."""

    def read_log(self, handle: str, *, offset: int, limit: int) -> LogChunk:
        return super().read_log(handle, offset=max(offset, 4096), limit=limit)


class Repeating(LocalProcessTarget):
    """Tells every value again and again."""

    def observe(self, handle: str, *, cursor: str) -> Observation:
        seen = super().observe(handle, cursor="")
        return replace(seen, values=seen.values + seen.values)

    def wait(self, handles: Collection[str], timeout_s: float) -> set[str]:
        return super().wait(handles, timeout_s)
