"""Folds entries into a study's view: the in-memory twin of the ledger's projections."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from controller.spec.loading import with_setting
from controller.steps.fold_conversions import fold_ended, fold_measured, fold_opened
from controller.steps.fold_endings import end_trial, shift
from controller.steps.fold_retention import fold_recorded, fold_released
from controller.steps.view import LiveAttempt, LiveTrial, StudyView
from ledger import conversion_entries as c
from ledger import entries as e
from ledger.digests import params_digest
from ledger.records import (
    ArtifactRole,
    BudgetLine,
    Family,
    Resource,
    TrialKind,
    Verdict,
)
from ledger.retention_entries import ArtifactReleased
from ledger.setting_entries import SettingChanged
from ledger.states import AttemptState, FamilyState, Reason, StudyState, TrialState, fault_class


def fold(view: StudyView, entry: e.Entry) -> None:
    """Apply one entry. Raises KeyError when it speaks of something the view does not hold."""
    apply = _FOLDS.get(type(entry))
    if apply is not None:
        apply(view, entry)


def _study_moved(view: StudyView, entry: e.StudyMoved) -> None:
    paused = entry.new is StudyState.PAUSED
    view.is_retained = False
    view.proposer_waits = view.proposer_waits and not entry.detail
    view.study = replace(
        view.study,
        state=entry.new,
        reason=entry.reason if entry.reason is not None else view.study.reason,
        detail=entry.detail or view.study.detail,
        paused_by=entry.paused_by if paused else None,
        paused_from=entry.current if paused else None,
    )


def _inputs_frozen(view: StudyView, entry: e.InputsFrozen) -> None:
    view.study = replace(view.study, inputs=entry.inputs)
    view.prepare = None


def _budget_changed(view: StudyView, entry: e.BudgetChanged) -> None:
    line = view.budgets.get(entry.resource) or BudgetLine(
        resource=entry.resource, limit=None, spent=0.0, reserved=0.0, overrun=0.0
    )
    view.budgets[entry.resource] = replace(line, limit=entry.limit)


def _setting_changed(view: StudyView, entry: SettingChanged) -> None:
    view.spec = with_setting(view.spec, entry.setting, entry.value)


def _proposals_made(view: StudyView, entry: e.ProposalsMade) -> None:
    view.proposer_state = entry.state
    if entry.given < entry.asked and not entry.retries:
        view.exhausted = True


def _proposer_waits(view: StudyView, entry: e.ProposerWaits) -> None:
    view.study = replace(view.study, detail=entry.detail)
    view.proposer_waits = bool(entry.detail)


def _model_calls_reserved(view: StudyView, entry: e.ModelCallsReserved) -> None:
    shift(view, Resource.LLM_TOKENS, entry.tokens, 0.0)
    shift(view, Resource.LLM_COST_USD, entry.cost_usd, 0.0)


def _model_called(view: StudyView, entry: e.ModelCalled) -> None:
    view.model_calls = entry.number + 1


def _model_calls_settled(view: StudyView, entry: e.ModelCallsSettled) -> None:
    shift(view, Resource.LLM_TOKENS, -entry.reserved_tokens, entry.tokens)
    shift(view, Resource.LLM_COST_USD, -entry.reserved_cost_usd, entry.cost_usd)


def _candidate_proposed(view: StudyView, entry: e.CandidateProposed) -> None:
    view.next_number = max(view.next_number, entry.number + 1)
    if entry.trial_kind is TrialKind.SEARCH:
        view.next_search += 1
        view.proposed.add(params_digest(entry.params))
        shift(view, Resource.TRIALS, 1.0, 0.0)
    elif entry.trial_kind is TrialKind.BASELINE:
        view.baselines_proposed += 1
    view.candidates.setdefault(entry.candidate_id, None)
    view.live[entry.trial_id] = LiveTrial(
        id=entry.trial_id,
        number=entry.number,
        kind=entry.trial_kind,
        candidate_id=entry.candidate_id,
        params=entry.params,
        source_digest=entry.source_digest,
        seed=entry.seed,
        splits=entry.splits,
        family_id=entry.family_id,
        stage=entry.stage,
        proposer=entry.proposer,
        parent_id=entry.parent_id,
        rationale=entry.rationale,
    )


def _attempt_launching(view: StudyView, entry: e.AttemptLaunching) -> None:
    attempt = LiveAttempt(
        id=entry.attempt_id,
        trial_id=entry.trial_id,
        kind=entry.attempt_kind,
        index=entry.index,
        split=entry.split,
        target=entry.target,
        host=entry.host,
        timeout_s=entry.timeout_s,
        gpu_s=entry.gpu_s,
    )
    shift(view, Resource.GPU_S, entry.gpu_s, 0.0)
    if entry.trial_id is None:
        view.prepare = attempt
        view.prepare_launches = entry.index + 1
        return
    trial = view.live[entry.trial_id]
    trial.attempt = attempt
    trial.launches[entry.attempt_kind, entry.split] = entry.index + 1


def _attempt_started(view: StudyView, entry: e.AttemptStarted) -> None:
    attempt = view.find_attempt(entry.attempt_id)
    attempt.state = AttemptState.RUNNING
    attempt.handle = entry.handle
    if entry.trial_starts and entry.trial_id is not None:
        view.live[entry.trial_id].state = TrialState.RUNNING


def _attempt_exited(view: StudyView, entry: e.AttemptExited) -> None:
    attempt = view.find_attempt(entry.attempt_id)
    attempt.state = AttemptState.EXITED
    attempt.exited = entry
    shift(view, Resource.GPU_S, -attempt.gpu_s, entry.gpu_s)
    if attempt.trial_id is not None:
        view.live[attempt.trial_id].wall_s += entry.wall_s


def _attempt_ended(view: StudyView, entry: e.AttemptEnded) -> None:
    if view.prepare is not None and view.prepare.id == entry.attempt_id:
        view.prepare = None
        return
    attempt = view.find_attempt(entry.attempt_id)
    if entry.current is not AttemptState.EXITED:  # what ran and was never measured costs all
        spent = attempt.gpu_s if entry.current is AttemptState.RUNNING else 0.0
        shift(view, Resource.GPU_S, -attempt.gpu_s, spent)
    trial = view.live[attempt.trial_id or ""]
    trial.attempt = None
    whose = fault_class(entry.reason)
    trial.failures[whose] = trial.failures.get(whose, 0) + 1


def _artifact_recorded(view: StudyView, entry: e.ArtifactRecorded) -> None:
    if entry.trial_id is None:
        return
    fold_recorded(view, entry)
    trial = view.live[entry.trial_id]
    if entry.role is ArtifactRole.MODEL:
        trial.model_digest = entry.digest
    elif entry.role is ArtifactRole.RESUME:
        trial.resume_digest = entry.digest
    if entry.collects:
        trial.attempt = None
        trial.state = TrialState.EVALUATING


def _trial_evaluated(view: StudyView, entry: e.TrialEvaluated) -> None:
    trial = view.live[entry.trial_id]
    trial.scores[entry.split] = entry
    trial.attempt = None
    if entry.last:
        trial.state = TrialState.DECIDING


def _trial_decided(view: StudyView, entry: e.TrialDecided) -> None:
    kept = entry.verdict is Verdict.KEEP
    trial = view.live[entry.trial_id]
    end_trial(view, trial, TrialState.COMPLETE, entry.reason, kept=kept)


def _trial_served(view: StudyView, entry: e.TrialServed) -> None:
    trial = view.live[entry.trial_id]
    end_trial(view, trial, TrialState.COMPLETE, Reason.DUPLICATE, served=entry.value)


def _trial_ended(view: StudyView, entry: e.TrialEnded) -> None:
    end_trial(view, view.live[entry.trial_id], entry.new, entry.reason, detail=entry.detail)


def _family_opened(view: StudyView, entry: e.FamilyOpened) -> None:
    view.families[entry.family_id] = Family(
        id=entry.family_id,
        study_id=view.study.id,
        number=entry.number,
        state=FamilyState.OPEN,
        reason=None,
        model=entry.model,
        bundle_digest=entry.bundle_digest,
        profile=entry.profile,
        candidates=entry.candidates,
        incumbent_id=entry.incumbent_id,
        pool=entry.pool,
        evidence={},
        created_at=0.0,
        ended_at=None,
    )


def _family_moved(view: StudyView, entry: e.FamilyMoved) -> None:
    family = view.families[entry.family_id]
    view.families[entry.family_id] = replace(
        family, state=entry.new, reason=entry.reason, evidence=entry.evidence
    )
    if entry.detail:
        view.study = replace(view.study, detail=entry.detail)
    view.is_retained = False


_FOLDS: Final[dict[type, Callable[[StudyView, Any], None]]] = {
    e.StudyMoved: _study_moved,
    e.InputsFrozen: _inputs_frozen,
    e.BudgetChanged: _budget_changed,
    SettingChanged: _setting_changed,
    e.ProposalsMade: _proposals_made,
    e.ProposerWaits: _proposer_waits,
    e.ModelCallsReserved: _model_calls_reserved,
    e.ModelCalled: _model_called,
    e.ModelCallsSettled: _model_calls_settled,
    e.CandidateProposed: _candidate_proposed,
    e.AttemptLaunching: _attempt_launching,
    e.AttemptStarted: _attempt_started,
    e.AttemptExited: _attempt_exited,
    e.AttemptEnded: _attempt_ended,
    e.ArtifactRecorded: _artifact_recorded,
    ArtifactReleased: fold_released,
    e.TrialEvaluated: _trial_evaluated,
    e.TrialDecided: _trial_decided,
    e.TrialServed: _trial_served,
    e.TrialEnded: _trial_ended,
    e.FamilyOpened: _family_opened,
    e.FamilyMoved: _family_moved,
    c.ConversionOpened: fold_opened,
    c.ConversionMeasured: fold_measured,
    c.ConversionEnded: fold_ended,
}
