"""What a study's budgets still allow: whether another trial may start, and until when."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from controller.spec.study import StudySpec
from ledger.records import BudgetLine, Resource, TrialKind
from ledger.states import Reason

WALL_GRACE_S: Final = 5.0
"""A trial that is running when the wall-time budget ends is cut so much later, not earlier."""
_GPU_SLACK_S: Final = 1e-6
"""Hours that are exactly so many trials may come to a little less in seconds; the ledger's own
rule allows as much."""

_REASONS: Final[Mapping[Resource, Reason]] = {
    Resource.TRIALS: Reason.BUDGET_TRIALS,
    Resource.WALL_S: Reason.BUDGET_WALL_TIME,
    Resource.GPU_S: Reason.BUDGET_GPU_HOURS,
    Resource.LLM_TOKENS: Reason.BUDGET_LLM_TOKENS,
    Resource.LLM_COST_USD: Reason.BUDGET_LLM_COST,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """How many more trials the budgets allow now."""

    count: int
    """At most what was asked for."""
    reason: Reason | None = None
    """The budget that allows no more; None when all that was asked for may start."""
    detail: str = ""
    final: bool = False
    """Whether waiting cannot help: no reservation that is still open could come back."""


def attempt_timeout_s(
    wall_time_s: float,
    wall: BudgetLine | None,
    active_s: float,
    *,
    kind: TrialKind = TrialKind.SEARCH,
) -> float:
    """The deadline of an attempt that starts now: its own limit, or a little more than the
    study's wall time has left. `active_s` is the study's wall time so far.

    Replays and conversions come after the search, often because its time is up, and keep their
    own limit: cutting one would count as the candidate's failure and refuse it.
    """
    after_search = kind in (TrialKind.REPLAY, TrialKind.CONVERSION)
    if after_search or wall is None or wall.limit is None:
        return wall_time_s
    return min(wall_time_s, max(0.0, wall.limit - active_s) + WALL_GRACE_S)


def may_admit(
    slots: int,
    budgets: Mapping[Resource, BudgetLine],
    spec: StudySpec,
    durations: Sequence[float],
    active_s: float,
) -> int:
    """How many of `slots` search trials may start now. See `admission`."""
    return admission(slots, budgets, spec, durations, active_s).count


def admission(
    slots: int,
    budgets: Mapping[Resource, BudgetLine],
    spec: StudySpec,
    durations: Sequence[float],
    active_s: float,
) -> Admission:
    """How many of `slots` search trials may start now, and which budget allows no more.

    A trial is not started when it cannot fit: the median of `durations` (seconds that finished
    trials took) must not exceed the wall time left, and what its attempts reserve of the GPU
    budget, their whole time limits, must not exceed what is neither spent nor reserved.
    """
    lowest = Admission(count=slots)
    for line in budgets.values():
        found = _allowed(line, spec, durations, active_s)
        if found is not None and (found.count, not found.final) < (
            lowest.count,
            not lowest.final,
        ):
            lowest = found
    return lowest


def _allowed(
    line: BudgetLine, spec: StudySpec, durations: Sequence[float], active_s: float
) -> Admission | None:
    """What one budget allows; None when it says nothing."""
    if line.limit is None:
        return None
    if line.overrun > 0:
        return _none(line, f"{line.overrun:g} more than the {_amount(line)} was used")
    match line.resource:
        case Resource.TRIALS:
            left = int(line.limit - line.spent - line.reserved)
            return _some(line, left, f"all {_amount(line)} are proposed")
        case Resource.WALL_S:
            return _wall(line, durations, active_s)
        case Resource.GPU_S:
            return _gpu(line, spec)
        case _:
            if line.spent + line.reserved < line.limit:
                return None
            return _none(line, f"the {_amount(line)} are used", final=line.reserved == 0)


def _wall(line: BudgetLine, durations: Sequence[float], active_s: float) -> Admission | None:
    left = (line.limit or 0.0) - active_s
    if left <= 0:
        return _none(line, f"the {_amount(line)} are used")
    typical = median(durations) if durations else 0.0
    if typical > left:
        return _none(line, f"{left:.0f} s are left and a trial takes {typical:.0f} s")
    return None


def _gpu(line: BudgetLine, spec: StudySpec) -> Admission | None:
    evaluation_s = 0.0 if spec.evaluator.mode == "reported" else spec.evaluator.wall_time_s
    needed = spec.resources.gpus * (spec.resources.wall_time_s + evaluation_s)
    if needed <= 0:
        return None
    left = (line.limit or 0.0) - line.spent - line.reserved
    detail = f"{left / 3600:.3g} GPU hours are left and a trial may take {needed / 3600:.3g}"
    count = int((left + _GPU_SLACK_S) / needed)
    return _some(line, count, detail, final=line.reserved == 0)


def _some(line: BudgetLine, count: int, detail: str, *, final: bool = True) -> Admission:
    return Admission(
        count=max(0, count),
        reason=_REASONS[line.resource],
        detail=f"budget {line.resource}: {detail}",
        final=final,
    )


def _none(line: BudgetLine, detail: str, *, final: bool = True) -> Admission:
    return _some(line, 0, detail, final=final)


def _amount(line: BudgetLine) -> str:
    return f"{line.limit:g} {line.resource.value}"
