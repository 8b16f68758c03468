"""Replayed: opens a replay family, makes the runs the gate asks for, and records how it ended."""

from collections.abc import Mapping
from typing import Final

from controller.decisions.families import (
    Gate,
    GateVerdict,
    Guard,
    HoldoutRun,
    Member,
    NeedRuns,
    ReplayRun,
    RunRequest,
    Stage,
)
from controller.decisions.profiles import (
    GateProfile,
    profile_document,
    profile_for,
    read_profile,
)
from controller.decisions.promotion import Screened, choose_family
from controller.decisions.replays import next_gate_step
from controller.steps import evidence
from controller.steps.context import StepContext
from controller.steps.prepare import is_bundle_intact
from controller.steps.promote import refuse, settle_passed, winner_of
from controller.steps.propose import NewTrial, add_trial
from controller.steps.view import Measured, StudyView
from ledger import entries as e
from ledger.digests import derive_seed
from ledger.errors import Conflict
from ledger.records import Family, Proposal, Split, TrialKind
from ledger.states import FamilyState, FaultClass, Reason, StudyState, TrialState, fault_class

HALVES: Final = (Split.HOLDOUT_A, Split.HOLDOUT_B)


def run(ctx: StepContext) -> None:
    state = ctx.view.study.state
    if state is StudyState.DRAINING and not ctx.view.live:
        if is_bundle_intact(ctx):
            ctx.move(StudyState.REPLAYING)
    elif state is StudyState.REPLAYING:
        family = open_family(ctx.view)
        if family is not None:
            _advance(ctx, family)
        elif _wants_family(ctx.view):
            _open_best(ctx)
        else:
            ctx.move(StudyState.COMPLETED)


def open_family(view: StudyView) -> Family | None:
    """The family being replayed; a study has one at a time."""
    return next((f for f in view.families.values() if f.state is FamilyState.OPEN), None)


def _wants_family(view: StudyView) -> bool:
    return view.spec.promotion is not None and view.study.reason not in (
        Reason.STOPPED_BY_OPERATOR,
        Reason.GOAL_MET_BY_BASE,
    )


def _open_best(ctx: StepContext) -> None:
    """Open the family of the best screened candidates; nothing to replay is a normal end."""
    view = ctx.view
    screened = [
        Screened(candidate=t.candidate_id, value=t.value)
        for t in view.finished
        if t.state is TrialState.COMPLETE
    ]
    try:
        profile = _profile(view)
    except Conflict as error:
        ctx.move(StudyState.COMPLETED, detail=str(error))
        return
    members = choose_family(
        screened,
        incumbent=incumbent_id(ctx),
        baseline=ctx.baseline_values(),
        direction=view.objective.direction,
        m=profile.m,
    )
    if not members:
        ctx.move(StudyState.COMPLETED, detail="no candidate beat the baseline: nothing to replay")
        return
    _open(ctx, tuple(m.candidate for m in members))


def open_for(ctx: StepContext, candidate_id: str, actor: str) -> None:
    """Open a family for one candidate on an operator's word. Raises Conflict, with what to do."""
    view = ctx.view
    if view.spec.promotion is None:
        raise Conflict("this study has no `promotion` section, so there is no gate to replay for")
    if view.study.state is not StudyState.COMPLETED:
        raise Conflict(
            f"study {view.study.name} is {view.study.state}; candidates are replayed once it is "
            "completed (its own gate does so; `arl stop` ends the search early)"
        )
    known = view.candidates.get(candidate_id)
    if known is None or known.value is None:
        raise Conflict(f"candidate {candidate_id or '(none)'} has no score in this study")
    if candidate_id == incumbent_id(ctx):
        raise Conflict(f"candidate {candidate_id} is the incumbent itself")
    _profile(view)
    ctx.move(StudyState.RUNNING, detail=f"replay of {candidate_id} asked for by {actor}")
    ctx.move(StudyState.DRAINING)
    ctx.move(StudyState.REPLAYING)
    _open(ctx, (candidate_id,))


def _profile(view: StudyView) -> GateProfile:
    promotion = view.spec.promotion
    if promotion is None:
        raise Conflict("this study has no `promotion` section")
    return profile_for(
        promotion.profile,
        alpha=promotion.alpha,
        min_effect=promotion.min_effect,
        families_before=len(view.families),
    )


def _open(ctx: StepContext, members: tuple[str, ...]) -> None:
    view, bundle, promotion = ctx.view, ctx.bundle, ctx.view.spec.promotion
    if promotion is None:
        raise Conflict("this study has no `promotion` section")
    number = len(view.families) + 1
    family_id = f"{view.study.id}-f{number}"
    bundle_digest = bundle.digest if bundle is not None else ""
    ctx.add(
        e.FamilyOpened(
            family_id=family_id,
            number=number,
            model=promotion.model,
            bundle_digest=bundle_digest,
            profile=profile_document(_profile(view)),
            candidates=members,
            incumbent_id=incumbent_id(ctx),
            pool=tuple(m.trial_id for m in _pool(view)),
        )
    )
    if bundle is None:
        return
    use, limit = evidence.holdout_uses(ctx, bundle_digest) + 1, view.spec.evaluator.holdout_budget
    if use > limit:
        spent = {"uses": use - 1, "limit": limit}
        _close(ctx, view.families[family_id], Reason.HOLDOUT_BUDGET_SPENT, spent)
        return
    ctx.add(e.HoldoutUsed(family_id=family_id, bundle_digest=bundle_digest, use=use, limit=limit))


