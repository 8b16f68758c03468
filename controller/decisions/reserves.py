"""What the search must leave of the wall time and the GPU budget for the gate's own runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from controller.decisions.profiles import PROFILES, gate_runs_bounds
from controller.spec.study import StudySpec
from ledger.records import BudgetLine, Resource


def search_budgets(
    budgets: Mapping[Resource, BudgetLine], spec: StudySpec, durations: Sequence[float]
) -> dict[Resource, BudgetLine]:
    """The budgets as the search may use them: the gate's most expensive course is set aside, and
    the conversions that follow it.

    A run of the gate is expected to take the median of `durations` (seconds of whole trials);
    before any is known nothing is set aside, since the search has not begun then either.
    """
    if spec.promotion is None or not durations:
        return dict(budgets)
    _, runs = gate_runs_bounds(PROFILES[spec.promotion.profile])
    runs += sum(conversion.seeds for conversion in spec.convert)
    one_s = median(durations)
    aside = {
        Resource.WALL_S: one_s * -(-runs // spec.parallel),
        Resource.GPU_S: one_s * runs * spec.resources.gpus,
    }
    return {
        resource: _lowered(line, aside.get(resource, 0.0)) for resource, line in budgets.items()
    }


def _lowered(line: BudgetLine, amount: float) -> BudgetLine:
    if line.limit is None or amount <= 0:
        return line
    return replace(line, limit=max(line.spent + line.reserved, line.limit - amount))
