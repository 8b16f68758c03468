"""Runs every check of the project in groups, each with a time budget, and sums them up.

As root or with CI=true a group that cannot run is a failure; as an ordinary user it is listed at
the end with what would enable it.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.needs import (
    missing_bubblewrap,
    missing_docker,
    missing_egress,
    missing_postgresql,
    missing_ray,
    missing_training,
)

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
KILL_AFTER_BUDGETS = 3
"""A group that takes this many budgets is stopped; one over a single budget is only marked."""
GRACE_S = 30.0
"""From SIGTERM to SIGKILL for what a stopped group started."""
TESTS_FAILED = 1
"""pytest's exit code when some did."""
TRIED_AGAIN = 5
"""So many failed tests of a group are run once more; more than that are no accident."""
NO_TESTS = 5
"""pytest's exit code when it collected nothing."""


@dataclass(frozen=True)
class Group:
    """One or more commands that pass or fail together."""

    name: str
    budget_s: int
    commands: tuple[tuple[str, ...], ...] = ()
    paths: tuple[str, ...] = ()
    """For pytest groups: what to collect."""
    marker: str = ""
    """For pytest groups: the marker expression, before `slow` is left out."""
    wrapper: tuple[str, ...] = ()
    """For pytest groups: a command that runs the rest of its arguments with a service."""
    missing: Callable[[], str] = lambda: ""
    """Why the group cannot run here and what would enable it; empty if it can."""


@dataclass
class Outcome:
    group: Group
    status: str
    wall_s: float = 0.0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    note: str = ""


# Each peer's adapter is read by the interpreter of that peer's own environment.
TOOLS = ("--explicit-package-bases", "--exclude", "benchmarks/peers/", "scripts", "benchmarks")
SERVICES = ("docker", "ray", "train", "postgres", "egress", "bubblewrap")
"""Each is a marker with a group of its own; a test that has several runs in the first one's."""
HEAVY = " and ".join(f"not {name}" for name in SERVICES)
ENGINE = str(ROOT / "scripts" / "docker_engine.sh")


def plain(name: str, budget_s: int) -> Group:
    return Group(name, budget_s, paths=(f"tests/{name}",), marker=HEAVY)


def served(
    name: str, budget_s: int, missing: Callable[[], str], wrapper: tuple[str, ...] = ()
) -> Group:
    """The tests with a marker, wherever they are, but those of an earlier one of SERVICES."""
    others = [f"not {other}" for other in SERVICES[: SERVICES.index(name)]]
    marker = " and ".join([name, *others])
    return Group(name, budget_s, (), ("tests",), marker, wrapper, missing)


GROUPS = (
    Group(
        "lint",
        budget_s=90,
        commands=(
            (PYTHON, "-m", "ruff", "check", "."),
            (PYTHON, "-m", "ruff", "format", "--check", "."),
            (str(Path(PYTHON).parent / "lint-imports"),),
            (PYTHON, "-m", "mypy"),
            (PYTHON, "-m", "mypy", *TOOLS),
        ),
    ),
    plain("architecture", budget_s=30),
    plain("unit", budget_s=90),
    plain("contract", budget_s=120),
    plain("integration", budget_s=420),
    plain("hostile", budget_s=120),
    plain("acceptance", budget_s=400),
    served("train", 240, missing_training),
    served("bubblewrap", 120, missing_bubblewrap),
    served("postgres", 180, missing_postgresql),
    served("docker", 420, missing_docker, wrapper=(ENGINE,)),
    served("ray", 300, missing_ray),
    served("egress", 180, missing_egress),
)


def clean_environment() -> dict[str, str]:
    """One thread per process: the groups are sized for two cores, and threads fight over them."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def execute(argv: Sequence[str], limit_s: float) -> int | None:
    """Exit code of a command run in the project's root; None when it took too long."""
    print(f"$ {' '.join(Path(a).name if a == PYTHON else a for a in argv)}", flush=True)
    process = subprocess.Popen(
        argv, cwd=ROOT, env=clean_environment(), stdin=subprocess.DEVNULL, process_group=0
    )
    try:
        return process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Also on Ctrl-C: nothing that a group started outlives it. Asked first, since some of it
    (an engine, its mounts) is no process and only its owner can take it away."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(timeout=GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_commands(group: Group) -> Outcome:
    outcome = Outcome(group, "passed")
    for argv in group.commands:
        code = execute(argv, group.budget_s * KILL_AFTER_BUDGETS)
        if code == 0:
            outcome.passed += 1
        else:
            outcome.failed += 1
            outcome.status = "failed"
    return outcome


def pytest_argv(group: Group, report: Path, extra: Sequence[str], *, slow: bool) -> list[str]:
    marker = f"({group.marker}) and not gpu" + ("" if slow else " and not slow")
    paths = [path for path in group.paths if (ROOT / path).exists()]
    argv = [PYTHON, "-m", "pytest", "-q", "-rfEs", "--durations=3", "--durations-min=5"]
    cache = f"--override-ini=cache_dir={report.parent / 'cache'}"
    return [*group.wrapper, *argv, f"--junitxml={report}", cache, "-m", marker, *extra, *paths]


