"""Replayed: opens a replay family, makes the runs the gate asks for, and records how it ended."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from controller.decisions.families import (
    GateVerdict,
    NeedRuns,
    RunRequest,
    Stage,
)
from controller.decisions.profiles import (
    GateProfile,
    profile_document,
    profile_for,
)
from controller.decisions.promotion import Screened, choose_family
from controller.decisions.replays import next_gate_step
from controller.steps import evidence
from controller.steps.context import StepContext
from controller.steps.ending import fail_study
from controller.steps.gate_input import finished_runs, gate_of, pool_of, winner_of
from controller.steps.prepare import is_bundle_intact
from controller.steps.promote import find_missing_links, refuse, settle_passed
from controller.steps.propose import NewTrial, add_trial
from controller.steps.view import StudyView
from ledger import entries as e
from ledger.digests import derive_seed
from ledger.errors import Conflict
from ledger.finished_trials import outcomes_of
from ledger.records import Family, Split, TrialKind
from ledger.search import Proposal
from ledger.states import FamilyState, Reason, StudyState, TrialState

MOVED: Final = (
    "the model has another incumbent than this study set out to beat; a new study starts from it"
)


def run(ctx: StepContext) -> None:
    state = ctx.view.study.state
    if state is StudyState.DRAINING and not ctx.view.live:
        if is_bundle_intact(ctx):
            ctx.move(StudyState.REPLAYING)
    elif state is StudyState.REPLAYING:
        family = open_family(ctx.view)
        if family is not None:
            _advance(ctx, family)
        elif ctx.view.open_conversions():
            return  # the gate is behind it
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
    if evidence.has_incumbent_moved(ctx, evidence.current_incumbent(ctx)):
        ctx.move(StudyState.COMPLETED, detail=f"not replayed: {MOVED}")
        return
    ended = partial(outcomes_of, view.finished)  # unpacked twice, and never all held at once
    broken = {t.candidate_id for t in ended() if t.reason is Reason.INFEASIBLE}
    screened = [
        Screened(candidate=t.candidate_id, value=t.value)
        for t in ended()
        if t.state is TrialState.COMPLETE and t.candidate_id not in broken
    ]
    try:
        profile = _profile(view)
    except Conflict as error:
        ctx.move(StudyState.COMPLETED, detail=str(error))
        return
    members = choose_family(
        screened,
        incumbent=ctx.baseline_candidate_id(),
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
    if candidate_id == ctx.baseline_candidate_id():
        raise Conflict(f"candidate {candidate_id} is the incumbent itself")
    _profile(view)
    asked = f"replay of {candidate_id} asked for by {actor}"
    if evidence.has_incumbent_moved(ctx, evidence.current_incumbent(ctx)):
        asked += f"; for evidence only: {MOVED}"
    ctx.move(StudyState.REPLAYING, detail=asked)
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
            incumbent_id=ctx.baseline_candidate_id(),
            pool=tuple(m.trial_id for m in pool_of(view)),
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


def _advance(ctx: StepContext, family: Family) -> None:
    step = next_gate_step(gate_of(ctx, family), finished_runs(ctx, family))
    if isinstance(step, NeedRuns):
        _make_runs(ctx, family, step.requests)
    else:
        _conclude(ctx, family, step)


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
            fail_study(
                ctx,
                Reason.ATTEMPT_LOST,
                f"replay {stage} of {request.candidate} kept failing by no fault of its own",
            )
            return
        params, source_digest = evidence.candidate_parts(ctx, request.candidate)
        splits = request.splits
        if view.spec.evaluator.mode == "reported":
            splits = (Split.SEARCH,)
        elif request.stage is Stage.CONFIRM:
            splits = (Split.SEARCH, *splits)
        new = NewTrial(
            kind=TrialKind.REPLAY,
            proposal=Proposal(params=params, rationale=f"replay {stage}"),
            source_digest=source_digest,
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


def approve(ctx: StepContext, candidate_id: str, actor: str, note: str = "") -> str:
    """An operator's word for a candidate: approve its passed family, else put it to the gate.
    Why it was not promoted although the gate passed; else empty."""
    family = _awaiting(ctx, candidate_id)
    if family is None:
        _refuse_again(ctx, candidate_id)
        open_for(ctx, candidate_id, actor)
        return ""
    return settle_passed(ctx, family, approver=actor, approved=True, note=note)


def _refuse_again(ctx: StepContext, candidate_id: str) -> None:
    """Raise Conflict if the candidate passed the gate and was declined for links that are missing
    still: the replays of another family would cost the same and end there, too."""
    passed = [f for f in ctx.view.families.values() if winner_of(f) == candidate_id]
    if not passed or passed[-1].reason is not Reason.LINEAGE_INCOMPLETE:
        return
    missing = find_missing_links(ctx, passed[-1])
    if missing:
        raise Conflict(
            f"candidate {candidate_id} passed the gate in family {passed[-1].number}, but its"
            f" lineage lacks {', '.join(missing)}; run the study again with the programs of this"
            " version, which record it (`arl replay` puts it before the gate all the same)"
        )


def approve_awaiting(ctx: StepContext, candidate_id: str, actor: str, note: str = "") -> str:
    """Promote a candidate whose gate passed; why it was not, else empty. Raises Conflict when none
    of it awaits approval."""
    family = _awaiting(ctx, candidate_id)
    if family is None:
        raise Conflict(f"no promotion of candidate {candidate_id} awaits approval")
    return settle_passed(ctx, family, approver=actor, approved=True, note=note)


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
