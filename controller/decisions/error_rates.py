"""How often the gate errs and what it finds, by profile, as its simulation measured it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ErrorRates:
    """Shares of studies of 100 screened candidates, under normal noise and alpha 0.05."""

    false_promotion: float
    """Something is promoted although no candidate is better than the incumbent."""
    power: Mapping[float, float]
    """A better candidate is promoted, by how many standard deviations the 5 % better ones gain."""


# `python -m benchmarks.decisions` measures them for other noise too; 10,000 studies a figure.
ERROR_RATES: Final[Mapping[str, ErrorRates]] = {
    "quick": ErrorRates(0.017, {1.0: 0.10, 2.0: 0.67, 3.0: 0.97}),
    "thorough": ErrorRates(0.020, {1.0: 0.22, 2.0: 0.90, 3.0: 1.00}),
}
