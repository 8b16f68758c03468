"""Runs every check of the project in groups, each with a time budget, and sums them up.

Groups run side by side, one per core and at most two, and the output of each is printed when it
ends. As root or with CI=true a group that cannot run is a failure; as an ordinary user it is
listed at the end with what would enable it.
"""

import argparse
import io
import os
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.advisories import missing_advisories
from scripts.group_runs import PYTHON, ROOT, Group, GroupRun, Outcome
from scripts.needs import (
    missing_browser,
    missing_bubblewrap,
    missing_deepspeed,
    missing_docker,
    missing_egress,
    missing_postgresql,
    missing_ray,
    missing_training,
    missing_vllm,
)

MOST_LANES = 3
"""More would make tests that measure time fail."""

# Each peer's adapter is read by the interpreter of that peer's own environment.
TOOLS = ("--explicit-package-bases", "--exclude", "benchmarks/peers/", "scripts", "benchmarks")
SERVICES = (
    "vllm",
    "deepspeed",
    "docker",
    "ray",
    "train",
    "postgres",
    "egress",
    "bubblewrap",
    "browser",
)
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
    Group("web", budget_s=120, commands=(("bash", str(ROOT / "scripts" / "check_web.sh")),)),
    plain("architecture", budget_s=45),
    plain("unit", budget_s=180),
    plain("contract", budget_s=120),
    plain("integration", budget_s=1100),
    plain("hostile", budget_s=120),
    plain("acceptance", budget_s=600),
    replace(served("vllm", 1800, missing_vllm), is_extra=True, may_lack=True),
    replace(served("deepspeed", 600, missing_deepspeed), is_extra=True, may_lack=True),
    served("train", 300, missing_training),
    served("bubblewrap", 300, missing_bubblewrap),
    served("postgres", 220, missing_postgresql),
    served("docker", 600, missing_docker, wrapper=(ENGINE,)),
    served("ray", 300, missing_ray),
    served("egress", 180, missing_egress),
    served("browser", 400, missing_browser),
    Group(
        "audit",
        budget_s=120,
        commands=((PYTHON, str(ROOT / "scripts" / "audit.py")),),
        missing=missing_advisories,
        may_lack=True,
    ),
)


class Lanes:
    """Runs groups side by side, the longest first, and those that fail a little again alone."""

    def __init__(self, runs: Sequence[GroupRun], *, lanes: int, strict: bool) -> None:
        self._runs = runs
        self._waiting = sorted(runs, key=lambda run: -run.group.budget_s)
        self._lanes = lanes
        self._strict = strict
        self._lock = threading.Lock()

    def run(self) -> None:
        if self._lanes == 1:
            for run in self._runs:
                self._run(run)
        else:
            self._run_beside()
        for run in self._runs:
            if run.may_try_again():
                run.try_again()

    def _run_beside(self) -> None:
        threads = [threading.Thread(target=self._lane, daemon=True) for _ in range(self._lanes)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:
            with self._lock:
                self._waiting.clear()
            for run in self._runs:
                run.stop()
            raise

    def _lane(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    return
                run = self._waiting.pop(0)
            self._run_quietly(run)

    def _run_quietly(self, run: GroupRun) -> None:
        path = run.folder / f"{run.group.name}.log"
        print(f"… {run.group.name}", flush=True)
        with path.open("w+", encoding="utf-8", errors="replace") as output:
            run.output = output
            self._run(run)
            output.seek(0)
            with self._lock:
                print(output.read(), flush=True)
        run.output = None

    def _run(self, run: GroupRun) -> None:
        """A run that breaks has failed: neither the other groups nor the summary are lost."""
        try:
            run.run(strict=self._strict)
        except Exception:  # noqa: BLE001  # whatever it was, it is told and counted
            run.say(traceback.format_exc())


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
    # Also those that passed on the second try: what a long log holds is found by its end.
    if broken := [f"  {o.group.name}: {name}" for o in outcomes for name in o.broken]:
        print("\nFailed, once at least:", *broken, sep="\n")
    # Runners of CI read this plain line.
    passed, failed, skipped = (
        sum(getattr(o, name) for o in outcomes) for name in ("passed", "failed", "skipped")
    )
    print(f"\ntotal: {passed} passed, {failed} failed, {skipped} skipped", flush=True)


def main() -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):  # what tests print may be in no code page
        sys.stdout.reconfigure(errors="replace")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slow", action="store_true", help="with the tests marked slow")
    parser.add_argument("--only", action="append", default=[], help="a group; may be repeated")
    parser.add_argument("--lanes", type=int, help="groups side by side (1: output as it comes)")
    parser.add_argument("rest", nargs="*", help="further arguments for pytest, after --")
    arguments = parser.parse_args()
    known = {group.name for group in GROUPS}
    if not known.issuperset(arguments.only):
        parser.error(f"--only {arguments.only}: the groups are {', '.join(sorted(known))}")
    wanted = arguments.only or [g.name for g in GROUPS if arguments.slow or not g.is_extra]
    chosen = [g for g in GROUPS if g.name in wanted]
    # One more than cores: tests wait for processes about a third of their time.
    lanes = arguments.lanes or min(MOST_LANES, (os.cpu_count() or 1) + 1, len(chosen))
    strict = os.geteuid() == 0 or os.environ.get("CI") == "true"
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="arl-check-") as folder:
        runs = [GroupRun(g, arguments.rest, arguments.slow, Path(folder)) for g in chosen]
        Lanes(runs, lanes=lanes, strict=strict).run()
    outcomes = [run.outcome for run in runs]
    report(outcomes, time.monotonic() - started)
    return 1 if any(o.status == "failed" for o in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
