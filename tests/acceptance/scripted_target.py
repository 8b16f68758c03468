"""A target whose attempts only a test moves: nothing runs, and it can kill its controller.

The world outlives every controller. `Killed` is raised where a real one would die by SIGKILL:
before or after a change of the world, which then has happened or not.
"""

import json
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger.errors import Conflict, StaleFence
from ledger.records import AttemptKind, Json
from targets.protocol import (
    AttemptSpec,
    Exit,
    ExitCause,
    Found,
    LogChunk,
    Observation,
    Program,
)


class Killed(BaseException):
    """The controller is gone; nothing after this line was done."""


@dataclass
class Run:
    """One attempt, as the world knows it."""

    spec: AttemptSpec
    exit: Exit | None = None
    score: bytes = b""


class World:
    def __init__(self, base: Path) -> None:
        self.base = base
        self.runs: dict[str, Run] = {}
        self.started: list[str] = []
        """Every real start, in order; a name that is there twice was started twice."""
        self.moment: Callable[[], None] = lambda: None
        """Called just before and just after every change; may raise Killed."""

    def running(self) -> list[str]:
        return [name for name, run in self.runs.items() if run.exit is None]

    def start(self, spec: AttemptSpec) -> None:
        self.started.append(spec.name)
        self.runs[spec.name] = Run(spec)

    def finish(self, name: str, value: float, wall_s: float) -> None:
        """It ends well: a training has saved a model, an evaluation has scored it."""
        run = self.runs[name]
        if run.spec.kind is AttemptKind.EVALUATE:
            run.score = json.dumps({"metrics": {"score": value}}).encode()
        else:
            model = self.output(name) / "model"
            model.mkdir(parents=True)
            (model / "x").write_text(name, encoding="utf-8")
        run.exit = Exit(cause=ExitCause.EXITED, code=0, wall_s=wall_s)

    def fail(self, name: str, cause: ExitCause, code: int | None, wall_s: float) -> None:
        self.runs[name].exit = Exit(cause=cause, code=code, wall_s=wall_s)

    def forget(self, name: str) -> None:
        """As when a machine is gone with everything that was on it."""
        del self.runs[name]

    def output(self, name: str) -> Path:
        return self.base / "outputs" / name


@dataclass(frozen=True)
class Outputs:
    root: str


class ScriptedTarget:
    """One controller's way to the world."""

    name = "local"
    is_shared = False
    is_sandbox = False

    def __init__(self, world: World) -> None:
        self._world = world
        self.lease_is_over = False

    def launch(self, spec: AttemptSpec) -> str:
        if spec.name not in self._world.runs:
            if self.lease_is_over:
                raise StaleFence(f"{spec.name}: the lease is over")
            self._change(lambda: self._world.start(spec))
        return spec.name

    def wait(self, handles: Collection[str], timeout_s: float) -> set[str]:
        return set(handles)

    def interrupt(self) -> None:
        pass

    def observe(self, handle: str, *, cursor: str) -> Observation:
        run = self._world.runs.get(handle)
        lost = Exit(cause=ExitCause.LOST, code=None)
        return Observation(values=(), cursor="", exit=lost if run is None else run.exit)

    def request_stop(self, handle: str) -> None:
        pass

    def kill(self, handle: str) -> None:
        run = self._world.runs.get(handle)
        if run is not None and run.exit is None:
            self._change(lambda: self._world.fail(handle, ExitCause.KILLED, -9, 1.0))

    def outputs(self, handle: str) -> Outputs:
        run = self._world.runs.get(handle)
        if run is not None and run.exit is None:
            raise Conflict(f"{handle} still runs")
        return Outputs(str(self._world.output(handle)))

    def score(self, handle: str) -> bytes:
        return self._world.runs[handle].score

    def read_log(self, handle: str, *, offset: int, limit: int) -> LogChunk:
        return LogChunk(b"", 0, 0)

    def release(self, handle: str) -> None:
        if handle in self._world.running():
            raise Conflict(f"{handle} still runs")
        if handle in self._world.runs:
            self._change(lambda: self._world.forget(handle))
        shutil.rmtree(self._world.output(handle), ignore_errors=True)

    def list_owned(self, owner: str) -> Sequence[Found]:
        found = self._world.runs.items()
        return [Found(n, n, r.exit is None) for n, r in found if r.spec.owner == owner]

    def check_options(self, options: Mapping[str, Json]) -> None:
        pass

    def pin(self, program: Program) -> Program:
        return program

    def fingerprint(self, program: Program) -> str:
        return "scripted"

    def close(self) -> None:
        pass

    def _change(self, change: Callable[[], Any]) -> None:
        self._world.moment()
        change()
        self._world.moment()
