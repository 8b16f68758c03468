"""The vocabulary: one frozen dataclass per noun. No behaviour, no database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from ledger.states import AttemptState, CandidateState, FamilyState, Reason, StudyState, TrialState

ParamValue: TypeAlias = bool | int | float | str
Params: TypeAlias = Mapping[str, ParamValue]
Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None


class Direction(StrEnum):
    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"


class TrialKind(StrEnum):
    BASELINE = "baseline"
    SEARCH = "search"
    REPLAY = "replay"
    CONVERSION = "conversion"


class AttemptKind(StrEnum):
    PREPARE = "prepare"
    TRAIN = "train"
    EVALUATE = "evaluate"
    CONVERT = "convert"


class Split(StrEnum):
    """What an evaluation is scored on. The holdout is used in two halves, never released."""

    SEARCH = "search"
    HOLDOUT_A = "holdout_a"
    HOLDOUT_B = "holdout_b"


class ArtifactRole(StrEnum):
    MODEL = "model"
    """Data only; may be evaluated."""
    RESUME = "resume"
    """Opaque optimizer and RNG state; only ever given back to the same trial's training."""
    ROLLOUTS = "rollouts"
    """What an online program sampled; for people and their analyses, never evaluated."""
    FACTS = "facts"
    """What a built-in program says it ran with; for a promotion's lineage, never evaluated."""


class Verdict(StrEnum):
    KEEP = "keep"
    DISCARD = "discard"
    MEASURED = "measured"


class PausedBy(StrEnum):
    OPERATOR = "operator"
    """Stays paused until someone resumes it."""
    CONDITION = "condition"
    """Resumes by itself when the condition clears (disk, endpoint, engine)."""


class Resource(StrEnum):
    TRIALS = "trials"
    WALL_S = "wall_s"
    GPU_S = "gpu_s"
    LLM_TOKENS = "llm_tokens"
    LLM_COST_USD = "llm_cost_usd"


class CommandVerb(StrEnum):
    """What an operator may ask of a study; the lease holder applies it."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    CANCEL = "cancel"
    EXTEND = "extend"
    ENQUEUE = "enqueue"
    REPLAY = "replay"
    PROMOTE = "promote"
    APPROVE = "approve"
    DECLINE = "decline"
    CONVERT = "convert"


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    metric: str
    direction: Direction


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    id: str
    name: str
    state: StudyState
    reason: Reason | None
    """Why it stopped looking or ended; None while it runs."""
    detail: str
    paused_by: PausedBy | None
    paused_from: StudyState | None
    spec: Mapping[str, Json]
    """The study file as accepted, paths replaced by digests."""
    spec_digest: str
    bundle_digest: str
    """Tree digest of the evaluator bundle; empty in `reported` mode."""
    comparison: str
    """Digest of everything that must be equal for two scores to be compared."""
    inputs: Mapping[str, str]
    """Mount name to tree digest, as frozen by `prepare`; empty before."""
    secret: str
    """Hex; replay seeds derive from it. Never shown, never given to a trial."""
    seed: int
    active_s: float
    """Wall time spent so far, pauses excluded."""
    fence: int
    lease_owner: str | None
    lease_expires_at: float | None
    """Seconds since the epoch on the database's clock."""
    head_seq: int
    head_digest: str
    created_at: float
    ended_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    id: str
    study_id: str
    digest: str
    params: Params
    patch: str | None
    source_digest: str | None
    """Tree digest of the resulting source; None when the program has none."""
    parent_id: str | None
    rationale: str
    state: CandidateState
    proposer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    id: str
    study_id: str
    number: int
    kind: TrialKind
    candidate_id: str
    state: TrialState
    reason: Reason | None
    detail: str
    seed: int
    watermark: int
    """How many trials had finished when this one was proposed."""
    finish_seq: int | None
    """Position in the order of finishing, from 1; None while unfinished."""
    splits: tuple[Split, ...]
    """The splits this trial is evaluated on."""
    family_id: str | None
    stage: str | None
    """Of a replay: its place in the gate; of a conversion: `convert:NUMBER:INDEX`."""
    value: float | None
    """The objective on the search split; None until evaluated or when it never was."""
    verdict: Verdict | None
    created_at: float
    started_at: float | None
    ended_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    id: str
    study_id: str
    trial_id: str | None
    """None for a `prepare` attempt."""
    kind: AttemptKind
    index: int
    """Counts attempts of one kind (and split) for one trial, from 0."""
    split: Split | None
    state: AttemptState
    reason: Reason | None
    detail: str
    target: str
    handle: str | None
    host: str
    timeout_s: float
    cause: str | None
    """The target's word for how it ended; None before."""
    exit_code: int | None
    wall_s: float | None
    cpu_s: float | None
    max_rss_bytes: int | None
    created_at: float
    started_at: float | None
    ended_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IntermediateValue:
    step: int
    metric: str
    value: float
    """May be NaN or infinite: what a program said while running is kept as it was said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    digest: str
    """Tree digest."""
    trial_id: str | None
    attempt_id: str
    role: ArtifactRole
    files: int
    size_bytes: int
    released_at: float | None = None
    """When it was let go; None while it is kept."""
    release_reason: str | None = None
    release_policy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    trial_id: str
    attempt_id: str
    split: Split
    bundle_digest: str
    artifact_digest: str
    value: float
    """The objective metric."""
    scores: Mapping[str, float]
    """Every declared metric."""
    items: Sequence[float] = ()
    """Per-item scores of the objective where the bundle declares them, in item order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    id: str
    study_id: str
    number: int
    state: FamilyState
    reason: Reason | None
    model: str
    bundle_digest: str
    profile: Mapping[str, Json]
    """The gate's parameters as used."""
    candidates: tuple[str, ...]
    incumbent_id: str
    """Candidate id of the incumbent it was opened against."""
    pool: tuple[str, ...]
    """Trial ids of the incumbent's pool."""
    evidence: Mapping[str, Json]
    """What the gate computed, once it ended."""
    created_at: float
    ended_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incumbent:
    model: str
    seq: int
    candidate_id: str
    study_id: str
    family_id: str | None
    comparison: str
    approver: str
    note: str
    created_at: float
    rolled_back_to: int | None = None
    """The earlier position whose candidate has the pointer again; None for a promotion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLine:
    resource: Resource
    limit: float | None
    """None: counted but not limited."""
    spent: float
    reserved: float
    overrun: float
    """What was measured beyond its reservation and the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    id: int
    study_id: str
    verb: CommandVerb
    arguments: Mapping[str, Json]
    actor: str
    created_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRecord:
    """One link of a chain as stored."""

    chain: str
    """A study id, or `service`."""
    seq: int
    kind: str
    payload: Mapping[str, Json]
    previous: str
    digest: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What screening says of one evaluated trial."""

    verdict: Verdict
    reason: Reason
    compared_with: str | None = None
    """Candidate id of the leader; None when there was none but the baseline."""
    margin: float = 0.0
    noise_floor: float = 0.0
