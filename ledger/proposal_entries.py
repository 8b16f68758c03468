"""Facts about what was proposed: the proposer's calls, what models answered, the candidates."""

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from ledger.entry_fields import UNSEALED
from ledger.records import Params, Split, TrialKind


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
    state: bytes | None = field(default=None, repr=False, metadata=UNSEALED)


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
    request: str = field(default="", repr=False, metadata=UNSEALED)
    response: str | None = field(default=None, repr=False, metadata=UNSEALED)


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
    patch: str | None = field(default=None, repr=False, metadata=UNSEALED)


ProposalEntry: TypeAlias = (
    ProposalsMade
    | ProposerWaits
    | ModelCallsReserved
    | ModelCalled
    | ModelCallsSettled
    | CandidateProposed
)
