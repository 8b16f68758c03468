"""What a proposer is told of its study and what it gives back: records, never the database."""

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from ledger.records import Direction, Objective, Params
from ledger.states import Reason, TrialState


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A metric that must stay in bounds; what breaks one is never kept."""

    metric: str
    low: float | None = None
    high: float | None = None

    def excess(self, value: float) -> float:
        """By how much `value` breaks it, in the metric's unit; 0 or less when it does not."""
        if math.isnan(value):
            return math.inf
        below = -math.inf if self.low is None else self.low - value
        above = -math.inf if self.high is None else value - self.high
        return max(below, above)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedTrial:
    """What a proposer may know of a trial that ended."""

    number: int
    params: Params
    state: TrialState
    value: float | None
    """None unless it was evaluated: a failure is never a score."""
    reason: Reason
    candidate_id: str
    kept: bool
    scores: Mapping[str, float] = field(default_factory=dict)
    """Every metric of its evaluation on the search split."""
    detail: str = ""
    """Why it failed, for people and models: untrusted text, at most DETAIL_CHARS characters."""
    proposer: str = ""
    """Which proposer, or which arm of one, suggested it."""
    parent_id: str | None = None
    """The candidate that it was made from."""
    rationale: str = ""
    """What its proposer said of it, at most DETAIL_CHARS characters."""
    source_digest: str | None = None
    wall_s: float = 0.0
    """What its attempts took; 0 unless the study's proposer is told times."""


DETAIL_CHARS = 500
TIME_DIGITS = 3
"""Of wall_s, behind the point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingTrial:
    """A trial that was proposed and has not ended."""

    number: int
    params: Params
    candidate_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Everything a proposer may know of its study, as of one watermark."""

    objective: Objective
    next_number: int
    """Index of the next search proposal, counted from 0 over search proposals only."""
    finished: Sequence[FinishedTrial] = ()
    """In the order of finishing; search trials only."""
    pending: Sequence[PendingTrial] = ()
    proposed: AbstractSet[str] = frozenset()
    """Parameter digests of every search trial proposed so far."""
    baseline: Sequence[float] = ()
    """Search-split values of the baseline pool."""
    baseline_id: str = ""
    """The candidate that the baseline trials ran."""
    baseline_params: Params = field(default_factory=dict)
    baseline_source: str | None = None
    """The digest of their source tree."""
    noise_floor: float = 0.0
    best: float | None = None
    """The best value so far that may be told: of any finished trial that breaks no constraint."""
    is_released: bool = False
    """Whether values are rounded and `best` is the Ladder's."""
    trials_left: int | None = None
    further: Sequence[Objective] = ()
    """Objectives beside the first, by which nothing is kept; multi-objective samplers use them."""
    constraints: Sequence[Constraint] = ()
    metric_ranges: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    """What the evaluator declares: lowest and highest score of each metric."""
    may_ask_models: bool = True
    """False once a budget of the study leaves no room for a call of a language model."""
    brief: str = ""
    """The user's guidance for a language model (program.brief); trusted."""
    sources: Callable[[str], Mapping[str, str]] | None = None
    """The mutable files of a candidate by path, as text; None where nothing is mutable. Raises
    NotFound for a candidate that the study does not have."""

    @property
    def baseline_value(self) -> float | None:
        """The mean of the baseline pool; None where there is none, or it is no finite number."""
        if not self.baseline:
            return None
        # Each divided first: the sum of values near the largest there are would overflow.
        value = math.fsum(one / len(self.baseline) for one in self.baseline)
        return value if math.isfinite(value) else None


def as_loss(value: float, direction: Direction) -> float:
    """The value on a scale where lower is better."""
    return value if direction is Direction.MINIMIZE else -value


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One request to a language model, whatever came of it."""

    model: str
    endpoint: str
    """Its URL without any secret."""
    prompt_version: str
    request: str
    """The messages as JSON."""
    response: str | None
    """The text of the answer; None when there was none."""
    outcome: str
    """`answered`, or what went wrong, in one word of a closed list of proposers.chat."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    latency_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One suggestion; it becomes a candidate when it is written down."""

    params: Params
    parent_id: str | None = None
    """The candidate it was made from; a patch is applied to that one's source."""
    patch: str | None = None
    """A unified diff of mutable files."""
    rationale: str = ""
    proposer: str = ""
    """The arm that made it, where a proposer has several; default: the study's proposer."""
    defect: Reason | None = None
    """Set when it can be no candidate (malformed_patch, no_change): it becomes a trial that failed
    for that reason without running anything."""
    defect_detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What one call of a proposer may cost at worst: reserved before, settled after."""

    tokens: float = 0.0
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposals:
    """What a call to a proposer gives: at most `count`; fewer means the space is exhausted."""

    items: Sequence[Proposal]
    state: bytes | None = field(default=None, repr=False)
    """What the proposer needs back on its next call; stored in the same transaction."""
    calls: Sequence[ModelCall] = ()
    """Requests to language models that it took."""
    retry_after_s: float | None = None
    """Fewer than asked for, although the space is not exhausted: ask again after so long."""
    waits_for: str = ""
    """With `retry_after_s`: what it waits for, in one line for a person."""