def _close(ctx: StepContext, family: Family, reason: Reason, found: Mapping[str, int]) -> None:
    ctx.add(
        e.FamilyMoved(
            family_id=family.id,
            current=family.state,
            new=FamilyState.REFUSED,
            reason=reason,
            evidence=found,
        )
    )
    ctx.move(StudyState.COMPLETED, detail=f"nothing promoted: {reason}")


def incumbent_id(ctx: StepContext) -> str:
    """Candidate id of what is to beat: the model's comparable incumbent, else the baseline."""
    return ctx.baseline_candidate_id()


def _pool(view: StudyView) -> list[Measured]:
    """Whole, unselected runs of the incumbent: the baseline pool."""
    return [m for m in view.baselines if all(half in m.values for half in _halves(view))]


def _halves(view: StudyView) -> tuple[Split, ...]:
    return (Split.SEARCH,) if view.spec.evaluator.mode == "reported" else HALVES


def _advance(ctx: StepContext, family: Family) -> None:
    step = next_gate_step(gate_of(ctx, family), _runs(ctx.view, family))
    if isinstance(step, NeedRuns):
        _make_runs(ctx, family, step.requests)
    else:
        _conclude(ctx, family, step)


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
                a=m.values[_halves(view)[0]],
                b=m.values[_halves(view)[-1]],
                guards=_guards(ctx, m),
            )
            for m in _pool(view)
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
            for half in _halves(ctx.view)
            if name in measured.scores.get(half, {})
        ]
        if weighted:
            total = sum(weight for weight, _ in weighted)
            value = sum(weight * score for weight, score in weighted) / total

            found[name] = value
    return found


def _runs(view: StudyView, family: Family) -> list[ReplayRun]:
    runs = []
    for measured in view.replays.get(family.id, ()):
        stage, _, index = (measured.stage or "").partition(":")
        failed = measured.state is not TrialState.COMPLETE
        if failed and fault_class(measured.reason) is not FaultClass.CANDIDATE:
            continue
        a, b = _halves(view)[0], _halves(view)[-1]
        runs.append(
            ReplayRun(
                candidate=measured.candidate_id,
                stage=Stage(stage),
                index=int(index),
                a=measured.values.get(a),
                b=measured.values.get(b),
                failed=failed,
            )
        )
    return runs


def _make_runs(ctx: StepContext, family: Family, requests: tuple[RunRequest, ...]) -> None:
    """Propose the missing replays, as many as there are slots; the rest come as slots free."""
    view = ctx.view
    in_flight = {(t.candidate_id, t.stage) for t in view.live.values()}
    for request in requests:
        stage = f"{request.stage}:{request.index}"
        if (request.candidate, stage) in in_flight:
            continue
        if len(view.live) >= view.spec.parallel:
            return
        if evidence.keeps_failing(ctx, family.id, request.candidate, stage):
            ctx.move(
                StudyState.FAILED,
                Reason.ATTEMPT_LOST,
                f"replay {stage} of {request.candidate} kept failing by no fault of its own",
            )
            return
        candidate = evidence.candidate(ctx, request.candidate)
        splits = request.splits
        if view.spec.evaluator.mode == "reported":
            splits = (Split.SEARCH,)
        elif request.stage is Stage.CONFIRM:
            splits = (Split.SEARCH, *splits)
        new = NewTrial(
            kind=TrialKind.REPLAY,
            proposal=Proposal(params=candidate.params, rationale=f"replay {stage}"),
            source_digest=candidate.source_digest,
            proposer="replay",
            seed=derive_seed(view.study.secret, family.id, request.index),
            splits=splits,
            family_id=family.id,
            stage=stage,
        )
        add_trial(ctx, new)


def _conclude(ctx: StepContext, family: Family, verdict: GateVerdict) -> None:
    found = {**verdict.evidence, "best": verdict.best}
    ctx.add(
        e.FamilyMoved(
            family_id=family.id,
            current=family.state,
            new=verdict.state,
            reason=verdict.reason,
            evidence=found,
        )
    )
    if verdict.state is FamilyState.PASSED:
        settle_passed(ctx, ctx.view.families[family.id], approver="gate", approved=False)
        return
    ctx.move(StudyState.COMPLETED, detail=f"nothing promoted: {verdict.reason}")


def approve(ctx: StepContext, candidate_id: str, actor: str) -> None:
    """An operator's word for a candidate: approve its passed family, else put it to the gate."""
    family = _awaiting(ctx, candidate_id)
    if family is None:
        open_for(ctx, candidate_id, actor)
    else:
        settle_passed(ctx, family, approver=actor, approved=True)


def decline(ctx: StepContext, candidate_id: str, actor: str) -> None:
    """Refuse a promotion that awaits approval. Raises Conflict when there is none."""
    family = _awaiting(ctx, candidate_id)
    if family is None:
        raise Conflict(f"no promotion of candidate {candidate_id} awaits approval")
    refuse(ctx, family, Reason.DECLINED_BY_OPERATOR, f"declined by {actor}")


def _awaiting(ctx: StepContext, candidate_id: str) -> Family | None:
    return next(
        (
            f
            for f in ctx.view.families.values()
            if f.state is FamilyState.AWAITING_APPROVAL and winner_of(f) == candidate_id
        ),
        None,
    )
