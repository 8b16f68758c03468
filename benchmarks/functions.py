"""Functions with known minima on which optimizers are compared; all are minimised.

Sources: S. Surjanovic and D. Bingham, "Virtual Library of Simulation Experiments: Test
Functions and Datasets", Simon Fraser University (each formula, domain and minimum), which collects
them from Dixon and Szegö (1978, Branin, Hartmann, camel), Rosenbrock (1960), Rastrigin (1974),
Ackley (1987), Griewank (1981), Schwefel (1981), Michalewicz (1992), Styblinski and Tang (1990),
Laguna and Martí (2005, Levy).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

Point: TypeAlias = Sequence[float]


def sphere(x: Point) -> float:
    """sum x_i^2; minimum 0 at 0."""
    return math.fsum(v * v for v in x)


def rosenbrock(x: Point) -> float:
    """sum 100 (x_{i+1} - x_i^2)^2 + (x_i - 1)^2; minimum 0 at (1, …, 1)."""
    return math.fsum(100.0 * (b - a * a) ** 2 + (a - 1.0) ** 2 for a, b in pairwise(x))


def rastrigin(x: Point) -> float:
    """10 d + sum x_i^2 - 10 cos(2 pi x_i); minimum 0 at 0."""
    return 10.0 * len(x) + math.fsum(v * v - 10.0 * math.cos(2 * math.pi * v) for v in x)


def ackley(x: Point) -> float:
    """-20 exp(-0.2 sqrt(mean x_i^2)) - exp(mean cos 2 pi x_i) + 20 + e; minimum 0 at 0."""
    root = math.sqrt(math.fsum(v * v for v in x) / len(x))
    waves = math.fsum(math.cos(2 * math.pi * v) for v in x) / len(x)
    return -20.0 * math.exp(-0.2 * root) - math.exp(waves) + 20.0 + math.e


def griewank(x: Point) -> float:
    """sum x_i^2 / 4000 - prod cos(x_i / sqrt i) + 1; minimum 0 at 0."""
    product = math.prod(math.cos(v / math.sqrt(i)) for i, v in enumerate(x, 1))
    return math.fsum(v * v for v in x) / 4000.0 - product + 1.0


def levy(x: Point) -> float:
    """With w = 1 + (x - 1) / 4: sin^2(pi w_1) + sum_{i<d} (w_i - 1)^2 (1 + 10 sin^2(pi w_i + 1))
    + (w_d - 1)^2 (1 + sin^2(2 pi w_d)); minimum 0 at (1, …, 1)."""
    w = [1.0 + (v - 1.0) / 4.0 for v in x]
    middle = math.fsum(
        (v - 1.0) ** 2 * (1.0 + 10.0 * math.sin(math.pi * v + 1.0) ** 2) for v in w[:-1]
    )
    last = (w[-1] - 1.0) ** 2 * (1.0 + math.sin(2 * math.pi * w[-1]) ** 2)
    return math.sin(math.pi * w[0]) ** 2 + middle + last


def schwefel(x: Point) -> float:
    """418.9828872724 d - sum x_i sin sqrt |x_i|; minimum 0 at (420.9687, …)."""
    waves = math.fsum(v * math.sin(math.sqrt(abs(v))) for v in x)
    return 418.9828872724338 * len(x) - waves


def styblinski_tang(x: Point) -> float:
    """sum (x_i^4 - 16 x_i^2 + 5 x_i) / 2; minimum -39.16616570 d at (-2.903534, …)."""
    return math.fsum(v**4 - 16.0 * v * v + 5.0 * v for v in x) / 2.0


def branin(x: Point) -> float:
    """(x_2 - 5.1/(4 pi^2) x_1^2 + 5/pi x_1 - 6)^2 + 10 (1 - 1/(8 pi)) cos x_1 + 10; minimum
    0.397887 at (-pi, 12.275), (pi, 2.275) and (9.42478, 2.475)."""
    a, b = x
    bowl = b - 5.1 / (4 * math.pi**2) * a * a + 5.0 / math.pi * a - 6.0
    return bowl * bowl + 10.0 * (1.0 - 1.0 / (8 * math.pi)) * math.cos(a) + 10.0


_HARTMANN_ALPHA: Final = (1.0, 1.2, 3.0, 3.2)
_HARTMANN_A: Final = (
    (10.0, 3.0, 17.0, 3.5, 1.7, 8.0),
    (0.05, 10.0, 17.0, 0.1, 8.0, 14.0),
    (3.0, 3.5, 1.7, 10.0, 17.0, 8.0),
    (17.0, 8.0, 0.05, 10.0, 0.1, 14.0),
)
_HARTMANN_P: Final = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)


def hartmann6(x: Point) -> float:
    """-sum_i alpha_i exp(-sum_j A_ij (x_j - P_ij)^2); minimum -3.32237."""
    return -math.fsum(
        alpha * math.exp(-math.fsum(a * (v - p) ** 2 for a, v, p in zip(aa, x, pp, strict=True)))
        for alpha, aa, pp in zip(_HARTMANN_ALPHA, _HARTMANN_A, _HARTMANN_P, strict=True)
    )


def michalewicz(x: Point) -> float:
    """-sum sin x_i sin^20(i x_i^2 / pi); minimum -4.687658 in five dimensions."""
    return -math.fsum(
        math.sin(v) * math.sin(i * v * v / math.pi) ** 20 for i, v in enumerate(x, 1)
    )


def six_hump_camel(x: Point) -> float:
    """(4 - 2.1 a^2 + a^4/3) a^2 + a b + (4 b^2 - 4) b^2; minimum -1.031628 at
    (0.0898, -0.7126) and (-0.0898, 0.7126)."""
    a, b = x
    return (4.0 - 2.1 * a * a + a**4 / 3.0) * a * a + a * b + (4.0 * b * b - 4.0) * b * b


@dataclass(frozen=True, slots=True)
class Known:
    """A function, the box it is searched in, and its lowest point."""

    value: Callable[[Point], float]
    low: float
    high: float
    dimensions: int
    minimum: float
    argmin: tuple[float, ...]
    shifts: bool = False
    """Whether the box is moved so that the lowest point is not in its middle."""
    second: tuple[float, float] | None = None
    """The range of the second coordinate, where it is another one."""

    def box(self) -> list[tuple[float, float]]:
        ranges = [(self.low, self.high)] * self.dimensions
        return ranges if self.second is None else [ranges[0], self.second]


FUNCTIONS: Final[Mapping[str, Known]] = {
    "sphere": Known(sphere, -5.12, 5.12, 5, 0.0, (0.0,) * 5, shifts=True),
    "rosenbrock": Known(rosenbrock, -2.048, 2.048, 4, 0.0, (1.0,) * 4),
    "rastrigin": Known(rastrigin, -5.12, 5.12, 5, 0.0, (0.0,) * 5, shifts=True),
    "ackley": Known(ackley, -32.768, 32.768, 5, 0.0, (0.0,) * 5, shifts=True),
    "griewank": Known(griewank, -50.0, 50.0, 5, 0.0, (0.0,) * 5, shifts=True),
    "levy": Known(levy, -10.0, 10.0, 5, 0.0, (1.0,) * 5),
    "schwefel": Known(schwefel, -500.0, 500.0, 4, 0.0, (420.9687462275036,) * 4),
    "styblinski_tang": Known(
        styblinski_tang, -5.0, 5.0, 5, -39.16616570377142 * 5, (-2.903534027771177,) * 5
    ),
    "branin": Known(
        branin, -5.0, 10.0, 2, 0.39788735772973816, (math.pi, 2.275), second=(0.0, 15.0)
    ),
    "hartmann6": Known(
        hartmann6,
        0.0,
        1.0,
        6,
        -3.322368011391339,
        (0.20168952, 0.15001069, 0.47687398, 0.27533243, 0.31165162, 0.65730054),
    ),
    "michalewicz": Known(
        michalewicz,
        0.0,
        math.pi,
        5,
        -4.687658179088148,
        (2.20290552, 1.57079633, 1.28499157, 1.92305847, 1.72046977),
    ),
    "six_hump_camel": Known(
        six_hump_camel,
        -3.0,
        3.0,
        2,
        -1.0316284534898774,
        (0.08984201368301331, -0.7126564032704135),
        second=(-2.0, 2.0),
    ),
}
