"""One study as its worker sees it: a fold of the ledger's entries, kept in memory.

The view is a cache. It is built from the ledger when the study is claimed, folds every entry
that is about to be committed, and is thrown away and built again when a commit fails.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from controller.decisions.retention import Saved
from controller.spec.study import StudySpec
from controller.steps.candidates import Candidates
from evaluator.pruning import OtherCurve, PackedCurve
from ledger import entries as e
from ledger.conversion_records import Conversion
from ledger.digest_set import DigestSet
from ledger.finished_trials import Finished
from ledger.records import (
    ArtifactRole,
    AttemptKind,
    BudgetLine,
    Command,
    Family,
    Json,
    Objective,
    Params,
    Resource,
    Split,
    Study,
    TrialKind,
)
from ledger.search import Constraint, History, PendingTrial
from ledger.states import (
    AttemptState,
    ConversionState,
    FaultClass,
    Reason,
    TrialState,
)
from proposers.registry import describe
from targets.protocol import NetworkRequest

DURATIONS_KEPT: Final = 64


@dataclass(slots=True, kw_only=True)
class LiveAttempt:
    """An attempt that has not been settled yet."""

    id: str
    trial_id: str | None
    kind: AttemptKind
    index: int
    split: Split | None
    target: str
    host: str
    timeout_s: float
    gpu_s: float = 0.0
    """What it reserves of the GPU budget until it exits."""
    state: AttemptState = AttemptState.LAUNCHING
    handle: str | None = None
    exited: e.AttemptExited | None = None
    # What only this process knows; a crash loses it and recovery does without.
    committed: bool = False
    cursor: str = ""
    skip_values: int = 0
    """Values already in the ledger that a re-read from the start will deliver again."""
    value_batches: int = 0
    skip_requests: int = 0
    """The same of network requests."""
    request_batches: int = 0
    requests_kept: int = 0
    """Of those, how many the ledger has."""
    requests_over: list[NetworkRequest] = field(default_factory=list)
    """More than it takes one by one; counted when the attempt ends."""
    stop_asked: Reason | None = None

    @property
    def name(self) -> str:
        return f"arl-{self.id}"


@dataclass(slots=True, kw_only=True)
class LiveTrial:
    """A trial that has not ended."""

    id: str
    number: int
    kind: TrialKind
    candidate_id: str
    params: Params
    source_digest: str | None
    seed: int
    splits: tuple[Split, ...]
    family_id: str | None
    stage: str | None
    state: TrialState = TrialState.PROPOSED
    attempt: LiveAttempt | None = None
    """The one attempt in progress; a trial runs one at a time."""
    launches: dict[tuple[AttemptKind, Split | None], int] = field(default_factory=dict)
    failures: dict[FaultClass, int] = field(default_factory=dict)
    retry_at: float = 0.0
    """Monotonic time before which nothing is launched for it."""
    model_digest: str | None = None
    resume_digest: str | None = None
    measured: Mapping[str, Json] | None = None
    """Of a converted model: its speed and memory beside the unconverted one's."""
    scores: dict[Split, e.TrialEvaluated] = field(default_factory=dict)
    last_reported: float | None = None
    curve: list[tuple[int, float]] = field(default_factory=list)
    wall_s: float = 0.0
    gpu_ids: tuple[str, ...] = ()
    proposer: str = ""
    parent_id: str | None = None
    rationale: str = ""

    def next_index(self, kind: AttemptKind, split: Split | None) -> int:
        return self.launches.get((kind, split), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A baseline or replay trial that ended, for the pool and the gate."""

    trial_id: str
    candidate_id: str
    stage: str | None
    state: TrialState
    reason: Reason
    detail: str
    values: dict[Split, float]
    scores: dict[Split, dict[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """A conversion trial that ended."""

    trial_id: str
    state: TrialState
    reason: Reason
    detail: str
    digest: str | None
    """Of what it made."""
    scores: Mapping[Split, e.TrialEvaluated]
    measured: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Leader:
    """The best screened candidate so far."""

    candidate_id: str
    value: float


def constraints_of(spec: StudySpec) -> tuple[Constraint, ...]:
    return tuple(
        Constraint(metric=metric, low=bounds.low, high=bounds.high)
        for metric, bounds in sorted(spec.constraints.items())
    )


def needs_scores(spec: StudySpec) -> bool:
    """They cost memory for each trial: only where something reads them."""
    told = describe(spec.proposer.name, spec.proposer.options)
    return bool(spec.objectives or spec.constraints) or told.reads_scores


def rereads_history(spec: StudySpec) -> bool:
    """Whether its proposer is told all of it anew at each call: then it stays unpacked."""
    chosen = spec.proposer
    told = describe(chosen.name, chosen.options)
    is_released = told.asks_models or chosen.options.get("release") == "ladder"
    return is_released or told.is_hosted or told.has_arms


def needs_times(spec: StudySpec) -> bool:
    return describe(spec.proposer.name, spec.proposer.options).reads_times


@dataclass(slots=True)
class StudyView:
    study: Study
    spec: StudySpec
    budgets: dict[Resource, BudgetLine]
    live: dict[str, LiveTrial] = field(default_factory=dict)
    prepare: LiveAttempt | None = None
    prepare_launches: int = 0
    finished: Finished = field(default_factory=list)
    proposed: set[str] | DigestSet = field(default_factory=set)
    candidates: Candidates = field(default_factory=Candidates)
    """Every candidate id of the study, and the trial that first answered it, if one has."""
    model_calls: int = 0
    """Requests to language models so far: the number of the next one."""
    baseline_params: Params = field(default_factory=dict)
    baseline_source: str | None = None
    incumbent: Mapping[str, Json] | None = None
    """The comparable incumbent that this study has to beat, frozen with its inputs; None: the
    study's own baseline."""
    pool_reused: int = 0
    """How many of `baselines` are an earlier study's runs of that incumbent."""
    baselines: list[Measured] = field(default_factory=list)
    baselines_proposed: int = 0
    replays: dict[str, list[Measured]] = field(default_factory=dict)
    families: dict[str, Family] = field(default_factory=dict)
    conversions: dict[str, Conversion] = field(default_factory=dict)
    converted: dict[str, Converted] = field(default_factory=dict)
    """Ended conversion trials by their stage."""
    curves: list[PackedCurve] = field(default_factory=list)
    """Of trials that ran to their end, in the order of finishing."""
    other_curves: list[OtherCurve] = field(default_factory=list)
    """Of search trials that ran to their end or were pruned, in the order of finishing."""
    next_number: int = 0
    next_search: int = 0
    finish_seq: int = 0
    leader: Leader | None = None
    best_value: float | None = None
    """Of any search trial, kept or not."""
    proposer_state: bytes | None = None
    exhausted: bool = False
    proposer_waits: bool = False
    """Whether the study's detail says what its proposer waits for."""
    repeats: dict[str, list[float]] = field(default_factory=dict)
    """Search scores of candidates that were measured more than once (`duplicates: replicate`)."""
    durations: deque[float] = field(default_factory=lambda: deque(maxlen=DURATIONS_KEPT))
    commands: list[Command] = field(default_factory=list)
    saved: dict[tuple[str, ArtifactRole], Saved] = field(default_factory=dict)
    """By attempt: checkpoints not let go that may go, of a study that does not keep everything."""
    saved_under_way: dict[str, list[tuple[str, ArtifactRole]]] = field(default_factory=dict)
    """Of trials that have not ended: where in `saved` what they saved is."""
    quiet: list[str] = field(default_factory=list)
    """Trials that ended and whose logs were not capped yet, where the study wants that."""
    is_retained: bool = False
    """Whether what could be let go was, as things are."""

    @property
    def needs_scores(self) -> bool:
        """Whether proposers are told every metric of a trial, not only the objective."""
        return needs_scores(self.spec)

    @property
    def objective(self) -> Objective:
        spec = self.spec.objective
        return Objective(metric=spec.metric, direction=spec.direction)

    def history(self, noise_floor: float) -> History:
        """What the proposer may know now. Cheap: the lists are shared, not copied."""
        line = self.budgets.get(Resource.TRIALS)
        left = None
        if line is not None and line.limit is not None:
            left = max(0, round(line.limit - line.spent - line.reserved))
        return History(
            objective=self.objective,
            next_number=self.next_search,
            finished=self.finished,
            pending=tuple(
                PendingTrial(number=t.number, params=t.params, candidate_id=t.candidate_id)
                for t in self.live.values()
                if t.kind is TrialKind.SEARCH
            ),
            proposed=self.proposed,
            baseline=tuple(
                m.values[Split.SEARCH] for m in self.baselines if Split.SEARCH in m.values
            ),
            noise_floor=noise_floor,
            trials_left=left,
            baseline_params=self.baseline_params,
            further=tuple(
                Objective(metric=o.metric, direction=o.direction) for o in self.spec.objectives
            ),
            constraints=constraints_of(self.spec),
            metric_ranges={
                name: (metric.low, metric.high)
                for name, metric in self.spec.evaluator.metrics.items()
            },
        )

    def gpu_seconds(self, kind: AttemptKind, timeout_s: float) -> float:
        """What an attempt reserves of the GPU budget: its enforced deadline on its GPUs."""
        return 0.0 if kind is AttemptKind.PREPARE else timeout_s * self.spec.resources.gpus

    def open_conversions(self) -> list[Conversion]:
        """Those not judged yet, in the order of being asked for."""
        return [c for c in self.conversions.values() if c.state is ConversionState.OPEN]

    def attempts(self) -> list[LiveAttempt]:
        """Every attempt not settled yet."""
        found = [t.attempt for t in self.live.values() if t.attempt is not None]
        return found if self.prepare is None else [self.prepare, *found]

    def find_attempt(self, attempt_id: str) -> LiveAttempt:
        return next(a for a in self.attempts() if a.id == attempt_id)
