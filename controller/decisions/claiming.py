"""Which studies a worker takes, and which it leaves to the others that serve the same ledger."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

UNFIT: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """A study with work that nobody drives."""

    study_id: str
    priority: int = 0
    created_at: float = 0.0
    free_for_s: float = 0.0
    """How long this worker has seen nobody take it."""
    fits: bool = True
    """Whether this worker's machine has what one trial of it needs."""


def fair_part(studies: int, workers: int) -> int:
    """How many of the studies with work a worker takes before the others have theirs."""
    return math.ceil(studies / max(1, workers))


def studies_to_claim(
    free: Sequence[Free], *, driven: int, studies: int, workers: int, patience_s: float
) -> list[str]:
    """Those to claim now, in that order: the highest priority first, of these the oldest. Beyond
    its fair part a worker takes only what nobody took for `patience_s`, and what its machine is
    too small for only after `UNFIT` times as long: somebody has to hear that it is cancelled."""
    left = fair_part(studies, workers) - driven
    found: list[str] = []
    for one in sorted(free, key=lambda one: (-one.priority, one.created_at, one.study_id)):
        patience = patience_s if one.fits else UNFIT * patience_s
        if (one.fits and len(found) < left) or one.free_for_s >= patience:
            found.append(one.study_id)
    return found


def how_many_to_hand_over(*, driven: int, others: Mapping[str, int], studies: int) -> int:
    """How many to give back because other workers have too few: `others` is how many each
    drives. Afterwards nobody drives two more than another."""
    workers = len(others) + 1
    parts = (studies // workers, fair_part(studies, workers))
    return max(
        min(sum(max(0, part - count) for count in others.values()), max(0, driven - part))
        for part in parts
    )
