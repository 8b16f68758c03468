"""Whether an attempt that brought nothing is tried again, and when. Reads whose fault it was,
never a message."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controller.spec.study import RetriesSpec
from ledger.records import TrialKind
from ledger.states import FaultClass, Reason, fault_class

FIRST_DELAY_S: Final = 1.0
LONGEST_DELAY_S: Final = 60.0

POINTLESS: Final = frozenset(
    {Reason.BUNDLE_CHANGED, Reason.INVALID_PLAN, Reason.MALFORMED_PATCH, Reason.NO_CHANGE}
)
"""The same input ends the same way every time."""

FREE: Final = frozenset({Reason.HOST_GONE, Reason.PAUSED_BY_OPERATOR})
"""The operator took the attempt's machine away and wants the trial: tried again at once, as
often as it takes."""


@dataclass(frozen=True, slots=True)
class Retry:
    delay_s: float
    """Wait so long before the next attempt is launched."""


def decide_retry(
    reason: Reason,
    failures: Mapping[FaultClass, int],
    limits: RetriesSpec,
    *,
    seed: int,
    kind: TrialKind = TrialKind.SEARCH,
) -> Retry | None:
    """A new attempt for the trial, or None: it fails with `reason`.

    `failures` counts the trial's attempts that ended without an outcome, by whose fault it was,
    this one included. Only search trials are retried after the candidate's own failure: trying a
    baseline or a replay until it works would leave its bad seeds out of the comparison.
    """
    if reason in FREE:
        return Retry(delay_s=0.0)
    whose = fault_class(reason)
    failed = max(1, failures.get(whose, 1))
    if reason in POINTLESS or failed > _limit(whose, limits, kind):
        return None
    return Retry(delay_s=_delay_s(failed, seed))


def _limit(whose: FaultClass, limits: RetriesSpec, kind: TrialKind) -> int:
    match whose:
        case FaultClass.INFRASTRUCTURE:
            return limits.infrastructure
        case FaultClass.EVALUATOR:
            return limits.evaluator
        case FaultClass.CANDIDATE if kind is TrialKind.SEARCH:
            return limits.candidate
        case _:
            return 0


def _delay_s(failed: int, seed: int) -> float:
    """Doubles with each failure; between half of it and all of it, by the seed, so that trials
    that failed together do not come back together."""
    longest = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(failed - 1, 30))
    drawn = hashlib.sha256(f"{seed}/{failed}".encode()).digest()
    share = int.from_bytes(drawn[:4], "big") / 2**32
    return longest * (0.5 + share / 2)
