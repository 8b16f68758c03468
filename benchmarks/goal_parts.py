"""The benchmarks of the table of goals: how each is run, and how long that takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One `python -m benchmarks.MODULE --json FILE`; the rest of its command line by size."""

    name: str
    module: str
    minutes: int
    """On two idle cores, everything it needs being installed."""
    whole: Sequence[str] = ()
    quick: Sequence[str] = ()
    """A try of everything that says little: minutes instead of hours."""
    exits: Sequence[int] = (0,)
    """1 where a goal that was missed is told by the exit code, too."""


PARTS: Final = (
    Part(
        name="noop",
        module="noop",
        minutes=9,
        whole=("--trials", "200", "--peers"),
        quick=("--trials", "60", "--parallel-trials", "60", "--growth-trials", "800"),
    ),
    Part(
        name="asking",
        module="asking",
        minutes=3,
        quick=("--trials", "60", "--rounds", "1", "--without-peers"),
    ),
    Part(name="values", module="values", minutes=1, quick=("--without-peers",)),
    Part(
        name="service",
        module="service",
        minutes=20,
        quick=("--trials", "1000", "--asked", "50", "--without-peers"),
    ),
    Part(
        name="scale",
        module="scale",
        minutes=20,
        whole=("--sizes", "20000,1000000"),
        quick=("--sizes", "200,1000"),
    ),
    Part(
        name="starting",
        module="starting",
        minutes=2,
        quick=("--trials", "500", "--rounds", "1", "--without-peers"),
    ),
    Part(
        name="workers",
        module="workers",
        minutes=10,
        quick=("--workers", "1", "2", "--trials", "40", "--rounds", "1"),
    ),
    Part(
        name="containers",
        module="containers",
        minutes=4,
        whole=("--rounds", "3", "--pairs", "5"),
        quick=("--rounds", "1", "--pairs", "1"),
        exits=(0, 1),
    ),
    Part(
        name="integrity",
        module="integrity_cost",
        minutes=20,
        whole=("--pair-s", "60", "--rounds", "1"),
        quick=("--pair-s", "2", "--rounds", "1"),
        exits=(0, 1),
    ),
    Part(
        name="programs",
        module="programs",
        minutes=15,
        quick=("--repeats", "1", "--only", "sft"),
        exits=(0, 1),
    ),
    Part(
        name="proposers",
        module="proposers",
        minutes=30,
        whole=("--batch", "1", "--peers", "--packages"),
        quick=("--quick",),
    ),
    Part(
        name="pruning",
        module="pruning",
        minutes=40,
        quick=("--studies", "2", "--few", "1", "--trials", "20", "--pruner", "power_law"),
    ),
    Part(
        name="decisions",
        module="decisions",
        minutes=10,
        quick=("--runs", "20"),
    ),
    Part(
        name="promotions",
        module="promotions",
        minutes=3,
        quick=("--megabytes", "20", "--promotions", "20"),
    ),
    Part(name="ray", module="ray_overhead", minutes=5, quick=("--pairs", "2")),
)
BY_NAME: Final = {part.name: part for part in PARTS}
