"""Facts about the gate: families opened, the holdout used, how they ended, and promotions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from ledger.records import Json
from ledger.states import FamilyState, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyOpened:
    kind: ClassVar[str] = "family_opened"
    family_id: str
    number: int
    model: str
    bundle_digest: str
    profile: Mapping[str, Json]
    candidates: tuple[str, ...]
    incumbent_id: str
    pool: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutUsed:
    """One use of a bundle's holdout split, counted across studies."""

    kind: ClassVar[str] = "holdout_used"
    family_id: str
    bundle_digest: str
    use: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyMoved:
    kind: ClassVar[str] = "family_moved"
    family_id: str
    current: FamilyState
    new: FamilyState
    reason: Reason
    evidence: Mapping[str, Json]
    detail: str = ""
    """What its study says of it from now on; empty: what it said before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidatePromoted:
    """The candidate is the model's incumbent now. Written with all its evidence or not at all."""

    kind: ClassVar[str] = "candidate_promoted"
    model: str
    incumbent_seq: int
    candidate_id: str
    previous_id: str | None
    family_id: str
    comparison: str
    artifact_digest: str
    approver: str
    evidence: Mapping[str, Json]
    note: str = ""
    """What the approver said."""
    lineage: Mapping[str, Json] = field(default_factory=dict)
    """Link by link what the artifact was made of; empty where an older ARL promoted it."""


GateEntry: TypeAlias = FamilyOpened | HoldoutUsed | FamilyMoved | CandidatePromoted
