"""What ARL adds to a trial on a Ray cluster: pairs of programs that do nothing, four ways.

    python -m benchmarks.ray_overhead --json FILE [--pairs 20] [--at-once 4]

A pair is a training and an evaluating program, one after the other, on a private cluster of two
nodes of this machine. Plain Ray runs each as a task, whose workers are kept, and as an actor of
its own in a placement group, which is what can be found again after a crash. ARL runs each as an
attempt: launched, awaited, observed, its output fetched, released; unsandboxed and in bubblewrap.
The four take turns, since machines are noisy.
"""

import argparse
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from benchmarks.bubblewrap import SCRIPTS, spec
from benchmarks.reports import machine, write_report
from ledger.artifacts import ArtifactStore
from targets.bubblewrap import BubblewrapTarget
from targets.protocol import ExitCause, Target
from targets.registry import Place, make_target
from tests.ray_cluster import RayCluster, ray_cluster

WARM_UP = 2
_numbers = itertools.count()

Pair = Callable[[], None]


def plain_pairs(cluster: RayCluster) -> dict[str, Pair]:
    """The same two processes with nothing but Ray. This process becomes a driver."""
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)

    def run(script: str) -> int:
        done = subprocess.run(["/bin/sh", "-c", script], stderr=subprocess.DEVNULL, check=False)
        return done.returncode

    class Runner:
        def run(self, script: str) -> int:
            done = subprocess.run(
                ["/bin/sh", "-c", script], stderr=subprocess.DEVNULL, check=False
            )
            return done.returncode

    task = ray.remote(run)
    actor = ray.remote(Runner)

    def tasks() -> None:
        for script in SCRIPTS.values():
            ray.get(task.remote(script.replace(">&3", "")))

    def actors() -> None:
        for script in SCRIPTS.values():
            group = placement_group([{"CPU": 1}])
            place = PlacementGroupSchedulingStrategy(group, 0)
            runner = actor.options(num_cpus=1, scheduling_strategy=place).remote()
            ray.get(runner.run.remote(script.replace(">&3", "")))
            remove_placement_group(group)

    return {"plain_tasks": tasks, "plain_actors": actors}


def arl_pair(target: Target) -> Pair:
    def pair() -> None:
        number = next(_numbers)
        for kind in SCRIPTS:
            handle = target.launch(spec(f"arl-{number}-{kind}", kind))
            while (seen := target.observe(handle, cursor="")).exit is None:
                target.wait({handle}, 10.0)
            if (seen.exit.cause, seen.exit.code) != (ExitCause.EXITED, 0):
                raise RuntimeError(f"{target.name}: {seen.exit}")
            target.outputs(handle)
            target.release(handle)

    return pair


def measure(pairs: dict[str, Pair], rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in pairs}
    for number in range(-WARM_UP, rounds):
        for name, pair in pairs.items():
            started = time.perf_counter()
            pair()
            if number >= 0:
                times[name].append((time.perf_counter() - started) * 1e3)
    return times


def pairs_per_s(pair: Pair, at_once: int, count: int) -> float:
    with ThreadPoolExecutor(at_once) as pool:
        started = time.perf_counter()
        for done in [pool.submit(pair) for _ in range(count)]:
            done.result()
        return count / (time.perf_counter() - started)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--json", type=Path, help="where to write all figures")
    arguments = parser.parse_args()
    found = machine()
    with ExitStack() as stack:
        cluster = stack.enter_context(ray_cluster())
        for _ in range(2):
            cluster.add_node(num_cpus=arguments.at_once)
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="arl-bench-")))
        pairs = plain_pairs(cluster)
        sandboxes = ["local"]
        sandboxes += ["bubblewrap"] if BubblewrapTarget.is_available() is None else []
        for sandbox in sandboxes:
            place = Place(
                root=base / sandbox,
                store=ArtifactStore(base / "store"),
                host="here",
                options=cluster.options(base, sandbox=sandbox),
            )
            target = make_target("ray", place)
            stack.callback(target.close)
            pairs[f"arl_{sandbox}"] = arl_pair(target)
        times = measure(pairs, arguments.pairs)
        rates = {
            name: pairs_per_s(pair, arguments.at_once, max(arguments.pairs // 2, 4))
            for name, pair in pairs.items()
        }
    report(arguments, found, times, rates)
    return 0


def report(
    arguments: argparse.Namespace,
    found: object,
    times: dict[str, list[float]],
    rates: dict[str, float],
) -> None:
    medians = {name: statistics.median(values) for name, values in times.items()}
    rows = {
        name: {
            "median_ms": median,
            "p95_ms": sorted(times[name])[int(0.95 * (len(times[name]) - 1))],
            "times_plain_tasks": median / medians["plain_tasks"],
            "times_plain_actors": median / medians["plain_actors"],
            "pairs_per_s": rates[name],
        }
        for name, median in medians.items()
    }
    for name, row in rows.items():
        print(
            f"{name:<15} pair: median {row['median_ms']:8.1f} ms, p95 {row['p95_ms']:8.1f} ms, "
            f"{row['times_plain_tasks']:6.1f} x tasks, {row['times_plain_actors']:5.2f} x actors; "
            f"{arguments.at_once} at once: {row['pairs_per_s']:6.2f} pairs/s"
        )
    written = {
        "machine": found,
        "pairs": arguments.pairs,
        "at_once": arguments.at_once,
        "rows": rows,
    }
    write_report(arguments.json, written)


if __name__ == "__main__":
    sys.exit(main())
