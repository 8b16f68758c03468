"""Shared by the tests of targets: specs with defaults, and running an attempt to its end."""

import itertools
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ledger.artifacts import ArtifactStore
from ledger.records import AttemptKind, IntermediateValue
from targets import layout
from targets.bubblewrap import BubblewrapTarget
from targets.local_process import LocalProcessTarget
from targets.protocol import AttemptSpec, Exit, Limits, Program, Target

PATIENCE_S = 30.0
_numbers = itertools.count(1000 * os.getpid())
"""Test runs stand side by side, and who recovers ends what carries an attempt's name."""


def shell(script: str, **environment: str) -> Program:
    return Program(argv=("/bin/sh", "-c", script), python=sys.executable, environment=environment)


def python(code: str, **environment: str) -> Program:
    argv = ("{python}", "-I", "-S", "-c", code)
    return Program(argv=argv, python=sys.executable, environment=environment)


def attempt(
    program: Program | str, *, limits: Mapping[str, Any] | None = None, **more: Any
) -> Any:
    """An AttemptSpec with a name of its own; a string is a shell script."""
    chosen = shell(program) if isinstance(program, str) else program
    given = Limits(**{"timeout_s": PATIENCE_S, "grace_s": 0.3, **(limits or {})})
    values: dict[str, Any] = {
        "name": f"arl-{next(_numbers)}",
        "owner": "ledger-1",
        "kind": AttemptKind.TRAIN,
        "inputs": {},
        "document": {},
    }
    return AttemptSpec(**{**values, "program": chosen, "limits": given, **more})


@dataclass(frozen=True)
class Ended:
    handle: str
    exit: Exit
    values: tuple[IntermediateValue, ...]
    rejected: int
    waited_s: float


def finish(target: Target, handle: str, patience_s: float = PATIENCE_S) -> Ended:
    """Follow an attempt to its end as a controller does: wait for news, then observe."""
    started = time.monotonic()
    values: list[IntermediateValue] = []
    cursor, rejected = "", 0
    while time.monotonic() - started < patience_s:
        target.wait({handle}, 5.0)
        more = True
        while more:
            seen = target.observe(handle, cursor=cursor)
            cursor, more = seen.cursor, seen.more
            values += seen.values
            rejected += seen.rejected
            if seen.exit is not None and not more:
                waited_s = time.monotonic() - started
                return Ended(handle, seen.exit, tuple(values), rejected, waited_s)
    raise AssertionError(f"{handle} did not end within {patience_s} s")


def run(target: Target, program: Program | str, **more: Any) -> Ended:
    return finish(target, target.launch(attempt(program, **more)))


EVALUATOR = """
import os
ask = os.fdopen(int(os.environ["ARL_ASK_FD"]), "w", buffering=1)
answers = os.fdopen(int(os.environ["ARL_ANSWER_FD"]))
total = 0
for number in range(5):
    ask.write(f"{number}\\n")
    answer = answers.readline()
    total += answer == f"{number * number}\\n"
os.write(int(os.environ["ARL_SCORE_FD"]), b'{"right": %d}' % total)
"""
"""Asks five numbers' squares, and says how many it was told right."""

ANSWERER = """
import sys
print("loading", file=sys.stderr)
for line in sys.stdin:
    print(int(line) ** 2, flush=True)
"""


def evaluate(
    target: Target, answerer: Program, evaluator: str = EVALUATOR, **more: object
) -> Ended:
    """Run an evaluation whose candidate answers what the evaluator asks."""
    spec = attempt(python(evaluator), kind=AttemptKind.EVALUATE, answerer=answerer, **more)
    return finish(target, target.launch(spec))


def log_of(target: Target, handle: str) -> str:
    data, offset = b"", 0
    while True:
        chunk = target.read_log(handle, offset=offset, limit=1 << 20)
        if not chunk.data:
            return data.decode("utf-8", "replace")
        data += chunk.data
        offset = chunk.offset + len(chunk.data)


def wait_until(condition: Any, what: str, patience_s: float = 10.0) -> None:
    until = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < until, f"{what}: not within {patience_s} s"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    return layout.process_start(pid) is not None


def processes_marked(text: str) -> list[int]:
    """Live processes whose command line or environment holds `text`."""
    needle = text.encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            try:
                seen = Path("/proc", name, "cmdline").read_bytes()
                seen += Path("/proc", name, "environ").read_bytes()
            except OSError:
                continue
            if needle in seen and is_alive(int(name)):
                found.append(int(name))
    return found


def supervisor_pid(target: LocalProcessTarget) -> int:
    """Of the supervisor that this target talks to."""
    with open_connection(target) as connection:
        pid: int = connection.hello["pid"]
        return pid


@contextmanager
def open_connection(target: LocalProcessTarget) -> Iterator[Any]:
    from targets.supervisor_link import connect

    connection = connect(target._root)
    try:
        yield connection
    finally:
        connection.close()


def local_target(base: Path, store: ArtifactStore | None = None) -> LocalProcessTarget:
    chosen = store if store is not None else ArtifactStore(base / "store")
    return LocalProcessTarget(base / "attempts-root", chosen, host="here")


def bubblewrap_target(base: Path, store: ArtifactStore | None = None) -> BubblewrapTarget:
    """Beside a local target of the same base. Skips where no sandbox can be made."""
    require_bubblewrap()
    chosen = store if store is not None else ArtifactStore(base / "store")
    return BubblewrapTarget(base / "bubblewrap-root", chosen, host="here")


def require_bubblewrap() -> None:
    """Skip the test where no sandbox can be made; as root or in CI that is a failure."""
    reason = BubblewrapTarget.is_available()
    if reason is not None:
        must = os.geteuid() == 0 or os.environ.get("CI") == "true"
        (pytest.fail if must else pytest.skip)(f"bubblewrap: {reason}")


def end_supervisor(root: Path) -> None:
    """SIGTERM the supervisor of a root, if there is one, and wait until it is gone."""
    import signal

    from targets.supervisor_link import Connection

    try:
        connection = Connection(str(root))
    except OSError:
        return
    pid = connection.hello["pid"]
    connection.close()
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not is_alive(pid), "the supervisor leaves")
