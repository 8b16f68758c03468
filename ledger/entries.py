"""One class per fact. A fact is the row change and the ledger entry in one: `ledger.writes`
projects it onto the tables and seals it into the study's chain in the same transaction.

Names are in the past tense (`trial_decided`), except the intent written before an effect
(`attempt_launching`). Studies' own facts are here, the others in the files that are imported.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from ledger.attempt_entries import (
    ArtifactRecorded,
    AttemptEnded,
    AttemptEntry,
    AttemptExited,
    AttemptLaunching,
    AttemptStarted,
    NetworkRequested,
    ValuesReported,
)
from ledger.conversion_entries import ConversionEntry
from ledger.entry_fields import sealed_names
from ledger.gate_entries import (
    CandidatePromoted,
    FamilyMoved,
    FamilyOpened,
    GateEntry,
    HoldoutUsed,
)
from ledger.import_entries import ImportEntry
from ledger.proposal_entries import (
    CandidateProposed,
    ModelCalled,
    ModelCallsReserved,
    ModelCallsSettled,
    ProposalEntry,
    ProposalsMade,
    ProposerWaits,
)
from ledger.records import CommandVerb, Json, PausedBy, Resource
from ledger.retention_entries import ArtifactReleased
from ledger.service_entries import ServiceEntry
from ledger.setting_entries import SettingChanged
from ledger.states import Reason, StudyState
from ledger.trial_entries import TrialDecided, TrialEnded, TrialEntry, TrialEvaluated, TrialServed

__all__ = [
    "ArtifactRecorded",
    "AttemptEnded",
    "AttemptExited",
    "AttemptLaunching",
    "AttemptStarted",
    "BudgetChanged",
    "CandidatePromoted",
    "CandidateProposed",
    "CommandApplied",
    "Entry",
    "FamilyMoved",
    "FamilyOpened",
    "HoldoutUsed",
    "InputsFrozen",
    "ModelCalled",
    "ModelCallsReserved",
    "ModelCallsSettled",
    "NetworkRequested",
    "ProposalsMade",
    "ProposerWaits",
    "StudyMoved",
    "StudySubmitted",
    "TrialDecided",
    "TrialEnded",
    "TrialEvaluated",
    "TrialServed",
    "ValuesReported",
    "WorkerClaimed",
    "payload",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySubmitted:
    kind: ClassVar[str] = "study_submitted"
    name: str
    spec_digest: str
    bundle_digest: str
    comparison: str
    seed: int
    actor: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Mount name to tree digest, as the study file named them; `prepare` checks and freezes."""
    secret_digest: str = ""
    """sha256 of the study's secret; filled in by `ledger.writes.create_study`."""
    budgets: Mapping[str, float] = field(default_factory=dict)
    """Limit by resource, the limited ones only; filled in by `ledger.writes.create_study`."""
    environment: str = ""
    """Fingerprint of the places where it runs, as `comparison` covers it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyMoved:
    """The study changed state. Pausing records by whom and from where."""

    kind: ClassVar[str] = "study_moved"
    current: StudyState
    new: StudyState
    reason: Reason | None = None
    detail: str = ""
    paused_by: PausedBy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputsFrozen:
    kind: ClassVar[str] = "inputs_frozen"
    inputs: Mapping[str, str]
    """Mount name to tree digest."""
    report: Mapping[str, Json]
    """What `prepare` found: row counts, overlap with the evaluator's splits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerClaimed:
    kind: ClassVar[str] = "worker_claimed"
    owner: str
    fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandApplied:
    """An operator's request was carried out, or refused with the reason in `detail`."""

    kind: ClassVar[str] = "command_applied"
    command_id: int
    verb: CommandVerb
    arguments: Mapping[str, Json]
    actor: str
    refused: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetChanged:
    kind: ClassVar[str] = "budget_changed"
    resource: Resource
    limit: float | None


Entry: TypeAlias = (
    StudySubmitted
    | StudyMoved
    | InputsFrozen
    | WorkerClaimed
    | CommandApplied
    | BudgetChanged
    | SettingChanged
    | ArtifactReleased
    | ProposalEntry
    | AttemptEntry
    | TrialEntry
    | GateEntry
    | ImportEntry
    | ConversionEntry
    | ServiceEntry
)


def payload(entry: Entry) -> dict[str, Any]:
    """The entry's sealed fields, ready for canonical JSON."""
    return {name: getattr(entry, name) for name in sealed_names(type(entry))}
