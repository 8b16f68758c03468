"""Proposed: turns free slots into trials: the baseline pool first, then the proposer's ideas."""

from dataclasses import dataclass
from typing import Final

from controller.decisions.budgets import may_admit
from controller.decisions.slots import free_slots
from controller.decisions.stopping import decide_stop
from controller.spec.plan_section import plan_fault
from controller.steps.asking import ask_proposer
from controller.steps.context import OutOfModelBudget, StepContext
from controller.steps.ending import fail_study
from controller.steps.progress import read_progress
from controller.steps.sources import patched_source, source_of
from controller.steps.view import LiveTrial, StudyView
from ledger import entries as e
from ledger.digests import derive_seed, json_digest, sha256_hex
from ledger.errors import NotFound
from ledger.records import Split, TrialKind
from ledger.search import Proposal
from ledger.states import Reason, StudyState, TrialState
from proposers.patches import PatchRefused

SPENT: Final = frozenset(
    {
        Reason.SPACE_EXHAUSTED,
        Reason.BUDGET_TRIALS,
        Reason.BUDGET_WALL_TIME,
        Reason.BUDGET_GPU_HOURS,
        Reason.BUDGET_LLM_TOKENS,
        Reason.BUDGET_LLM_COST,
    }
)
"""Reasons to propose no more that leave what is proposed its turn: it is paid for."""


def run(ctx: StepContext) -> None:
    view = ctx.view
    if view.study.state is not StudyState.RUNNING or not _has_space_on_disk(ctx):
        return
    slots = free_slots(view.spec.parallel, len(view.live), None)
    if slots <= 0:
        return
    wanted = baselines_wanted(view) - view.baselines_proposed
    if wanted > 0:
        for _ in range(min(slots, wanted)):
            _propose_baseline(ctx)
    elif _baselines_settled(ctx) and not _stops(ctx):
        _propose_search(ctx, slots)


def baselines_wanted(view: StudyView) -> int:
    """How many baseline trials the study still owes its noise floor and its gate's pool."""
    return max(0, view.spec.baselines() - view.pool_reused)


def _has_space_on_disk(ctx: StepContext) -> bool:
    return not ctx.disk_is_low


def _baselines_settled(ctx: StepContext) -> bool:
    """Whether the pool is measured; fewer than two good baselines end the study."""
    view = ctx.view
    if any(t.kind is TrialKind.BASELINE for t in view.live.values()):
        return False
    good = [m for m in view.baselines if Split.SEARCH in m.values]
    if len(good) >= 2:
        return True
    bad = next((m for m in view.baselines if Split.SEARCH not in m.values), None)
    why = (
        f"; trial {bad.trial_id} was the first to fail, {bad.reason}: {bad.detail}" if bad else ""
    )
    detail = f"{len(good)} of {len(view.baselines)} baseline trials gave a score{why}"
    fail_study(ctx, Reason.BASELINE_FAILED, detail)
    return False


def _stops(ctx: StepContext) -> bool:
    """Move on to draining when the search should end, recording why."""
    stop = decide_stop(read_progress(ctx), ctx.view.spec)
    if stop is None:
        return False
    if stop.reason not in SPENT:
        cancel_waiting(ctx, stop.reason)
    ctx.move(StudyState.DRAINING, stop.reason, stop.detail)
    return True


def cancel_waiting(ctx: StepContext, reason: Reason) -> None:
    """End the search trials that wait for a place to run and never started."""
    for trial in list(ctx.view.live.values()):
        if trial.state is TrialState.PROPOSED and trial.attempt is None:
            ctx.end_trial(
                trial, TrialState.CANCELLED, reason, "the search ended before it started"
            )


def _propose_baseline(ctx: StepContext) -> None:
    view = ctx.view
    index = view.baselines_proposed
    splits = [Split.SEARCH]
    if view.spec.promotion is not None and ctx.bundle is not None:
        splits += [s for s in (Split.HOLDOUT_A, Split.HOLDOUT_B) if s in ctx.bundle.splits]
    new = NewTrial(
        kind=TrialKind.BASELINE,
        proposal=Proposal(params=view.baseline_params, rationale="the baseline to beat"),
        source_digest=view.baseline_source,
        proposer="baseline",
        seed=derive_seed(view.study.secret, "baseline", index),
        splits=tuple(splits),
    )
    add_trial(ctx, new)


