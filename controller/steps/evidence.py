"""Rare reads of the ledger that replaying and promoting need; each opens and closes a session."""

from controller.steps.context import StepContext
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


def incumbent_moved_since(ctx: StepContext, family_id: str, incumbent: Incumbent | None) -> bool:
    """Whether the model's pointer moved after the family was opened against it."""
    with ctx.ledger.read() as session:
        families = reads.list_families(session, ctx.view.study.id)
    opened_at = next((f.created_at for f in families if f.id == family_id), None)
    return incumbent is not None and opened_at is not None and incumbent.created_at > opened_at


def current_incumbent(ctx: StepContext) -> Incumbent | None:
    """The model's incumbent as the ledger has it now, whoever set it."""
    promotion = ctx.view.spec.promotion
    if promotion is None:
        return None
    with ctx.ledger.read() as session:
        return reads.latest_incumbent(session, promotion.model)


def confirmed_artifact(ctx: StepContext, family_id: str, candidate_id: str) -> str:
    """Model tree of the candidate's first good confirmation run: trained anew, from clean."""
    trial_id = next(
        (
            m.trial_id
            for m in ctx.view.replays.get(family_id, ())
            if m.candidate_id == candidate_id
            and (m.stage or "").startswith("confirm")
            and m.state is TrialState.COMPLETE
        ),
        None,
    )
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
