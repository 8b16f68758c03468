"""Whether a study should stop looking, and for which reason.

The first that holds, in this order: the baseline already meets the goal; a trial reached it; too
many failures in a row; too large a share of failures; too long without improvement; nothing left
to propose; a budget that allows no further trial. Good news comes first, and a broken study says
that it is broken rather than that it ran out of something.

Every failed trial counts as a failure whoever caused it, since a study whose launches or
evaluations all fail must end too; an attempt that was lost and retried is no failed trial.
Cancelled trials count for nothing. Trials that failed by no doing of the candidate's do not count
as a lack of improvement. A plan that was refused before anything ran says nothing of the study
either, but a proposer that has nothing else to offer is as good as broken: those count only as
failures in a row.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from controller.decisions.budgets import admission
from controller.spec.study import StudySpec
from evaluator.objective import is_better
from ledger.records import BudgetLine, Resource
from ledger.search import FinishedTrial
from ledger.states import FaultClass, Reason, TrialState, fault_class


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyProgress:
    """How far a study's search has come."""

    finished: Sequence[FinishedTrial]
    """Search trials, in the order of finishing. Only the latest are looked at."""
    best: float | None
    """The best value of a search trial so far, kept or not."""
    baseline: float | None
    """Mean value of the baseline pool on the search split."""
    live: int
    """Search trials that have not ended."""
    exhausted: bool
    """Whether the proposer has nothing left to propose."""
    budgets: Mapping[Resource, BudgetLine]
    durations: Sequence[float]
    """Seconds that finished trials took, for what would still fit."""
    active_s: float
    """Wall time so far, pauses excluded."""


@dataclass(frozen=True, slots=True)
class StopDecision:
    reason: Reason
    detail: str
    """One sentence with the numbers."""


def decide_stop(progress: StudyProgress, spec: StudySpec) -> StopDecision | None:
    """Why no further search trial should be proposed, or None. Running ones always finish."""
    for rule in (_goal, _consecutive, _rate, _plateau, _exhausted, _budget):
        decision = rule(progress, spec)
        if decision is not None:
            return decision
    return None


def _goal(progress: StudyProgress, spec: StudySpec) -> StopDecision | None:
    goal, direction = spec.stop.goal, spec.objective.direction
    if goal is None:
        return None
    if progress.baseline is not None and not is_better(goal, progress.baseline, direction):
        return StopDecision(
            Reason.GOAL_MET_BY_BASE,
            f"the baseline's {progress.baseline:.6g} already meets the goal {goal:g}",
        )
    if progress.best is not None and not is_better(goal, progress.best, direction):
        return StopDecision(Reason.GOAL_REACHED, f"{progress.best:.6g} reaches the goal {goal:g}")
    return None


def _consecutive(progress: StudyProgress, spec: StudySpec) -> StopDecision | None:
    limit = spec.stop.consecutive_failures
    latest = list(islice(_counted(progress.finished), limit))
    if len(latest) < limit or not all(_is_failure(trial) for trial in latest):
        return None
    return StopDecision(
        Reason.CONSECUTIVE_FAILURES,
        f"the last {limit} trials failed, the latest with {latest[0].reason}",
    )


def _rate(progress: StudyProgress, spec: StudySpec) -> StopDecision | None:
    window = spec.stop.failure_window
    ran = (t for t in _counted(progress.finished) if t.reason is not Reason.INVALID_PLAN)
    latest = list(islice(ran, window))
    failed = sum(1 for trial in latest if _is_failure(trial))
    # Divided, as the file says it: 0.55 * 20 is more than 11.
    if len(latest) < window or failed / window < spec.stop.failure_rate:
        return None
    return StopDecision(Reason.FAILURE_RATE, f"{failed} of the last {window} trials failed")


def _plateau(progress: StudyProgress, spec: StudySpec) -> StopDecision | None:
    limit = spec.stop.no_improvement
    if limit is None:
        return None
    tried = (t for t in _counted(progress.finished) if not _says_nothing(t))
    latest = list(islice(tried, limit))
    if len(latest) < limit or any(trial.kept for trial in latest):
        return None
    return StopDecision(Reason.NO_IMPROVEMENT, f"none of the last {limit} trials was kept")


def _exhausted(progress: StudyProgress, spec: StudySpec) -> StopDecision | None:
    if not progress.exhausted:
        return None
    return StopDecision(
        Reason.SPACE_EXHAUSTED, f"{spec.proposer.name} has nothing left to propose"
    )


def _budget(progress: StudyProgress, spec: StudySpec) -> StopDecision | None:
    allowed = admission(1, progress.budgets, spec, progress.durations, progress.active_s)
    if allowed.count or allowed.reason is None or not (allowed.final or progress.live == 0):
        return None
    return StopDecision(allowed.reason, allowed.detail)


def _counted(finished: Sequence[FinishedTrial]) -> Iterator[FinishedTrial]:
    """The latest first, without cancelled ones."""
    return (trial for trial in reversed(finished) if trial.state is not TrialState.CANCELLED)


def _is_failure(trial: FinishedTrial) -> bool:
    return trial.state is TrialState.FAILED


def _says_nothing(trial: FinishedTrial) -> bool:
    """Whether it failed by no doing of the candidate's, or never ran."""
    by_candidate = fault_class(trial.reason) is FaultClass.CANDIDATE
    return _is_failure(trial) and (not by_candidate or trial.reason is Reason.INVALID_PLAN)
