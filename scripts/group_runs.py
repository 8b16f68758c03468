"""Runs one group of checks in processes of its own and counts what came of it."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
KILL_AFTER_BUDGETS = 3
"""A group that takes this many budgets is stopped; one over a single budget is only marked."""
SLOW_BUDGETS = 10
"""So many times its budget a group may take with the tests marked slow."""
GRACE_S = 30.0
"""From SIGTERM to SIGKILL for what a stopped group started."""
TESTS_FAILED = 1
"""pytest's exit code when some did."""
TRIED_AGAIN = 5
"""So many failed tests of a group are run once more; more than that are no accident."""
LONGEST_LINE = 300
"""Of what the summary tells of a failed test."""
NO_TESTS = 5
"""pytest's exit code when it collected nothing."""


@dataclass(frozen=True)
class Group:
    """One or more commands that pass or fail together."""

    name: str
    budget_s: int
    """What it may take with another group beside it."""
    commands: tuple[tuple[str, ...], ...] = ()
    paths: tuple[str, ...] = ()
    """For pytest groups: what to collect."""
    marker: str = ""
    """For pytest groups: the marker expression, before `slow` is left out."""
    wrapper: tuple[str, ...] = ()
    """For pytest groups: a command that runs the rest of its arguments with a service."""
    missing: Callable[[], str] = lambda: ""
    """Why the group cannot run here and what would enable it; empty if it can."""
    is_extra: bool = False
    """Only with the slow tests."""
    may_lack: bool = False
    """What it needs may be missing, and that is no failure anywhere."""


@dataclass
class Outcome:
    group: Group
    status: str
    wall_s: float = 0.0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    note: str = ""
    broken: list[str] = field(default_factory=list)
    """The tests that failed, each with its reason, also those that passed on the second try."""


