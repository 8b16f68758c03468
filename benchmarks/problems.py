"""What the proposers are compared on: a space, a true value for each point, and noise."""

import functools
import json
import math
import random
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.functions import FUNCTIONS, Known, branin, six_hump_camel
from benchmarks.lookup import ExactTable, NearestRows
from benchmarks.table_spaces import SPACES
from ledger.records import Direction, Params
from proposers.host import number_rng
from proposers.search_space import Categorical, Float, Int, SearchSpace, sample

TABLES: Final = Path(__file__).parent / "tables"
Surface: TypeAlias = Callable[[Params], float]

REFERENCE_POINTS: Final = 256
SHIFT_SHARE: Final = 0.35
"""A box is moved by at most this share of its width, so its lowest point stays inside."""
NOISE_SHARE: Final = 0.05
"""Noise of the noisy functions, as a share of what lies between a usual point and the best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    name: str
    kind: str
    """function, variant, switching, table (recorded here) or package (recorded elsewhere)"""
    space: SearchSpace
    best: float
    """The best true value there is."""
    surface: Callable[[int], Surface]
    """The true value of each point, in the instance of a seed."""
    direction: Direction = Direction.MINIMIZE
    noise_floor: float = 0.0
    """Standard deviation of what is told around the true value."""
    noise: Callable[[random.Random], float] = lambda rng: 0.0

    def usual(self) -> float:
        """The true value of a usual point: the median over points drawn at random."""
        return _usual(self)

    def regret(self, value: float) -> float:
        """How far a true value is from the best: 0 is the best, 1 is a usual point."""
        return abs(value - self.best) / abs(self.usual() - self.best)


_USUAL: Final[dict[str, float]] = {}


def _usual(problem: Problem) -> float:
    if problem.name not in _USUAL:
        drawn = []
        for seed in range(REFERENCE_POINTS):
            surface = problem.surface(seed)
            drawn.append(surface(sample(problem.space, number_rng(seed, -2))))
        _USUAL[problem.name] = statistics.median(drawn)
    return _USUAL[problem.name]


def problems(package_tables: Path | None = None) -> dict[str, Problem]:
    """All by name: functions, variants of them, and the tables that are there."""
    found = [function(name) for name in FUNCTIONS]
    found += [mixed(), conditional(), two_valleys(), hidden_valley(), wide_valley()]
    found += [noisy(name) for name in ("branin", "hartmann6", "ackley")]
    found += [table(path) for path in sorted(TABLES.glob("*.json")) if path.stem in SPACES]
    if package_tables is not None:
        found += [package_table(path) for path in sorted(package_tables.glob("*.json"))]
    return {problem.name: problem for problem in found}


# --- functions -----------------------------------------------------------------------------------


def function(name: str) -> Problem:
    known = FUNCTIONS[name]
    space = {f"x{i}": Float(low, high) for i, (low, high) in enumerate(known.box())}
    return Problem(
        name=name,
        kind="function",
        space=space,
        best=known.minimum,
        surface=lambda seed: _instance(known, seed),
    )


def _instance(known: Known, seed: int) -> Surface:
    rng = random.Random(f"shift/{seed}")
    width = (known.high - known.low) * SHIFT_SHARE if known.shifts else 0.0
    shifts = [width * rng.uniform(-1.0, 1.0) for _ in range(known.dimensions)]

    def surface(params: Params) -> float:
        return known.value([float(params[f"x{i}"]) - s for i, s in enumerate(shifts)])

    return surface


def noisy(name: str) -> Problem:
    """The function with normal noise on every value that is told."""
    plain = function(name)
    deviation = NOISE_SHARE * abs(plain.usual() - plain.best)
    return Problem(
        name=f"{name}_noisy",
        kind="variant",
        space=plain.space,
        best=plain.best,
        surface=plain.surface,
        noise_floor=deviation,
        noise=lambda rng: rng.gauss(0.0, deviation),
    )


def mixed() -> Problem:
    """Shifted Ackley in six dimensions, two of them whole numbers, one logarithmic and one a
    choice whose values are in no order."""
    places = {"relu": 3.0, "gelu": -1.0, "tanh": 0.0, "silu": 2.0, "elu": -4.0, "mish": 1.0}
    space: SearchSpace = {
        "a": Float(-8.0, 8.0),
        "b": Float(-8.0, 8.0),
        "depth": Int(1, 16),
        "units": Int(1, 256, log=True),
        "rate": Float(1e-6, 1e-1, log=True),
        "kind": Categorical(tuple(places)),
    }
    ackley = FUNCTIONS["ackley"].value

    def build(seed: int) -> Surface:
        rng = random.Random(f"mixed/{seed}")
        a, b = rng.uniform(-6.0, 6.0), rng.uniform(-6.0, 6.0)
        depth, units, rate = rng.randint(3, 14), rng.randint(1, 7), rng.uniform(-5.0, -2.0)

        def surface(params: Params) -> float:
            return ackley(
                [
                    float(params["a"]) - a,
                    float(params["b"]) - b,
                    float(int(params["depth"]) - depth),
                    2.0 * (math.log2(int(params["units"])) - units),
                    3.0 * (math.log10(float(params["rate"])) - rate),
                    places[str(params["kind"])],
                ]
            )

        return surface

    return Problem(name="ackley_mixed", kind="variant", space=space, best=0.0, surface=build)


def conditional() -> Problem:
    """One of three functions is chosen; all have `u`, and each a second coordinate that exists
    only then. The camel is the lowest, the sphere the safest."""
    boxes = {
        "sphere": [(-5.0, 5.0), (-5.0, 5.0)],
        "branin": FUNCTIONS["branin"].box(),
        "camel": FUNCTIONS["six_hump_camel"].box(),
    }
    space: dict[str, Float | Categorical] = {"which": Categorical(tuple(boxes)), "u": SHARE}
    for which in boxes:
        space[f"{which}_v"] = Float(0.0, 1.0, when=(("which", (which,)),))

    def surface(params: Params) -> float:
        which = str(params["which"])
        shares = float(params["u"]), float(params[f"{which}_v"])
        x = [
            low + share * (high - low)
            for share, (low, high) in zip(shares, boxes[which], strict=True)
        ]
        if which == "camel":
            return 20.0 * (six_hump_camel(x) - FUNCTIONS["six_hump_camel"].minimum)
        if which == "branin":
            return 5.0 + branin(x) - FUNCTIONS["branin"].minimum
        return 2.0 + math.fsum(v * v for v in x)

    return Problem(
        name="conditional", kind="variant", space=space, best=0.0, surface=lambda seed: surface
    )


SHARE: Final = Float(0.0, 1.0)
VALLEY_RADIUS: Final = 0.2
"""One point in thirty lies in the valley."""
VALLEY_CORNERS: Final = 3


def valley(
    *,
    name: str,
    wide: Callable[[float], float],
    rim: float,
    radius: float = VALLEY_RADIUS,
) -> Problem:
    """A narrow valley from `rim` down to 0 near one corner of a cube, and elsewhere `wide` of how
    far the opposite corner is (0 to 1)."""
    space = {f"x{i}": Float(0.0, 1.0) for i in range(VALLEY_CORNERS)}

    def build(seed: int) -> Surface:
        rng = random.Random(f"valleys/{seed}")
        is_high = [rng.random() < 0.5 for _ in range(VALLEY_CORNERS)]
        opposite = [0.2 if high else 0.8 for high in is_high]
        middle = [rng.uniform(0.7, 0.78) if high else rng.uniform(0.22, 0.3) for high in is_high]

        def surface(params: Params) -> float:
            x = [float(params[f"x{i}"]) for i in range(VALLEY_CORNERS)]
            near = math.dist(x, middle) / radius
            around = wide(math.dist(x, opposite) / math.sqrt(VALLEY_CORNERS))
            return min(around, rim * near) if near < 1.0 else around

        return surface

    return Problem(name=name, kind="switching", space=space, best=0.0, surface=build)


def two_valleys() -> Problem:
    """Around the valley a wide bowl leads away from it, to a floor above the valley's. Whoever
    follows the slope is ahead first and stays in the bowl; whoever draws at random is ahead
    later, and in the valley the slope is what helps."""
    return valley(name="two_valleys", wide=lambda far: 0.6 + 0.4 * min(1.0, far / 0.6), rim=0.54)


def hidden_valley() -> Problem:
    """Around the valley all is flat: nothing but chance finds it, and in it nothing but its slope
    leads down."""
    return valley(name="hidden_valley", wide=lambda far: 1.0, rim=0.72)


def wide_valley() -> Problem:
    """The same with one point in ten in the valley: whoever draws at random finds it soon, and is
    then left behind by whoever follows its slope, but finds it later."""
    return valley(name="wide_valley", wide=lambda far: 1.0, rim=0.72, radius=0.3)


# --- tables --------------------------------------------------------------------------------------


def table(path: Path) -> Problem:
    """Real training runs recorded by `benchmarks.record_tables`, between rows by their nearest."""
    rows = NearestRows(SPACES[path.stem], json.loads(path.read_text())["rows"])
    return Problem(
        name=f"table_{path.stem}",
        kind="table",
        space=SPACES[path.stem],
        best=rows.best,
        surface=lambda seed: rows.value,
        direction=Direction.MAXIMIZE,
        noise_floor=rows.noise_floor,
        noise=rows.noise,
    )


def package_table(path: Path) -> Problem:
    """A full table of a package, every point of the space recorded with several seeds."""
    rows = ExactTable.read(path)
    return Problem(
        name=path.stem,
        kind="package",
        space=rows.space,
        best=rows.best,
        surface=lambda seed: rows.value,
        direction=rows.direction,
        noise_floor=rows.noise_floor,
        noise=rows.noise,
    )


@functools.cache
def all_problems(package_tables: Path | None = None) -> Mapping[str, Problem]:
    """`problems`, read once in each process."""
    return problems(package_tables)
