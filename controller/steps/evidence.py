"""Rare reads of the ledger that replaying and promoting need; each opens and closes a session."""

from controller.steps.context import StepContext
from controller.steps.loading import to_beat
from ledger import reads
from ledger.records import ArtifactRole, Incumbent, Params
from ledger.states import FaultClass, TrialState, fault_class

REPLAY_TRIES = 3
"""Trials of one replay that may fail by infrastructure's or the evaluator's fault."""


def holdout_uses(ctx: StepContext, bundle_digest: str) -> int:
    """How many families, of all studies, have used this bundle's holdout split."""
    with ctx.ledger.read() as session:
        return reads.holdout_uses(session, bundle_digest)


def candidate_parts(ctx: StepContext, candidate_id: str) -> tuple[Params, str | None]:
    """A candidate's parameters and source tree. The baseline's are known without a trial of it:
    with a reused pool this study may have none. Raises NotFound."""
    if candidate_id == ctx.baseline_candidate_id():
        return ctx.view.baseline_params, ctx.view.baseline_source
    with ctx.ledger.read() as session:
        candidate = reads.get_candidate(session, candidate_id)
    return candidate.params, candidate.source_digest


def has_incumbent_moved(ctx: StepContext, incumbent: Incumbent | None) -> bool:
    """Whether the model has another incumbent than the one this study froze with its inputs:
    beating that one then says nothing about this one. One of another comparison family that
    was there before the study is not its bar, and stays out of it."""
    if incumbent is None:
        return False
    if to_beat(incumbent) == ctx.view.incumbent:
        return False
    comparable = incumbent.comparison == ctx.view.study.comparison
    return comparable or incumbent.created_at > ctx.view.study.created_at


def current_incumbent(ctx: StepContext) -> Incumbent | None:
    """The model's incumbent as the ledger has it now, whoever set it."""
    promotion = ctx.view.spec.promotion
    if promotion is None:
        return None
    with ctx.ledger.read() as session:
        return reads.latest_incumbent(session, promotion.model)


def confirmed_trial(ctx: StepContext, family_id: str, candidate_id: str) -> str | None:
    """The candidate's first good confirmation run: trained anew, from clean."""
    return next(
        (
            m.trial_id
            for m in ctx.view.replays.get(family_id, ())
            if m.candidate_id == candidate_id
            and (m.stage or "").startswith("confirm")
            and m.state is TrialState.COMPLETE
        ),
        None,
    )


def confirmed_artifact(ctx: StepContext, family_id: str, candidate_id: str) -> str:
    """Model tree of that run; empty without one."""
    trial_id = confirmed_trial(ctx, family_id, candidate_id)
    if trial_id is None:
        return ""
    with ctx.ledger.read() as session:
        return reads.find_artifact(session, trial_id, ArtifactRole.MODEL) or ""


def keeps_failing(ctx: StepContext, family_id: str, candidate_id: str, stage: str) -> bool:
    """Whether a replay was lost so often, by no fault of the candidate, that it is hopeless."""
    lost = [
        m
        for m in ctx.view.replays.get(family_id, ())
        if (m.candidate_id, m.stage) == (candidate_id, stage)
        and m.state is not TrialState.COMPLETE
        and fault_class(m.reason) is not FaultClass.CANDIDATE
    ]
    return len(lost) >= REPLAY_TRIES
