"""How far a study's search has come, as the stopping decision wants to know it."""

from controller.decisions.stopping import StudyProgress
from controller.steps.context import StepContext
from evaluator.statistics import mean
from ledger.records import TrialKind


def read_progress(ctx: StepContext) -> StudyProgress:
    """Cheap: nothing here grows with the study's length."""
    view = ctx.view
    baseline = ctx.baseline_values()
    return StudyProgress(
        finished=view.finished,
        best=view.best_value,
        baseline=mean(baseline) if baseline else None,
        live=sum(1 for t in view.live.values() if t.kind is TrialKind.SEARCH),
        exhausted=view.exhausted,
        budgets=ctx.search_budgets(),
        durations=tuple(view.durations),
        active_s=ctx.active_s(),
    )