@dataclass
class GroupRun:
    """A run of one group, with room of its own for pytest's report and its list of failures."""

    group: Group
    extra: Sequence[str]
    slow: bool
    folder: Path
    output: IO[str] | None = None
    """Where everything is printed; None means this process's own output."""
    outcome: Outcome = field(init=False)
    process: "subprocess.Popen[bytes] | None" = None
    stopped: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.outcome = Outcome(self.group, "failed", failed=1, note="did not run to its end")

    def run(self, *, strict: bool) -> None:
        """Fill in `outcome`. With `strict`, a group that cannot run has failed."""
        self.say(f"\n=== {self.group.name} (budget {self.group.budget_s} s)")
        reason = self.group.missing()
        if reason:
            self.say(f"cannot run: {reason}")
            is_failure = strict and not self.group.may_lack
            status = "failed" if is_failure else "not run"
            self.outcome = Outcome(self.group, status, failed=int(is_failure), note=reason)
            return
        started = time.monotonic()
        if self.group.paths:
            self.run_pytest()
        else:
            self.run_commands()
        self.outcome.wall_s = time.monotonic() - started
        late = self.outcome.wall_s > self.group.budget_s
        if late and not self.slow and not self.outcome.note:
            self.outcome.note = "over its time budget"

    def run_commands(self) -> None:
        codes = [self.execute(argv) for argv in self.group.commands]
        passed = codes.count(0)
        failed = len(codes) - passed
        status = "failed" if failed else "passed"
        self.outcome = Outcome(self.group, status, passed=passed, failed=failed)

    def run_pytest(self) -> None:
        if not any((ROOT / path).exists() for path in self.group.paths):
            self.outcome = Outcome(self.group, "failed", failed=1, note="no such folder of tests")
            return
        code = self.execute(self.pytest_argv())
        self.outcome = read_counts(self.group, self.report, code)
        if code is None:
            self.outcome.note = "stopped: far over its time budget"
        elif code == NO_TESTS:
            self.outcome.note = "no test ran"
        elif code == 0 and self.outcome.passed == 0:
            self.outcome.status, self.outcome.note = "failed", "every test was skipped"
        elif code == TESTS_FAILED and 0 < self.outcome.failed <= TRIED_AGAIN:
            self.outcome.note = "to be tried again"
        if self.outcome.status == "failed":
            self.outcome.failed = max(1, self.outcome.failed)

    def may_try_again(self) -> bool:
        return self.outcome.note == "to be tried again"

    def try_again(self) -> None:
        """Run the few tests that failed once more, with nothing beside them: what passes then is
        unsteady, which the summary says; what fails again has failed."""
        first = self.outcome
        self.say(f"\n=== {self.group.name}: {first.failed} once more, alone")
        self.report.unlink()
        started = time.monotonic()
        code = self.execute([*self.pytest_argv(), "--last-failed"])
        again = read_counts(self.group, self.report, code)
        first.wall_s += time.monotonic() - started
        first.note = ""
        if code == 0 and again.passed >= first.failed:
            first.note = f"UNSTEADY: {first.failed} passed only on the second try"
            first.passed += first.failed
            first.status, first.failed = "passed", 0
        elif again.broken:
            first.broken = again.broken

    @property
    def report(self) -> Path:
        return self.folder / f"{self.group.name}.xml"

    def pytest_argv(self) -> list[str]:
        marker = f"({self.group.marker}) and not gpu" + ("" if self.slow else " and not slow")
        paths = [path for path in self.group.paths if (ROOT / path).exists()]
        argv = [PYTHON, "-m", "pytest", "-q", "-rfEs", "--durations=3", "--durations-min=5"]
        own = [
            f"--override-ini=cache_dir={self.folder / self.group.name}",
            f"--junitxml={self.report}",
        ]
        return [*self.group.wrapper, *argv, *own, "-m", marker, *self.extra, *paths]

    def execute(self, argv: Sequence[str]) -> int | None:
        """Exit code of a command run in the project's root; None when it took too long."""
        if self.stopped.is_set():
            return None
        factor = SLOW_BUDGETS if self.slow else 1
        self.say(f"$ {' '.join(Path(a).name if a == PYTHON else a for a in argv)}")
        process = subprocess.Popen(
            argv,
            cwd=ROOT,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=None if self.output is None else subprocess.STDOUT,
            process_group=0,
        )
        self.process = process
        try:
            if self.stopped.is_set():  # since it was looked at above
                return None
            return process.wait(timeout=self.group.budget_s * KILL_AFTER_BUDGETS * factor)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.end()

    def stop(self) -> None:
        """Start nothing more, and end what runs. From any thread."""
        self.stopped.set()
        self.end()

    def end(self) -> None:
        """Also on Ctrl-C: nothing that a group started outlives it. Asked first, since some of it
        (an engine, its mounts) is no process and only its owner can take it away."""
        process = self.process
        if process is None:
            return
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                process.wait(timeout=GRACE_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.process = None

    def say(self, text: str) -> None:
        print(text, file=self.output, flush=True)


def clean_environment() -> dict[str, str]:
    """One thread per process: the groups are sized for two cores, and threads fight over them."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def read_counts(group: Group, report: Path, code: int | None) -> Outcome:
    outcome = Outcome(group, "passed" if code == 0 else "failed")
    if not report.exists():
        return outcome
    for suite in ET.parse(report).getroot().iter("testsuite"):
        tests, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        outcome.failed += failed
        outcome.skipped += skipped
        outcome.passed += max(0, tests - skipped - failed)
        outcome.broken += [told for case in suite.iter("testcase") if (told := failure_of(case))]
    return outcome


def failure_of(case: ET.Element) -> str:
    """A failed test and why, in one line; empty for one that did not fail."""
    failure = next((found for kind in ("failure", "error") for found in case.iter(kind)), None)
    if failure is None:
        return ""
    name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
    reason = " ".join(failure.get("message", "").split())
    return f"{name} - {reason}"[:LONGEST_LINE]
