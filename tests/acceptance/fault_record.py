"""The verdicts of a long run, kept line by line, so that one that was cut short is gone on with.

ARL_FAULT_RECORD names the file. Verdicts on other code than today's, or by other judges, count for
nothing. ARL_FAULT_MINUTES ends a run after so long.
"""

import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from tests.acceptance.fault_points import OURS, ROOT, Point

JUDGES = (
    *("budget_sums", "fault_points", "fault_runs", "fault_study", "promises", "reproduction"),
    *("shell_study", "witness"),
)


@dataclass(slots=True)
class Verdict:
    """What came of one kill."""

    point: Point
    reached: bool = False
    broken: list[str] = field(default_factory=list)
    recovery_s: float | None = None
    tries: int = 0
    killed_again: bool = False
    """Whether its recovery was killed, too."""


def line_of(verdict: Verdict) -> str:
    return json.dumps(asdict(verdict)) + "\n"


def verdict_of(line: str) -> Verdict:
    document = json.loads(line)
    document["point"] = Point(**document["point"])
    return Verdict(**document)


@cache
def code_digest() -> str:
    """Of the code that is killed and of the tests that judge it."""
    found = hashlib.sha256()
    ours = [path for package in OURS for path in sorted(Path(ROOT, package).rglob("*.py"))]
    for path in [*ours, *(ROOT / f"tests/acceptance/{name}.py" for name in JUDGES)]:
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


class Record:
    """Of one kind of run. Without a file it keeps nothing."""

    def __init__(self, which: str) -> None:
        self._head = f"{code_digest()} {which} "
        name = os.environ.get("ARL_FAULT_RECORD")
        self._path = None if name is None else Path(name)
        minutes = os.environ.get("ARL_FAULT_MINUTES")
        self._ends_at = None if minutes is None else time.monotonic() + 60 * float(minutes)

    def known(self) -> list[Verdict]:
        """Those of earlier runs, a line that was cut off left out."""
        if self._path is None or not self._path.exists():
            return []
        *lines, _ = self._path.read_text("utf-8").split("\n")
        mine = [line for line in lines if line.startswith(self._head)]
        return [verdict_of(line.removeprefix(self._head)) for line in mine]

    def add(self, verdict: Verdict) -> None:
        if self._path is not None:
            line = f"{self._head}{line_of(verdict)}".encode()
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(descriptor, line)  # whole lines, also of several lanes
            os.close(descriptor)

    def is_over(self) -> bool:
        """Whether the run has taken as long as it may."""
        return self._ends_at is not None and time.monotonic() > self._ends_at


def left_of(points: Sequence[Point], known: Sequence[Verdict]) -> list[Point]:
    """Without those that have a verdict."""
    done = {verdict.point for verdict in known}
    return [point for point in points if point not in done]