def run_pytest(group: Group, extra: Sequence[str], *, slow: bool) -> Outcome:
    if not any((ROOT / path).exists() for path in group.paths):
        return Outcome(group, "failed", failed=1, note="no such folder of tests")
    factor = 10 if slow else 1
    with tempfile.TemporaryDirectory(prefix="arl-check-") as folder:
        report = Path(folder) / "report.xml"
        argv = pytest_argv(group, report, extra, slow=slow)
        code = execute(argv, group.budget_s * KILL_AFTER_BUDGETS * factor)
        outcome = Outcome(group, "passed" if code == 0 else "failed")
        if report.exists():
            read_counts(report, outcome)
        if code == TESTS_FAILED and 0 < outcome.failed <= TRIED_AGAIN:
            code = try_again(group, argv, outcome, report)
    if code is None:
        outcome.note = "stopped: far over its time budget"
    elif code == NO_TESTS:
        outcome.note = "no test ran"
    elif code == 0 and outcome.passed == 0:
        outcome.status, outcome.note = "failed", "every test was skipped"
    if outcome.status == "failed":
        outcome.failed = max(1, outcome.failed)
    return outcome


def try_again(group: Group, argv: Sequence[str], outcome: Outcome, report: Path) -> int | None:
    """Run the few tests that failed once more: what passes then is unsteady, which the summary
    says; what fails again has failed."""
    first = outcome.failed
    report.unlink()
    again = Outcome(group, "failed")
    code = execute([*argv, "--last-failed"], group.budget_s * KILL_AFTER_BUDGETS)
    if report.exists():
        read_counts(report, again)
    if code == 0 and again.passed >= first:
        outcome.status, outcome.failed = "passed", 0
        outcome.passed += first
        outcome.note = f"UNSTEADY: {first} passed only on the second try"
    return code


def read_counts(report: Path, outcome: Outcome) -> None:
    for suite in ET.parse(report).getroot().iter("testsuite"):
        tests, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        outcome.failed += failed
        outcome.skipped += skipped
        outcome.passed += max(0, tests - skipped - failed)


def run_group(group: Group, extra: Sequence[str], *, slow: bool, strict: bool) -> Outcome:
    print(f"\n=== {group.name} (budget {group.budget_s} s)", flush=True)
    reason = group.missing()
    if reason:
        print(f"cannot run: {reason}", flush=True)
        return Outcome(group, "failed" if strict else "not run", failed=int(strict), note=reason)
    started = time.monotonic()
    outcome = run_pytest(group, extra, slow=slow) if group.paths else run_commands(group)
    outcome.wall_s = time.monotonic() - started
    if outcome.wall_s > group.budget_s and not slow and not outcome.note:
        outcome.note = "over its time budget"
    return outcome


def report(outcomes: Sequence[Outcome], wall_s: float) -> None:
    row = "{:<13} {:<8} {:>7} {:>7} {:>7} {:>9} {:>8}  {}"
    print("\n" + row.format("group", "", "passed", "failed", "skipped", "seconds", "budget", ""))
    for o in outcomes:
        cells = (o.passed, o.failed, o.skipped, f"{o.wall_s:.1f}", o.group.budget_s, o.note)
        print(row.format(o.group.name, o.status, *cells).rstrip())
    print(f"in {wall_s / 60:.1f} minutes")
    absent = [o for o in outcomes if o.status == "not run"]
    if absent:
        print("\nNot run here:")
        for o in absent:
            print(f"  {o.group.name}: {o.note}")
    # Runners of CI read this plain line.
    passed, failed, skipped = (
        sum(getattr(o, name) for o in outcomes) for name in ("passed", "failed", "skipped")
    )
    print(f"\ntotal: {passed} passed, {failed} failed, {skipped} skipped", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slow", action="store_true", help="with the tests marked slow")
    parser.add_argument("--only", action="append", default=[], help="a group; may be repeated")
    parser.add_argument("rest", nargs="*", help="further arguments for pytest, after --")
    arguments = parser.parse_args()
    known = {group.name for group in GROUPS}
    if not known.issuperset(arguments.only):
        parser.error(f"--only {arguments.only}: the groups are {', '.join(sorted(known))}")
    strict = os.geteuid() == 0 or os.environ.get("CI") == "true"
    chosen = [g for g in GROUPS if not arguments.only or g.name in arguments.only]
    started = time.monotonic()
    outcomes = [run_group(g, arguments.rest, slow=arguments.slow, strict=strict) for g in chosen]
    report(outcomes, time.monotonic() - started)
    return 1 if any(o.status == "failed" for o in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
