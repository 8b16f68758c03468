"""Whether a served model may have a name: paired comparisons over the items it was asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from evaluator.objective import as_maximized
from evaluator.paired import items_needed, non_inferiority
from ledger.records import Direction, Json

ALPHA: Final = 0.05
Against: TypeAlias = Literal["incumbent", "recorded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The candidate's answers against others to the same items."""

    against: Against
    """`incumbent`: what has the name now, asked the same; `recorded`: what the frozen evaluator
    gave the candidate's own artifact."""
    items: int
    difference: float
    """Mean of the candidate minus mean of the other, larger being better."""
    low95: float
    """One-sided: the true difference is larger than this with 95 % confidence."""
    gained: int
    lost: int
    holds: bool

    def document(self) -> dict[str, Json]:
        return {
            "against": self.against,
            "items": self.items,
            "difference": self.difference,
            "low95": self.low95,
            "gained": self.gained,
            "lost": self.lost,
            "holds": self.holds,
        }


def compare(
    against: Against,
    new: Sequence[float],
    old: Sequence[float],
    *,
    direction: Direction,
    margin: float,
) -> Comparison:
    """Non-inferiority, item by item. Raises ValueError: the items do not pair, or are fewer than
    two."""
    found = non_inferiority(
        [[as_maximized(value, direction) for value in new]],
        [[as_maximized(value, direction) for value in old]],
        margin=margin,
        alpha=ALPHA,
    )
    return Comparison(
        against=against,
        items=found.items,
        difference=found.difference,
        low95=found.lower,
        gained=found.gained,
        lost=found.lost,
        holds=found.p <= ALPHA,
    )


def passes(comparisons: Sequence[Comparison]) -> bool:
    """All of them hold, and there is one."""
    return bool(comparisons) and all(comparison.holds for comparison in comparisons)


def reason_of(comparisons: Sequence[Comparison], margin: float) -> str:
    """Why they do not pass, in one sentence; empty where they do."""
    failed = [c for c in comparisons if not c.holds]
    if not failed:
        return ""
    worst = min(failed, key=lambda c: c.low95)
    said = (
        f"against the {worst.against} answers it gains {worst.gained} and loses {worst.lost} of "
        f"{worst.items} items; it may be worse by {-worst.low95:.4g}, and {margin:g} is allowed"
    )
    needed = items_needed(margin, ALPHA)
    if not worst.lost and worst.items < needed:
        said += f" (so few items cannot show it: {needed} can, or a wider --margin)"
    return said
