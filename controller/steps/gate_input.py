"""What the gate is given: a family's members, pool and finished replays, read from the view."""

from typing import Final

from controller.decisions.families import (
    Gate,
    Guard,
    HoldoutRun,
    Member,
    ReplayRun,
    Stage,
)
from controller.decisions.profiles import read_profile
from controller.steps.context import StepContext
from controller.steps.view import Measured, StudyView
from ledger.records import Family, Split
from ledger.states import FaultClass, TrialState, fault_class

HALVES: Final = (Split.HOLDOUT_A, Split.HOLDOUT_B)


def gate_of(ctx: StepContext, family: Family) -> Gate:
    """The gate's view of a family: everything it was opened with."""
    view = ctx.view
    promotion = view.spec.promotion
    items = ctx.bundle.items if ctx.bundle is not None else {}
    by_candidate = {m: view.candidates.get(m) for m in family.candidates}
    return Gate(
        profile=read_profile(family.profile),
        direction=view.objective.direction,
        members=[
            Member(candidate=c, screening=known.value)
            for c, known in by_candidate.items()
            if known is not None and known.value is not None
        ],
        incumbent=family.incumbent_id,
        pool=[
            HoldoutRun(
                a=m.values[halves_of(view)[0]],
                b=m.values[halves_of(view)[-1]],
                guards=_guards(ctx, m),
            )
            for m in pool_of(view)
        ],
        items_a=items.get(Split.HOLDOUT_A) or 1,
        items_b=items.get(Split.HOLDOUT_B) or 1,
        guards=[
            Guard(metric=name, max_drop=guard.max_drop)
            for name, guard in (promotion.guard if promotion else {}).items()
        ],
    )


def _guards(ctx: StepContext, measured: Measured) -> dict[str, float]:
    """Guard metrics over both halves, weighted by their items, larger being better."""
    promotion = ctx.view.spec.promotion
    items = ctx.bundle.items if ctx.bundle is not None else {}
    found: dict[str, float] = {}
    for name in promotion.guard if promotion else {}:
        weighted = [
            (float(items.get(half) or 1), measured.scores[half][name])
            for half in halves_of(ctx.view)
            if name in measured.scores.get(half, {})
        ]
        if weighted:
            total = sum(weight for weight, _ in weighted)
            found[name] = sum(weight * score for weight, score in weighted) / total
    return found


def finished_runs(ctx: StepContext, family: Family) -> list[ReplayRun]:
    """Replays that ended, by their place in the gate; lost ones are made again and not here."""
    view = ctx.view
    runs = []
    for measured in view.replays.get(family.id, ()):
        stage, _, index = (measured.stage or "").partition(":")
        failed = measured.state is not TrialState.COMPLETE
        if failed and fault_class(measured.reason) is not FaultClass.CANDIDATE:
            continue
        a, b = halves_of(view)[0], halves_of(view)[-1]
        runs.append(
            ReplayRun(
                candidate=measured.candidate_id,
                stage=Stage(stage),
                index=int(index),
                a=measured.values.get(a),
                b=measured.values.get(b),
                guards=_guards(ctx, measured),
                failed=failed,
            )
        )
    return runs


def winner_of(family: Family) -> str:
    """Candidate id of the family's best, as the gate named it."""
    return str(family.evidence.get("best") or "")


def pool_of(view: StudyView) -> list[Measured]:
    """Whole, unselected runs of the incumbent: the baseline pool."""
    return [m for m in view.baselines if all(half in m.values for half in halves_of(view))]


def halves_of(view: StudyView) -> tuple[Split, ...]:
    return (Split.SEARCH,) if view.spec.evaluator.mode == "reported" else HALVES