def _propose_search(ctx: StepContext, slots: int) -> None:
    view = ctx.view
    count = may_admit(
        slots, ctx.search_budgets(), view.spec, tuple(view.durations), ctx.active_s()
    )
    if (count <= 0 and ctx.asked is None) or view.exhausted:
        return
    try:
        answer = ask_proposer(ctx, count)
    except OutOfModelBudget as spent:
        ctx.move(StudyState.DRAINING, spent.reason, str(spent))
        return
    if answer is not None:
        for proposal in answer.proposals.items:
            _admit_proposal(ctx, proposal, answer.watermark)


def _admit_proposal(ctx: StepContext, proposal: Proposal, watermark: int) -> None:
    """Make it a trial: one that runs, one that is served from what is known, or, when it can be
    no candidate, one that failed for that reason without running anything."""
    view = ctx.view
    source, defect, detail = _source_for(ctx, proposal)
    new = NewTrial(
        kind=TrialKind.SEARCH,
        proposal=proposal,
        source_digest=source,
        proposer=proposal.proposer or view.spec.proposer.name,
        seed=derive_seed(view.study.secret, "search", view.next_search),
        splits=(Split.SEARCH,),
        watermark=watermark,
        defect=defect,
    )
    trial = add_trial(ctx, new)
    if defect is not None:
        ctx.end_trial(trial, TrialState.FAILED, defect, detail)
        return
    known = view.candidates[trial.candidate_id]
    if known is not None and view.spec.duplicates == "serve":
        ctx.add(
            e.TrialServed(
                trial_id=trial.id,
                of_trial=trial_id_of(view, known.number),
                value=known.value,
                finish_seq=view.finish_seq + 1,
            )
        )


def _source_for(ctx: StepContext, proposal: Proposal) -> tuple[str | None, Reason | None, str]:
    """The candidate's source tree, or why there is none."""
    parent = ctx.view.baseline_source
    try:
        if proposal.patch is not None or proposal.parent_id is not None:
            parent = source_of(ctx, proposal.parent_id)
        if proposal.defect is not None:
            return parent, proposal.defect, proposal.defect_detail
        if fault := plan_fault(ctx.view.spec, proposal.params):
            return parent, Reason.INVALID_PLAN, fault
        if proposal.patch is None:
            return parent, None, ""
        if parent is None:
            return None, Reason.MALFORMED_PATCH, "the study has no program.source to patch"
        return patched_source(ctx, parent, proposal.patch), None, ""
    except (PatchRefused, NotFound) as error:
        reason = error.reason if isinstance(error, PatchRefused) else Reason.MALFORMED_PATCH
        return parent, reason, str(error)


def trial_id_of(view: StudyView, number: int) -> str:
    return f"{view.study.id}-{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTrial:
    """What it takes to give a candidate one more trial."""

    kind: TrialKind
    proposal: Proposal
    source_digest: str | None
    proposer: str
    seed: int
    splits: tuple[Split, ...]
    watermark: int | None = None
    """Trials finished when it was proposed; None: as of now."""
    family_id: str | None = None
    stage: str | None = None
    defect: Reason | None = None
    """Why it is no candidate: its digest covers the patch's text, as nothing else is known."""


def add_trial(ctx: StepContext, new: NewTrial) -> LiveTrial:
    """Queue one trial of a candidate, whether new to the study or known."""
    view, proposal = ctx.view, new.proposal
    digest = ctx.candidate_digest(proposal.params, new.source_digest)
    if new.defect is not None:
        digest = json_digest([digest, new.defect, view.next_number, proposal.patch])
    candidate_id = ctx.candidate_id(digest)
    trial_id = trial_id_of(view, view.next_number)
    ctx.add(
        e.CandidateProposed(
            trial_id=trial_id,
            number=view.next_number,
            trial_kind=new.kind,
            candidate_id=candidate_id,
            digest=digest,
            params=proposal.params,
            patch_digest=None if proposal.patch is None else sha256_hex(proposal.patch.encode()),
            source_digest=new.source_digest,
            parent_id=proposal.parent_id,
            rationale=proposal.rationale[:2000],
            proposer=new.proposer,
            seed=new.seed,
            watermark=view.finish_seq if new.watermark is None else new.watermark,
            splits=new.splits,
            family_id=new.family_id,
            stage=new.stage,
            new_candidate=candidate_id not in view.candidates,
            patch=proposal.patch,
        )
    )
    return view.live[trial_id]
