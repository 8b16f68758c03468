"""Facts about how trials ended: evaluated, decided, served, or ended without a decision."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from ledger.entry_fields import UNSEALED
from ledger.records import Split, TrialKind, Verdict
from ledger.states import Reason, TrialState


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEvaluated:
    kind: ClassVar[str] = "trial_evaluated"
    attempt_id: str
    trial_id: str
    split: Split
    bundle_digest: str
    artifact_digest: str
    value: float
    scores: Mapping[str, float]
    items_digest: str | None
    last: bool
    """Whether every split the trial needs is now scored (evaluating becomes deciding)."""
    items: tuple[float, ...] = field(default=(), repr=False, metadata=UNSEALED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialDecided:
    kind: ClassVar[str] = "trial_decided"
    trial_id: str
    candidate_id: str
    trial_kind: TrialKind
    verdict: Verdict
    reason: Reason
    value: float | None
    compared_with: str | None
    margin: float
    noise_floor: float
    finish_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialServed:
    """A duplicate was answered from the ledger: no compute, the earlier trial's value."""

    kind: ClassVar[str] = "trial_served"
    trial_id: str
    of_trial: str
    value: float | None
    finish_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnded:
    """A trial ended without a decision: pruned, failed or cancelled."""

    kind: ClassVar[str] = "trial_ended"
    trial_id: str
    candidate_id: str
    trial_kind: TrialKind
    current: TrialState
    new: TrialState
    reason: Reason
    detail: str
    finish_seq: int


TrialEntry: TypeAlias = TrialEvaluated | TrialDecided | TrialServed | TrialEnded
