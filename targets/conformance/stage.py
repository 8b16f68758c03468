"""Runs a check's attempts on a target, and ends and releases every one of them."""

import itertools
import json
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ledger.errors import Conflict
from ledger.records import AttemptKind, IntermediateValue, Json
from targets import layout
from targets.conformance.inside import FACTS
from targets.conformance.setting import Cancelled, Ended, Setup
from targets.conformance.verdicts import Unchecked
from targets.promises import promises_of
from targets.protocol import AttemptSpec, ExitCause, Limits, NetworkRequest, Program, Target

PREFIX: Final = "arl-doctor-"
"""Of every attempt's name: a study's is `arl-` and the id of an attempt, which has no word."""
PATIENCE_S: Final = 60.0
"""For one attempt to end, far beyond any limit that a check sets."""
END_PATIENCE_S: Final = 20.0
_WAIT_S: Final = 0.5
_LOOK_S: Final = 0.02
_LOG_PIECE_BYTES: Final = 1 << 20


class Stage:
    """Thread-safe: checks share it."""

    def __init__(self, setup: Setup, secret: str) -> None:
        self.setup = setup
        self.secret = secret
        """In the environment of this process: no program may find it."""
        self.target = setup.open_target()
        self.promises = promises_of(self.target)
        self.token = secrets.token_hex(4)
        """In every name of this run."""
        self.known: set[str] = set()
        """Names given so far."""
        self._numbers = itertools.count()
        self._handles: dict[str, Target] = {}
        self._lock = threading.RLock()
        self._cancelled = threading.Event()
        self._second: Target | None = None
        self._program = Program(argv=("true",), python=setup.python, image=setup.image)
        self._pinned = False
        self._here: bool | None = None
        self._python_problem: str | None = None

    # programs and attempts

    def shell(self, script: str, **environment: str) -> Program:
        return self._made(("/bin/sh", "-c", script), environment)

    def python(self, code: str, **environment: str) -> Program:
        """Raises Unchecked when there is no interpreter where attempts run."""
        problem = self._find_python_problem()
        if problem:
            raise Unchecked(problem)
        return self._made(("{python}", "-I", "-S", "-c", code), environment)

    def _made(self, argv: tuple[str, ...], environment: Mapping[str, str]) -> Program:
        pinned = self.pinned()
        return Program(
            argv=argv, python=pinned.python, image=pinned.image, environment=dict(environment)
        )

    def pinned(self) -> Program:
        """A program whose image is named by digest, where there is one."""
        with self._lock:
            if not self._pinned:
                self._program = self.target.pin(self._program)
                self._pinned = True
            return self._program

    def spec(
        self,
        program: Program | str,
        *,
        kind: AttemptKind = AttemptKind.TRAIN,
        inputs: Mapping[str, str] | None = None,
        answerer: Program | None = None,
        limits: Limits | None = None,
        egress: tuple[str, ...] = (),
    ) -> AttemptSpec:
        """An attempt with a name of its own; a string is a shell script."""
        name = f"{PREFIX}{self.token}-{next(self._numbers)}"
        self.known.add(name)
        return AttemptSpec(
            name=name,
            owner=self.setup.owner,
            kind=kind,
            program=self.shell(program) if isinstance(program, str) else program,
            inputs=inputs or {},
            document={"format": 1, "kind": "doctor", "parameters": {}},
            limits=limits or Limits(timeout_s=PATIENCE_S, grace_s=0.5),
            egress=egress,
            options=self.setup.options,
            answerer=answerer,
        )

    def put_tree(self, files: Mapping[str, str], *, executable: str = "") -> str:
        """The digest of a directory with these files, in the target's store."""
        source = Path(tempfile.mkdtemp(dir=self.setup.work))
        for name, text in files.items():
            (source / name).write_text(text, encoding="utf-8")
        if executable:
            (source / executable).chmod(0o755)
        return self.setup.shelf.put_tree(source)

    def launch(self, spec: AttemptSpec, target: Target | None = None) -> str:
        self.check_wanted()
        on = target or self.target
        handle = on.launch(spec)
        with self._lock:
            self._handles.setdefault(handle, on)
        if self._cancelled.is_set():  # it was too late to be among those that were ended
            on.kill(handle)
            raise Cancelled
        return handle

    def finish(self, handle: str, target: Target | None = None) -> Ended:
        """Follow it to its end as a controller does: wait for news, then observe."""
        on = target or self.target
        started = time.monotonic()
        values: list[IntermediateValue] = []
        requests: list[NetworkRequest] = []
        cursor, rejected = "", 0
        while time.monotonic() - started < PATIENCE_S:
            self.check_wanted()
            seen = on.observe(handle, cursor=cursor)
            told_at = time.time()
            values += seen.values
            requests += seen.requests
            cursor, rejected = seen.cursor, rejected + seen.rejected
            if seen.exit is not None and not seen.more:
                return Ended(
                    handle=handle,
                    exit=seen.exit,
                    values=tuple(values),
                    rejected=rejected,
                    requests=tuple(requests),
                    told_at=told_at,
                )
            if not seen.more:
                on.wait({handle}, _WAIT_S)
        raise TimeoutError(f"{handle} did not end within {PATIENCE_S:g} s")

    def run(
        self,
        program: Program | str,
        *,
        kind: AttemptKind = AttemptKind.TRAIN,
        inputs: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> Ended:
        return self.finish(
            self.launch(self.spec(program, kind=kind, inputs=inputs, limits=limits))
        )

    def log(self, handle: str, target: Target | None = None) -> str:
        """All of it that is kept."""
        on = target or self.target
        data, offset = b"", 0
        while True:
            chunk = on.read_log(handle, offset=offset, limit=_LOG_PIECE_BYTES)
            if not chunk.data:
                return data.decode("utf-8", "replace")
            data += chunk.data
            offset = chunk.offset + len(chunk.data)

    def await_log(self, handle: str, text: str) -> None:
        """Until the running program wrote `text`. Raises TimeoutError."""
        self.until(lambda: text in self.log(handle), f"{handle} to write {text!r}")

    def until(self, holds: Callable[[], object], what: str) -> None:
        until = time.monotonic() + END_PATIENCE_S
        while not holds():
            self.check_wanted()
            if time.monotonic() > until:
                raise TimeoutError(f"waited {END_PATIENCE_S:g} s for {what}")
            time.sleep(_LOOK_S)

    def facts(self, ended: Ended) -> dict[str, Json]:
        """The JSON that a program told after FACTS. Raises ValueError, with how it ended, when
        there is none."""
        text = self.log(ended.handle)
        for line in reversed(text.splitlines()):
            if line.startswith(FACTS):
                found = json.loads(line.removeprefix(FACTS))
                if isinstance(found, dict):
                    return found
        how = f"{ended.exit.cause} {ended.exit.code} {ended.exit.detail}".strip()
        raise ValueError(f"the program told nothing ({how}): {layout.one_line(text[-300:])}")

    # where it runs

    def is_here(self) -> bool:
        """Whether attempts run under this machine's kernel."""
        with self._lock:
            if self._here is None:
                mine = layout.boot_id()
                ended = self.run("cat /proc/sys/kernel/random/boot_id")
                self._here = bool(mine) and mine in self.log(ended.handle)
            return self._here

    def need_here(self) -> None:
        """Raises Unchecked where attempts run on another machine."""
        if not self.is_here():
            raise Unchecked("attempts run on another machine, which cannot be seen from here")

    def _find_python_problem(self) -> str:
        with self._lock:
            if self._python_problem is None:
                program = self._made(("{python}", "-I", "-S", "-c", "print(6 * 7)"), {})
                ended = self.run(program)
                works = ended.exit.cause is ExitCause.EXITED and ended.exit.code == 0
                self._python_problem = (
                    ""
                    if works and "42" in self.log(ended.handle)
                    else f"{self.setup.python} does not run where attempts do "
                    f"({ended.exit.cause} {ended.exit.detail}): name one with --python"
                )
            return self._python_problem

    def second(self) -> Target:
        """Another object for the same place, as a restarted controller has."""
        with self._lock:
            if self._second is None:
                self._second = self.setup.open_target()
            return self._second

    # the end

    def check_wanted(self) -> None:
        """Raises Cancelled."""
        if self._cancelled.is_set():
            raise Cancelled

    def cancel(self) -> None:
        """No check goes on; what they started is ended by `clear`."""
        self._cancelled.set()
        self.target.interrupt()

    def go_on(self) -> None:
        """After `cancel`, once the checks it was meant for have left."""
        self._cancelled.clear()

    def clear(self) -> list[str]:
        """End and release everything of this owner, whoever launched it; the names of those
        that were found besides the ones this object released itself. Call it first, for what a
        killed run left, and last."""
        with self._lock:
            mine = set(self._handles)
            self._handles.clear()
        found = {f.handle: f.name for f in self.target.list_owned(self.setup.owner)}
        for handle in mine | set(found):
            self.target.kill(handle)
        for handle in mine | set(found):
            self._release(handle)
        return sorted(found[handle] for handle in set(found) - mine)

    def _release(self, handle: str) -> None:
        """A killed attempt may need a moment to be gone. Raises Conflict when it never is."""
        until = time.monotonic() + END_PATIENCE_S
        while True:
            try:
                self.target.release(handle)
            except Conflict:
                if time.monotonic() > until:
                    raise
                time.sleep(_LOOK_S)
            else:
                return

    def close(self) -> None:
        for target in (self._second, self.target):
            if target is not None:
                target.close()
