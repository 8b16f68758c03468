"""Non-inferiority of paired item scores: whether a converted model may count as no worse.

Larger is better throughout; callers orient their values with `evaluator.objective` first.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist
from typing import Final, Literal, TypeAlias

from evaluator.statistics import mean, student_t_ppf, student_t_sf, tie_tolerance, variance

FLIPS_EXACT: Final = 14
"""Up to so many items every way of flipping signs is tried (16,384)."""
FLIPS_DRAWN: Final = 200
"""Up to so many, a seeded draw of them; beyond, a mean of so many items is as good as normal."""
DRAWS: Final = 2000

TestName: TypeAlias = Literal["tango", "paired"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NonInferiority:
    """What a test of H0 "worse by `margin` or more" found."""

    test: TestName
    items: int
    difference: float
    """Mean of new minus old."""
    lower: float
    """One-sided confidence bound of it, at 1 - alpha."""
    p: float
    gained: int
    """Items on which the new one scores higher."""
    lost: int
    """Items on which it scores lower."""


def non_inferiority(
    new: Sequence[Sequence[float]], old: Sequence[Sequence[float]], *, margin: float, alpha: float
) -> NonInferiority:
    """Compare `new` with `old` item by item; each holds one list of item scores a seed.

    One seed of items that are 0 or 1: Tango's score test for paired proportions (Statistics in
    Medicine 1998), which stays honest when few items or none changed. Otherwise each item's
    difference is averaged over the seeds, so that an item counts once however many seeds there
    are, and p is the larger of a one-sided paired t test's and, up to FLIPS_DRAWN items, of
    Fisher's sign-flip test's.

    Raises:
        ValueError: the lists do not pair, hold fewer than two items, or margin is not above 0.
    """
    if not margin > 0 or not 0 < alpha < 0.5:
        raise ValueError(f"margin {margin} must be above 0, and alpha {alpha} between 0 and 0.5")
    differences = _differences(new, old)
    gained = sum(d > 0 for d in differences)
    lost = sum(d < 0 for d in differences)
    is_binary = len(new) == 1 and {*new[0], *old[0]} <= {0.0, 1.0}
    if is_binary:
        p = _tango_p(gained, lost, len(differences), -margin)
        lower = _tango_lower(gained, lost, len(differences), alpha)
    else:
        p, lower = _paired(differences, margin, alpha)
    return NonInferiority(
        test="tango" if is_binary else "paired",
        items=len(differences),
        difference=mean(differences),
        lower=lower,
        p=p,
        gained=gained,
        lost=lost,
    )


def items_needed(margin: float, alpha: float) -> int:
    """How many 0-or-1 items it takes to pass at all: with fewer even a model that answers every
    one alike cannot show that it is no worse by `margin`."""
    z = NormalDist().inv_cdf(1.0 - alpha)
    return math.ceil(z * z * (1.0 - margin) / margin) if margin < 1 else 1


def _differences(new: Sequence[Sequence[float]], old: Sequence[Sequence[float]]) -> list[float]:
    """Each item's, averaged over the seeds; what is no more than rounding is 0."""
    lengths = {len(one) for one in (*new, *old)}
    if len(new) != len(old) or len(lengths) != 1 or min(lengths) < 2:
        raise ValueError("every seed needs the same items on both sides, two at the least")
    found = []
    for index in range(lengths.pop()):
        pairs = [(a[index], b[index]) for a, b in zip(new, old, strict=True)]
        difference = mean([a - b for a, b in pairs])
        rounding = tie_tolerance([value for pair in pairs for value in pair])
        found.append(0.0 if abs(difference) <= rounding else difference)
    return found


# --- items that are 0 or 1 ---------------------------------------------------------------------


def _tango_z(gained: int, lost: int, count: int, delta: float) -> float:
    """Tango's score statistic of H0: P(gain) - P(loss) = delta."""
    a = 2.0 * count
    b = -gained - lost + (2.0 * count - gained + lost) * delta
    c = -lost * delta * (1.0 - delta)
    # The probability of a loss under H0, by maximum likelihood.
    q = (math.sqrt(max(0.0, b * b - 4.0 * a * c)) - b) / (2.0 * a)
    spread = count * (2.0 * q + delta * (1.0 - delta))
    shift = gained - lost - count * delta
    return shift / math.sqrt(spread) if spread > 0 else math.copysign(math.inf, shift)


def _tango_p(gained: int, lost: int, count: int, delta: float) -> float:
    if delta <= -1.0:
        return 0.0
    return 0.5 * math.erfc(_tango_z(gained, lost, count, delta) / math.sqrt(2.0))


def _tango_lower(gained: int, lost: int, count: int, alpha: float) -> float:
    """The smallest difference that the test does not reject, by bisection."""
    low, high = -1.0, (gained - lost) / count
    for _ in range(60):
        middle = (low + high) / 2.0
        if _tango_p(gained, lost, count, middle) <= alpha:
            low = middle
        else:
            high = middle
    return low


# --- any other items ---------------------------------------------------------------------------


def _paired(differences: Sequence[float], margin: float, alpha: float) -> tuple[float, float]:
    """p and the lower bound of the mean difference."""
    count, centre = len(differences), mean(differences)
    error = math.sqrt(variance(differences) / count)
    if error == 0.0:
        p, lower = (0.0 if centre > -margin else 1.0), centre
    else:
        p = student_t_sf((centre + margin) / error, count - 1)
        lower = centre - student_t_ppf(1.0 - alpha, count - 1) * error
    if count <= FLIPS_DRAWN:
        p = max(p, _flip_p([d + margin for d in differences]))
    return p, lower


def _flip_p(values: Sequence[float]) -> float:
    """One-sided: the share of all ways to flip signs whose sum is at least the one seen. Drawn
    ways count the seen one in, which keeps the test valid (Phipson & Smyth 2010)."""
    enough = math.fsum(values) - tie_tolerance(values)
    if len(values) <= FLIPS_EXACT:
        flips = product((1.0, -1.0), repeat=len(values))
        sums = [sum(s * v for s, v in zip(signs, values, strict=True)) for signs in flips]
        return sum(total >= enough for total in sums) / len(sums)
    draws = random.Random(0)
    reached = 1
    for _ in range(DRAWS):
        bits = draws.getrandbits(len(values))
        total = sum(v if bits >> i & 1 else -v for i, v in enumerate(values))
        reached += total >= enough
    return reached / (DRAWS + 1)
