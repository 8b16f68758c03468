"""Promoted: moves a model's incumbent to a family's winner, with all its evidence or not."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from controller.decisions.lineage import missing_links
from controller.decisions.promotion import PromotionFacts, decide_promotion
from controller.steps import evidence, lineage
from controller.steps.context import StepContext
from controller.steps.convert_opening import open_all
from controller.steps.gate_input import winner_of
from evaluator.bundle import verify_bundle
from ledger import entries as e
from ledger.errors import ArtifactCorrupt, BundleChanged, Conflict, NotFound
from ledger.records import Family, Json
from ledger.states import FamilyState, Reason, StudyState


@dataclass(frozen=True, slots=True)
class Winner:
    """What is promoted, and what it was made of."""

    artifact: str
    links: Mapping[str, Json]


def settle_passed(
    ctx: StepContext, family: Family, *, approver: str, approved: bool, note: str = ""
) -> str:
    """Promote the winner of a passed family or ask for approval; why it may not be promoted, else
    empty."""
    won = _winner(ctx, family)
    facts = replace(
        _facts(ctx, family, won.artifact, approved=approved),
        missing_links=missing_links(lineage.needs_of(ctx), won.links),
    )
    decision = decide_promotion(facts)
    if decision.allowed:
        _promote(ctx, family, won, approver, note)
        if ctx.view.spec.convert:
            _convert(ctx, family, approver)
            return ""
    elif decision.awaits_approval:
        _move(ctx, family, FamilyState.AWAITING_APPROVAL, Reason.PASSED)
    else:
        return refuse(ctx, family, decision.reason, decision.detail)
    detail = "promoted" if decision.allowed else "a promotion awaits approval (`arl promote`)"
    if ctx.view.study.state is StudyState.REPLAYING:
        ctx.move(StudyState.COMPLETED, detail=detail)
    return ""


def find_missing_links(ctx: StepContext, family: Family) -> tuple[str, ...]:
    """What the lineage of a passed family's winner lacks now, in words."""
    return missing_links(lineage.needs_of(ctx), _winner(ctx, family).links)


def _winner(ctx: StepContext, family: Family) -> Winner:
    """What is to be promoted: of the winner's first confirmation run, trained from clean."""
    artifact = evidence.confirmed_artifact(ctx, family.id, winner_of(family))
    return Winner(artifact, lineage.collect_links(ctx, family, winner_of(family), artifact))


def _facts(ctx: StepContext, family: Family, artifact: str, *, approved: bool) -> PromotionFacts:
    promotion = ctx.view.spec.promotion
    if promotion is None:
        raise Conflict("this study has no `promotion` section")
    incumbent = evidence.current_incumbent(ctx)
    moved = evidence.has_incumbent_moved(ctx, incumbent)
    return PromotionFacts(
        family_state=family.state,
        approval_required=promotion.approval == "required",
        approved=approved,
        reported=ctx.bundle is None,
        allow_reported=promotion.allow_reported,
        family_incumbent=family.incumbent_id,
        current_incumbent=incumbent.candidate_id
        if incumbent is not None and moved
        else family.incumbent_id,
        family_bundle=family.bundle_digest,
        current_bundle=_bundle_digest_now(ctx),
        comparison=ctx.view.study.comparison,
        incumbent_comparison=None,  # an incumbent of another comparison family is not the bar
        artifact_verified=_is_intact(ctx, artifact),
    )


def _bundle_digest_now(ctx: StepContext) -> str:
    if ctx.bundle is None:
        return ""
    try:
        verify_bundle(ctx.store, ctx.bundle.digest)
    except (BundleChanged, ArtifactCorrupt, NotFound):
        return ""
    return ctx.bundle.digest


def _is_intact(ctx: StepContext, artifact: str) -> bool:
    try:
        ctx.store.verify(artifact)
    except (ArtifactCorrupt, NotFound):
        return False
    return True


def _promote(ctx: StepContext, family: Family, won: Winner, approver: str, note: str) -> None:
    previous = evidence.current_incumbent(ctx)
    _move(ctx, family, FamilyState.PROMOTED, Reason.PROMOTED, "promoted")
    ctx.add(
        e.CandidatePromoted(
            model=family.model,
            incumbent_seq=(previous.seq if previous is not None else 0) + 1,
            candidate_id=winner_of(family),
            previous_id=previous.candidate_id if previous is not None else None,
            family_id=family.id,
            comparison=ctx.view.study.comparison,
            artifact_digest=won.artifact,
            approver=approver,
            evidence=family.evidence,
            note=note,
            lineage=won.links,
        )
    )


def _convert(ctx: StepContext, family: Family, approver: str) -> None:
    """Open the study's conversions; it is completed once the last of them is judged."""
    open_all(ctx, family, approver)
    if ctx.view.study.state is StudyState.COMPLETED:  # it was approved afterwards
        ctx.move(StudyState.REPLAYING, detail=f"approved by {approver}; the model is converted")


def refuse(ctx: StepContext, family: Family, reason: Reason, detail: str) -> str:
    """The gate passed but the promotion may not happen: a typed end, and what to do in words."""
    said = f"not promoted: {detail}"
    _move(ctx, family, FamilyState.DECLINED, reason, said)
    if ctx.view.study.state is StudyState.REPLAYING:
        ctx.move(StudyState.COMPLETED, detail=said)
    return said


def _move(
    ctx: StepContext, family: Family, new: FamilyState, reason: Reason, detail: str = ""
) -> None:
    """A study that is completed already, as when somebody approves, says `detail` from now on."""
    is_over = ctx.view.study.state is StudyState.COMPLETED
    ctx.add(
        e.FamilyMoved(
            family_id=family.id,
            current=ctx.view.families[family.id].state,
            new=new,
            reason=reason,
            evidence=family.evidence,
            detail=detail if is_over else "",
        )
    )
