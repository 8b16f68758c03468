"""What the sandbox adds to a trial: pairs of programs that do nothing, bare, local, sandboxed.

    python -m benchmarks.bubblewrap --json FILE [--pairs 50]

A pair is a training and an evaluating attempt, one after the other, launched, awaited, observed
and released as a worker does. The three take turns, since machines are noisy.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.noop import bare_pair_ms
from benchmarks.reports import machine, write_report
from ledger.artifacts import ArtifactStore
from ledger.records import AttemptKind
from targets.bubblewrap import BubblewrapTarget
from targets.local_process import LocalProcessTarget
from targets.protocol import AttemptSpec, ExitCause, Limits, Program, Target

GOAL_MS = 250.0
WARM_UP = 3
SCRIPTS = {AttemptKind.TRAIN: ":", AttemptKind.EVALUATE: "echo score=0.5 >&3"}


def spec(name: str, kind: AttemptKind) -> AttemptSpec:
    return AttemptSpec(
        name=name,
        owner="benchmark",
        kind=kind,
        program=Program(argv=("/bin/sh", "-c", SCRIPTS[kind]), python=sys.executable),
        inputs={},
        document={},
        limits=Limits(timeout_s=60.0),
    )


def run_pair(target: Target, number: int) -> None:
    """Raises RuntimeError when an attempt does not end as it should."""
    for kind in SCRIPTS:
        handle = target.launch(spec(f"arl-{number}-{kind}", kind))
        while (seen := target.observe(handle, cursor="")).exit is None:
            target.wait({handle}, 10.0)
        if (seen.exit.cause, seen.exit.code) != (ExitCause.EXITED, 0):
            raise RuntimeError(f"{target.name}: {seen.exit}")
        target.release(handle)


def timed_ms(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1e3


def measure(work: Path, pairs: int) -> dict[str, list[float]]:
    store = ArtifactStore(work / "artifacts")
    targets: list[Target] = [
        LocalProcessTarget(work / "local", store, host="here"),
        BubblewrapTarget(work / "bubblewrap", store, host="here"),
    ]
    times: dict[str, list[float]] = {"bare": [], **{target.name: [] for target in targets}}
    for number in range(-WARM_UP, pairs):
        bare = bare_pair_ms(1)
        each = [timed_ms(lambda t=target, n=number: run_pair(t, n)) for target in targets]  # type: ignore[misc]
        if number >= 0:
            times["bare"] += bare
            for target, took in zip(targets, each, strict=True):
                times[target.name].append(took)
    for target in targets:
        target.close()
    return times


def summarise(times: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    return {
        name: {
            "median_ms": statistics.median(values),
            "p95_ms": sorted(values)[int(0.95 * (len(values) - 1))],
        }
        for name, values in times.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--json", type=Path, help="where to write all figures")
    arguments = parser.parse_args()
    reason = BubblewrapTarget.is_available()
    if reason is not None:
        print(f"bubblewrap: {reason}", file=sys.stderr)
        return 1
    found = machine()
    with tempfile.TemporaryDirectory(prefix="arl-bench-") as work:
        figures = summarise(measure(Path(work), arguments.pairs))
    for name, row in figures.items():
        print(f"{name:<11} pair: median {row['median_ms']:7.2f} ms, p95 {row['p95_ms']:7.2f} ms")
    met = figures["bubblewrap"]["median_ms"] <= GOAL_MS
    print(f"goal for bubblewrap: {GOAL_MS:g} ms, {'met' if met else 'missed'}")
    report = {"machine": found, "pairs": arguments.pairs, "goal_ms": GOAL_MS, **figures}
    write_report(arguments.json, report)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
