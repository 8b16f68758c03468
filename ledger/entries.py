"""One class per fact. A fact is the row change and the ledger entry in one: `ledger.writes`
projects it onto the tables and seals it into the study's chain in the same transaction.

Names are in the past tense (`trial_decided`), except the intent written before an effect
(`attempt_launching`). Fields marked unsealed are stored in rows of their own and are
represented in the chain by a digest field beside them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, TypeAlias

from ledger.conversion_entries import ConversionEntry
from ledger.import_entries import ImportEntry
from ledger.records import (
    ArtifactRole,
    AttemptKind,
    CommandVerb,
    IntermediateValue,
    Json,
    Params,
    PausedBy,
    Resource,
    Split,
    TrialKind,
    Verdict,
)
from ledger.retention_entries import ArtifactReleased
from ledger.service_entries import ServiceEntry
from ledger.setting_entries import SettingChanged
from ledger.states import AttemptState, FamilyState, Reason, StudyState, TrialState

_UNSEALED: Final = {"sealed": False}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalsMade:
    """One call of the proposer, with all it takes to repeat it."""

    kind: ClassVar[str] = "proposals_made"
    first_number: int
    """`History.next_number` of the call."""
    asked: int
    given: int
    watermark: int
    seed: int
    state_digest: str | None
    retries: bool = False
    """Whether it will be asked again although it gave less than it was asked for."""
    state: bytes | None = field(default=None, repr=False, metadata=_UNSEALED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposerWaits:
    """The proposer cannot go on for now (an endpoint does not answer); with an empty detail it
    goes on again. Trials under way are not held up."""

    kind: ClassVar[str] = "proposer_waits"
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallsReserved:
    """Intent: a proposer is about to ask a language model; its worst price is set aside."""

    kind: ClassVar[str] = "model_calls_reserved"
    first_number: int
    tokens: float
    cost_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCalled:
    """One request to a language model; a lost one (outcome `lost`) at its worst price."""

    kind: ClassVar[str] = "model_called"
    number: int
    """Within the study, from 0."""
    first_number: int
    model: str
    endpoint: str
    outcome: str
    prompt_version: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    latency_s: float
    content_digest: str
    """Of the canonical JSON of [request, response]."""
    request: str = field(default="", repr=False, metadata=_UNSEALED)
    response: str | None = field(default=None, repr=False, metadata=_UNSEALED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallsSettled:
    """The reservation is given back and what the calls came to is spent."""

    kind: ClassVar[str] = "model_calls_settled"
    first_number: int
    reserved_tokens: float
    reserved_cost_usd: float
    tokens: float
    cost_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateProposed:
    """A candidate entered the study (or came back, for a replay) as one trial."""

    kind: ClassVar[str] = "candidate_proposed"
    trial_id: str
    number: int
    trial_kind: TrialKind
    candidate_id: str
    digest: str
    params: Params
    patch_digest: str | None = None
    source_digest: str | None = None
    parent_id: str | None = None
    rationale: str = ""
    proposer: str
    seed: int
    watermark: int
    splits: tuple[Split, ...]
    family_id: str | None = None
    stage: str | None = None
    new_candidate: bool = True
    patch: str | None = field(default=None, repr=False, metadata=_UNSEALED)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLaunching:
    """Intent: committed before anything starts, so that a crash finds or repeats the launch."""

    kind: ClassVar[str] = "attempt_launching"
    attempt_id: str
    trial_id: str | None
    attempt_kind: AttemptKind
    index: int
    split: Split | None
    target: str
    host: str
    timeout_s: float
    gpu_s: float = 0.0
    """Reserved from the GPU budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted:
    kind: ClassVar[str] = "attempt_started"
    attempt_id: str
    trial_id: str | None
    handle: str
    trial_starts: bool
    """Whether this moves the trial from proposed to running (its first training attempt)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesReported:
    kind: ClassVar[str] = "values_reported"
    attempt_id: str
    trial_id: str
    sequence: int
    """Batches of one attempt count from 0; a batch is accepted once."""
    count: int
    digest: str
    values: tuple[IntermediateValue, ...] = field(repr=False, metadata=_UNSEALED)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRequested:
    """What an attempt asked of the network, as its proxy saw it: allowed and refused."""

    kind: ClassVar[str] = "network_requested"
    attempt_id: str
    trial_id: str | None
    """None: it prepares the study."""
    sequence: int
    """Batches of one attempt count from 0."""
    count: int
    refused: int
    sent_bytes: int
    received_bytes: int
    digest: str
    """sha256 of the canonical JSON of the requests, also where those are not kept."""
    requests: tuple[Mapping[str, Json], ...]
    """Each with at, method, host, port, allowed, detail, sent and received. Empty: the attempt
    made so many that from here on they are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptExited:
    kind: ClassVar[str] = "attempt_exited"
    attempt_id: str
    exit_code: int | None
    """Negative: the signal that ended it. None where unknown."""
    cause: str
    """The target's word for it: exited, deadline, stalled, killed, out_of_memory, ..."""
    detail: str = ""
    wall_s: float
    cpu_s: float
    max_rss_bytes: int
    gpu_s: float = 0.0
    """Measured; settles the reservation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    """An attempt ended without a usable outcome: rejected, cancelled or lost."""

    kind: ClassVar[str] = "attempt_ended"
    attempt_id: str
    current: AttemptState
    new: AttemptState
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRecorded:
    """What a trial saved is in the store. Recording the model ends the training attempt."""

    kind: ClassVar[str] = "artifact_recorded"
    attempt_id: str
    trial_id: str | None
    digest: str
    role: ArtifactRole
    files: int
    size_bytes: int
    collects: bool
    """Whether this moves the attempt to collected and its trial to evaluating."""


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
    items: tuple[float, ...] = field(default=(), repr=False, metadata=_UNSEALED)


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


Entry: TypeAlias = (
    StudySubmitted
    | StudyMoved
    | InputsFrozen
    | WorkerClaimed
    | CommandApplied
    | BudgetChanged
    | SettingChanged
    | ProposalsMade
    | ProposerWaits
    | ModelCallsReserved
    | ModelCalled
    | ModelCallsSettled
    | CandidateProposed
    | AttemptLaunching
    | AttemptStarted
    | ValuesReported
    | NetworkRequested
    | AttemptExited
    | AttemptEnded
    | ArtifactRecorded
    | ArtifactReleased
    | TrialEvaluated
    | TrialDecided
    | TrialServed
    | TrialEnded
    | FamilyOpened
    | HoldoutUsed
    | FamilyMoved
    | CandidatePromoted
    | ImportEntry
    | ConversionEntry
    | ServiceEntry
)

_SEALED_FIELDS: dict[type, tuple[str, ...]] = {}


def payload(entry: Entry) -> dict[str, Any]:
    """The entry's sealed fields, ready for canonical JSON."""
    names = _SEALED_FIELDS.get(type(entry))
    if names is None:
        names = tuple(f.name for f in fields(entry) if f.metadata.get("sealed", True))
        _SEALED_FIELDS[type(entry)] = names
    return {name: getattr(entry, name) for name in names}
