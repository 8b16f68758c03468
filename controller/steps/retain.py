"""Retained: lets go of saved checkpoints that the study's retention does not keep."""

from collections.abc import Collection
from typing import Final

from controller.decisions.retention import LetGo, Needed, decide_retention
from controller.spec.retention import Policy
from controller.steps.context import StepContext
from controller.steps.gate_input import winner_of
from controller.steps.view import StudyView
from ledger.database import ReadSession
from ledger.records import Family
from ledger.retention_entries import ArtifactReleased
from ledger.saved_reads import named_elsewhere
from ledger.states import ConversionState, FamilyState

BY_ITSELF: Final = "retention"
"""Who let go, where the study file says so."""
_JUDGED: Final = frozenset({FamilyState.OPEN, FamilyState.PASSED, FamilyState.AWAITING_APPROVAL})
_IN_USE: Final = frozenset({ConversionState.OPEN, ConversionState.SERVABLE})


def run(ctx: StepContext) -> None:
    view = ctx.view
    if view.spec.retention is None or view.is_retained:
        return
    view.is_retained = True
    if view.quiet and view.spec.retention.logs is not None:
        _cap_logs(ctx, view.spec.retention.logs)
    policy = view.spec.retention.policy
    if not find_let_go(view, policy):
        return
    with ctx.ledger.read() as session:
        found = let_go(session, view, policy)
    for one in found:
        ctx.add(release_entry(one, policy, BY_ITSELF), urgent=False)
    if found:
        ctx.after_commit.append(ctx.let_go)


def _cap_logs(ctx: StepContext, limit_bytes: int) -> None:
    """Once their ends are committed, and after what their attempts left was put away."""
    trials, ctx.view.quiet = tuple(ctx.view.quiet), []
    ctx.after_commit.append(lambda: ctx.cap_logs(trials, limit_bytes))


def let_go(session: ReadSession, view: StudyView, policy: Policy) -> list[LetGo]:
    """What goes now: neither the view nor anything else in the ledger needs it."""
    digests = {one.saved.digest for one in find_let_go(view, policy)}
    elsewhere = named_elsewhere(session, view.study.id, digests)
    return find_let_go(view, policy, elsewhere) if elsewhere else find_let_go(view, policy)


def find_let_go(
    view: StudyView, policy: Policy, elsewhere: Collection[str] = frozenset()
) -> list[LetGo]:
    """What the study itself does not need, less what is named elsewhere."""
    needed = _needed(view)
    digests = frozenset(elsewhere) | frozenset(needed.digests)
    return decide_retention(
        policy,
        view.saved.values(),
        Needed(candidates=needed.candidates, digests=digests),
        view.objective.direction,
    )


def release_entry(one: LetGo, policy: Policy, actor: str) -> ArtifactReleased:
    saved = one.saved
    return ArtifactReleased(
        attempt_id=saved.attempt_id,
        trial_id=saved.trial_id,
        role=saved.role,
        digest=saved.digest,
        size_bytes=saved.size_bytes,
        reason=one.reason,
        policy=str(policy),
        actor=actor,
    )


def _needed(view: StudyView) -> Needed:
    candidates = set() if view.leader is None else {view.leader.candidate_id}
    for family in view.families.values():
        candidates |= _candidates_of(family)
    digests: set[str] = set()
    for conversion in view.conversions.values():
        if conversion.state in _IN_USE:
            candidates.add(conversion.candidate_id)
            digests |= {*conversion.digests, conversion.artifact_digest or ""}
    return Needed(candidates=candidates, digests=digests)


def _candidates_of(family: Family) -> set[str]:
    if family.state in _JUDGED:
        return {*family.candidates, family.incumbent_id}
    return {winner_of(family)} if family.state is FamilyState.PROMOTED else set()
