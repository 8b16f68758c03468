"""Facts of continuous campaigns, in the service chain. Each campaign numbers its own from 1."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from ledger.records import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSet:
    """A campaign began, or goes on under a changed file or after it was stopped."""

    kind: ClassVar[str] = "campaign_set"
    campaign: str
    number: int
    model: str
    document: Mapping[str, Json]
    """The whole campaign file with every default."""
    bundle_digest: str
    """The frozen evaluator that measures the slices."""
    slices: Mapping[str, str]
    """Tree digest by name."""
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperienceTakenIn:
    """One file of the inbox was read. What had no consent was counted, and is nowhere."""

    kind: ClassVar[str] = "experience_taken_in"
    campaign: str
    number: int
    source: str
    """The file's name."""
    source_digest: str
    tree: str
    """The stored records; empty where there were none to store."""
    training: int
    held_out: int
    without_consent: int
    invalid: int
    duplicates: int
    problems: tuple[str, ...]
    """Why records with consent were refused, by line; the first few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftMeasured:
    """Incoming prompts were compared with the reference."""

    kind: ClassVar[str] = "shift_measured"
    campaign: str
    number: int
    prompts: int
    reference: int
    """How many prompts the reference has."""
    statistics: Mapping[str, Json]
    """By what is compared (`length`, `words`): psi and p."""
    shifted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignStudySubmitted:
    """A study was stored in the same transaction: there is none without the other."""

    kind: ClassVar[str] = "campaign_study_submitted"
    campaign: str
    number: int
    study_id: str
    study: int
    """Counts the campaign's studies from 1."""
    records: int
    """Gathered ones that it trains on."""
    rows: int
    """All rows of the input, the template's included."""
    after: int
    """Number of the last entry whose records it saw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignStudyEnded:
    kind: ClassVar[str] = "campaign_study_ended"
    campaign: str
    number: int
    study_id: str
    state: str
    promotion: int | None
    """The position that it promoted to; None: it promoted nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceMeasured:
    """The served model was asked a fixed slice."""

    kind: ClassVar[str] = "slice_measured"
    campaign: str
    number: int
    slice: str
    slice_digest: str
    artifact_digest: str
    served_as: str
    value: float
    items_digest: str
    """Of the stored JSON list of item scores."""
    answers_digest: str
    against: str
    """Artifact it was compared with, item by item; empty: none was measured before."""
    comparison: Mapping[str, Json]
    """drop, low95, high95, items, gained and lost; a positive drop is worse."""
    forgotten: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignAlarm:
    """An alarm rang. One that rolls back is the intent to: it stays open until it is done."""

    kind: ClassVar[str] = "campaign_alarm"
    campaign: str
    number: int
    alarm: str
    """`gate`, `forgetting` or `shift`."""
    detail: str
    action: str
    """`roll_back` or `tell`."""
    promotion: int | None
    """The position that it is about."""
    back_to: int | None
    """The position to go back to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRolledBack:
    """An alarm is settled: the pointer was moved back in the same transaction, or need not be."""

    kind: ClassVar[str] = "campaign_rolled_back"
    campaign: str
    number: int
    alarm: int
    """Number of the alarm."""
    pointer: int | None
    """The new position; None: somebody had moved the pointer meanwhile, and it stays there."""
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignFailed:
    """A step could not be done, and is tried again by the next cycle. Nothing was switched."""

    kind: ClassVar[str] = "campaign_failed"
    campaign: str
    number: int
    step: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignStopped:
    kind: ClassVar[str] = "campaign_stopped"
    campaign: str
    number: int
    actor: str
    note: str


CampaignEntry: TypeAlias = (
    CampaignSet
    | ExperienceTakenIn
    | ShiftMeasured
    | CampaignStudySubmitted
    | CampaignStudyEnded
    | SliceMeasured
    | CampaignAlarm
    | CampaignRolledBack
    | CampaignFailed
    | CampaignStopped
)
