"""What a step is given: the view, the world's doors, and the batch of entries to commit."""

import math
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from controller.clock import JUMP_S, Clock
from controller.decisions.reserves import search_budgets
from controller.jobs import Jobs
from controller.settings import Settings
from controller.steps.capacity import Capacity
from controller.steps.folds import fold
from controller.steps.view import LiveAttempt, LiveTrial, StudyView
from evaluator.bundle import Bundle
from evaluator.collector import Collected, Refused
from evaluator.statistics import noise_floor
from ledger import entries as e
from ledger.artifacts import ArtifactStore
from ledger.budgets import TOLERANCE
from ledger.database import Ledger
from ledger.digests import candidate_digest
from ledger.errors import BudgetExceeded
from ledger.records import AttemptKind, BudgetLine, Params, Resource, Split
from ledger.search import History, Price, Proposals
from ledger.states import AttemptState, Reason, StudyState, TrialState
from proposers.protocol import Proposer
from proposers.search_space import SearchSpace
from targets.protocol import Target


class OutOfModelBudget(Exception):
    """The next call could pass a limit of the study's model budget."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(slots=True, kw_only=True)
class Asked:
    """One call of the proposer under way."""

    history: History
    count: int
    watermark: int
    price: Price
    may_call: bool
    """Whether what it reserves is committed."""
    is_called: bool = False
    spent: OutOfModelBudget | None = None
    """Why it is asked to do without models."""
    key: str = field(default_factory=lambda: secrets.token_hex(8))
    """Of the work beside the loop: another driver of this study has another one."""


@dataclass(slots=True, kw_only=True)
class StepContext:
    """One study during one tick. Steps add entries; the driver commits them, then acts."""

    view: StudyView
    bundle: Bundle | None
    """None in `reported` mode."""
    ledger: Ledger
    store: ArtifactStore
    training: Target
    """Where trials run."""
    evaluating: Target
    """Where evaluations run, and preparing; often the same."""
    proposer: Proposer
    space: SearchSpace
    settings: Settings
    clock: Clock
    capacity: Capacity
    collecting: Jobs[Collected | Refused]
    proposing: Jobs[Proposals]
    brief: str = ""
    """The guidance of the study for language models."""
    release: Callable[[Target, str], None]
    """Deletes what an ended attempt left, in its own time."""
    let_go: Callable[[], None]
    """Deletes what was let go, in its own time."""
    cap_logs: Callable[[Collection[str], int], None]
    """Cuts what these trials said to so many bytes, in its own time."""
    active_before_s: float
    """Wall time that the study had used at `active_since`, pauses excluded."""
    active_since: float
    """Monotonic time at which the study was opened, or its state changed the last time."""
    news: set[str] = field(default_factory=set)
    """Handles that may have something to observe."""
    batch: list[e.Entry] = field(default_factory=list)
    after_commit: list[Callable[[], None]] = field(default_factory=list)
    """Effects that must not happen before their intent is durable."""
    urgent: bool = False
    """Whether the batch holds more than progress notes and should be committed now."""
    disk_is_low: bool = False
    lease_until: float = math.inf
    """Monotonic time from which on another worker may drive the study: nothing is started then."""
    clock_ahead: float | None = None
    """`clock.ahead` when that was said. A ledger may take the time from the wall clock: once that
    was set, the lease may be over, whatever `lease_until` says."""
    prepare_retry_at: float = 0.0
    propose_at: float = 0.0
    """Monotonic time before which the proposer is not asked."""
    asked: Asked | None = None
    """The call of the proposer under way."""

    @property
    def owner(self) -> str:
        """Who may adopt this study's attempts: the ledger."""
        return self.ledger.id

    def lease_is_over(self) -> bool:
        """Whether another worker may drive the study by now, as far as this one can tell."""
        is_set = (
            self.clock_ahead is not None and abs(self.clock.ahead() - self.clock_ahead) > JUMP_S
        )
        return is_set or self.clock.monotonic() >= self.lease_until

    def active_s(self) -> float:
        """Wall time the study has used, pauses excluded."""
        if self.view.study.state is StudyState.PAUSED:
            return self.active_before_s
        return self.active_before_s + self.clock.monotonic() - self.active_since

    def baseline_values(self) -> list[float]:
        """The pool's scores on the search split."""
        return [m.values[Split.SEARCH] for m in self.view.baselines if Split.SEARCH in m.values]

    def candidate_digest(self, params: Params, source_digest: str | None) -> str:
        """A candidate's digest in this study: parameters, source, environment, inputs."""
        return candidate_digest(
            params=params,
            source_digest=source_digest,
            environment=self.view.study.comparison,
            inputs=self.view.study.inputs,
        )

    def candidate_id(self, digest: str) -> str:
        return f"{self.view.study.id}-c{digest[:16]}"

    def baseline_candidate_id(self) -> str:
        """What is to beat: the model's comparable incumbent, else the study's own baseline."""
        view = self.view
        return self.candidate_id(self.candidate_digest(view.baseline_params, view.baseline_source))

    def noise_floor(self) -> float:
        """In the objective's unit; 0 until something was measured twice."""
        metric = self.view.spec.evaluator.metrics.get(self.view.objective.metric)
        resolution = metric.resolution if metric is not None else 0.0
        groups: dict[str, list[float]] = {"baseline": self.baseline_values()}
        for measured in (m for ms in self.view.replays.values() for m in ms):
            if Split.SEARCH in measured.values:
                groups.setdefault(measured.candidate_id, []).append(measured.values[Split.SEARCH])
        groups.update(self.view.repeats)
        return noise_floor(groups.values(), resolution=resolution) or resolution

    def search_budgets(self) -> dict[Resource, BudgetLine]:
        """The budgets less what the gate will need of them."""
        return search_budgets(self.view.budgets, self.view.spec, tuple(self.view.durations))

    def check_room(self, resource: Resource, amount: float) -> None:
        """Raise BudgetExceeded when reserving `amount` would pass the limit."""
        line = self.view.budgets.get(resource)
        if line is None or line.limit is None or amount <= 0:
            return
        left = line.limit - line.spent - line.reserved
        if amount > left + TOLERANCE:
            raise BudgetExceeded(
                f"budget {resource}: {amount:g} more would pass the limit of {line.limit:g} "
                f"({left:g} left); `arl extend {self.view.study.id}` raises it"
            )

    def add(self, entry: e.Entry, *, urgent: bool = True) -> None:
        """Fold an entry into the view and queue it for the commit."""
        if isinstance(entry, e.StudyMoved):  # by the state until now: a pause uses no time
            self.active_before_s, self.active_since = self.active_s(), self.clock.monotonic()
        fold(self.view, entry)
        self.batch.append(entry)
        self.urgent = self.urgent or urgent

    def move(self, new: StudyState, reason: Reason | None = None, detail: str = "") -> None:
        """Queue a change of the study's state."""
        current = self.view.study.state
        self.add(e.StudyMoved(current=current, new=new, reason=reason, detail=detail))

    def end_attempt(
        self, attempt: LiveAttempt, new: AttemptState, reason: Reason, detail: str
    ) -> None:
        """Queue the end of an attempt that brought nothing, and its clean-up."""
        ended = e.AttemptEnded(
            attempt_id=attempt.id,
            current=attempt.state,
            new=new,
            reason=reason,
            detail=detail[:2000],
        )
        self.release_later(attempt)
        self.add(ended)

    def end_trial(self, trial: LiveTrial, new: TrialState, reason: Reason, detail: str) -> None:
        """Queue the end of a trial without a decision, and give back what it held."""
        self.add(
            e.TrialEnded(
                trial_id=trial.id,
                candidate_id=trial.candidate_id,
                trial_kind=trial.kind,
                current=trial.state,
                new=new,
                reason=reason,
                detail=detail[:2000],
                finish_seq=self.view.finish_seq + 1,
            )
        )
        self.free(trial)

    def free(self, trial: LiveTrial) -> None:
        """Give a finished trial's resources back."""
        self.capacity.give_back(self.view.study.id, trial.id)

    def is_here(self, attempt: LiveAttempt) -> bool:
        """Whether this worker can reach the attempt: local ones belong to their host."""
        return self.target_of(attempt).is_shared or attempt.host == self.settings.host

    def target_for(self, kind: AttemptKind) -> Target:
        """Where attempts of that kind are launched."""
        trains = kind in (AttemptKind.TRAIN, AttemptKind.CONVERT)
        return self.training if trains else self.evaluating

    def target_of(self, attempt: LiveAttempt) -> Target:
        """Where an attempt was launched, or will be."""
        return self.target_for(attempt.kind)

    def targets(self) -> list[Target]:
        """Every target that attempts of this study run on."""
        both = [self.training]
        return both if self.evaluating is self.training else [*both, self.evaluating]

    def release_later(self, attempt: LiveAttempt) -> None:
        """Delete what an ended attempt left, once its outcome is committed."""
        target, handle = self.target_of(attempt), attempt.handle or attempt.name
        self.after_commit.append(lambda: self.release(target, handle))
