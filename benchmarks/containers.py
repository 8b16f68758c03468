"""What a trial in a container or a sandbox costs through ARL, beside the same two run bare.

    python -m benchmarks.containers --json FILE [--rounds 5] [--pairs 8] [--leaks N]

A pair is a training and an evaluating container, one after the other. ARL's are those of
`arl run` with every commit durable, its times taken from the ledger; the bare ones are created,
started, waited for and removed through the same engine, from the same image. All take turns,
round by round, since machines are noisy. With --leaks it runs so many container trials instead
and lists what they left. DOCKER_HOST names an engine; without it root gets a private one.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks import container_bare as bare
from benchmarks.container_leaks import run_for_leaks, tell
from benchmarks.noop import intervals_ms, rate_per_s
from benchmarks.noop_arl import run_study
from benchmarks.reports import machine, write_report
from targets.registry import problem_of

if TYPE_CHECKING:
    from docker import DockerClient

AT_ONCE: Final = 4
SERIAL_GOAL: Final = 1.2
RATE_GOAL: Final = 0.8
SANDBOX_GOAL_MS: Final = 250.0


@dataclass
class Figures:
    """Milliseconds a pair, one after the other; and pairs a second, four at once."""

    serial_ms: dict[str, list[float]] = field(default_factory=dict)
    rates_per_s: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, serial_ms: list[float], rate: float) -> None:
        self.serial_ms.setdefault(name, []).extend(serial_ms)
        self.rates_per_s.setdefault(name, []).append(rate)


@dataclass(frozen=True)
class Goal:
    """What should hold of two medians."""

    what: str
    measured: float
    limit: float
    at_most: bool

    @property
    def is_met(self) -> bool:
        return self.measured <= self.limit if self.at_most else self.measured >= self.limit

    def line(self) -> str:
        sign = "≤" if self.at_most else "≥"
        return f"{self.what}: {self.measured:.2f} (goal {sign} {self.limit:g}): " + (
            "met" if self.is_met else "MISSED"
        )


def arl_round(
    figures: Figures, name: str, work: Path, pairs: int, target: Mapping[str, object]
) -> None:
    sections = {"target": dict(target)}
    serial = run_study(work / "serial", trials=pairs + 1, sections=sections)
    many = run_study(
        work / "many", trials=AT_ONCE * (pairs + 1), parallel=AT_ONCE, sections=sections
    )
    figures.add(name, intervals_ms(serial.ended_s), rate_per_s(many.ended_s, AT_ONCE))


def bare_round(figures: Figures, name: str, pairs: int, pair: Callable[[], float]) -> None:
    serial = [pair() for _ in range(pairs + 1)][1:]
    rate = bare.pairs_per_s(pair, at_once=AT_ONCE, pairs=AT_ONCE * pairs)
    figures.add(name, serial, rate)


def containers_round(
    figures: Figures, client: "DockerClient", image: str, work: Path, pairs: int
) -> None:
    def pair(network: str) -> Callable[[], float]:
        return lambda: bare.container_pair_ms(client, image, network)

    bare_round(figures, "bare containers, no network", pairs, pair("none"))
    docker = {"name": "docker", "image": image}
    arl_round(figures, "ARL, docker", work, pairs, docker)
    bare_round(figures, "bare containers, bridge", pairs, pair("bridge"))
    arl_round(figures, "ARL, docker without image", work, pairs, {"name": "docker"})


def sandboxes_round(figures: Figures, work: Path, pairs: int) -> None:
    bare_round(figures, "bare bwrap", pairs, bare.sandbox_pair_ms)
    arl_round(figures, "ARL, bubblewrap", work, pairs, {"name": "bubblewrap"})


def goals_of(figures: Figures) -> list[Goal]:
    serial = {name: statistics.median(times) for name, times in figures.serial_ms.items()}
    rates = {name: statistics.median(times) for name, times in figures.rates_per_s.items()}
    goals = []
    for ours in ("ARL, docker", "ARL, docker without image"):
        if ours in serial:
            theirs = "bare containers, no network"
            ratio, share = serial[ours] / serial[theirs], rates[ours] / rates[theirs]
            goals.append(Goal(f"{ours} / {theirs}, serial", ratio, SERIAL_GOAL, at_most=True))
            goals.append(
                Goal(f"{ours} / {theirs}, {AT_ONCE} at once", share, RATE_GOAL, at_most=False)
            )
    if "ARL, bubblewrap" in serial:
        took_ms = serial["ARL, bubblewrap"]
        goals.append(Goal("ARL, bubblewrap, ms a pair", took_ms, SANDBOX_GOAL_MS, at_most=True))
    return goals


def print_table(figures: Figures) -> None:
    print(f"{'pairs of':<30} {'serial ms':>10} {'p95 ms':>9} {f'{AT_ONCE} at once, pairs/s':>20}")
    for name, times in figures.serial_ms.items():
        p95 = sorted(times)[int(0.95 * (len(times) - 1))]
        rate = statistics.median(figures.rates_per_s[name])
        print(f"{name:<30} {statistics.median(times):>10.1f} {p95:>9.1f} {rate:>20.2f}")


def measure(arguments: argparse.Namespace, docker_problem: str | None) -> dict[str, object]:
    figures, problems = Figures(), {"docker": docker_problem}
    problems["bubblewrap"] = problem_of("bubblewrap", {})
    client = None if docker_problem else _client()
    image = "" if client is None else bare.shell_image(client)
    with tempfile.TemporaryDirectory(prefix="arl-bench-") as work:
        for number in range(arguments.rounds):
            if client is not None:
                containers_round(figures, client, image, Path(work), arguments.pairs)
            if problems["bubblewrap"] is None:
                sandboxes_round(figures, Path(work), arguments.pairs)
            print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
    if client is not None:
        client.close()
    for name, problem in problems.items():
        if problem is not None:
            print(f"{name} is not measured: {problem}")
    print_table(figures)
    goals = goals_of(figures)
    for goal in goals:
        print(goal.line())
    return {
        "not_measured": {name: problem for name, problem in problems.items() if problem},
        "serial_ms": {n: statistics.median(t) for n, t in figures.serial_ms.items()},
        "pairs_per_s": {n: statistics.median(r) for n, r in figures.rates_per_s.items()},
        "all_serial_ms": figures.serial_ms,
        "all_pairs_per_s": figures.rates_per_s,
        "goals": [
            {
                "what": g.what,
                "measured": g.measured,
                "goal": g.limit,
                "at_most": g.at_most,
                "met": g.is_met,
            }
            for g in goals
        ],
    }


def find_leaks(trials: int) -> dict[str, object]:
    client = _client()
    with tempfile.TemporaryDirectory(prefix="arl-leaks-") as work:
        image = bare.shell_image(client)
        left = run_for_leaks(client, Path(work, "study"), trials=trials, image=image)
    client.close()
    print(tell(left, trials))
    return {"trials": trials, "left": left}


def _client() -> "DockerClient":
    import docker

    return docker.DockerClient(base_url=os.environ["DOCKER_HOST"], timeout=60)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=8, help="one after the other, each round")
    parser.add_argument("--leaks", type=int, metavar="N", help="run N trials, list what is left")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    arguments = parser.parse_args()
    problem = bare.docker_problem("benchmarks.containers")
    if arguments.leaks and problem is not None:
        print(f"containers cannot be run: {problem}", file=sys.stderr)
        return 1
    report = find_leaks(arguments.leaks) if arguments.leaks else measure(arguments, problem)
    write_report(arguments.json, {"machine": machine(), **report})
    left, goals = report.get("left", {}), report.get("goals", [])
    is_good = not any(left.values()) if isinstance(left, dict) else False
    missed = [g for g in goals if not g["met"]] if isinstance(goals, list) else []
    return 0 if is_good and not missed else 1


if __name__ == "__main__":
    sys.exit(main())
