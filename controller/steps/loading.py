"""Builds a study's view from the ledger: after a claim, a crash or a failed commit."""

from collections.abc import Mapping, Sequence
from typing import Final

from controller.decisions.retention import Ended, Saved, concerns
from controller.spec.retention import Policy
from controller.spec.space import baseline_params
from controller.steps.candidates import Known, answers
from controller.steps.changed_spec import load_spec
from controller.steps.fold_conversions import file_converted
from controller.steps.fold_endings import file_curve
from controller.steps.loading_trials import live_trial, load_live_trials
from controller.steps.view import (
    DURATIONS_KEPT,
    Leader,
    Measured,
    StudyView,
    needs_scores,
    needs_times,
    rereads_history,
)
from evaluator.objective import is_better
from evaluator.pruning import bounded_curve
from ledger import entries as e
from ledger import reads
from ledger.database import ReadSession
from ledger.entry_pages import page_of_entries
from ledger.finished_trials import FinishedTrials, Outcome, outcomes_of
from ledger.live import LiveState
from ledger.model_reads import next_model_call
from ledger.projection import printable
from ledger.records import (
    ArtifactRole,
    Evaluation,
    Incumbent,
    Json,
    Split,
    Trial,
    TrialKind,
)
from ledger.saved_reads import saved_artifacts
from ledger.states import STUDY_TERMINAL, TRIAL_TERMINAL, Reason

INCUMBENT: Final = "incumbent"
"""Where the report of `inputs_frozen` names whom the study has to beat."""
ENTRIES_BEFORE_FROZEN: Final = 200
"""Inputs are frozen within so many entries: submission, claims, prepare attempts, commands."""


def load_view(session: ReadSession, study_id: str) -> StudyView:
    """Read everything the worker needs of one study. Raises NotFound."""
    spec = load_spec(session, study_id)
    pruned_by = None
    if spec.pruning.name != "none":
        pruned_by = spec.pruning.metric or spec.objective.metric
    state = reads.load_live(
        session,
        study_id,
        curve_metric=pruned_by,
        grow=bounded_curve,
        with_scores=needs_scores(spec),
        with_times=needs_times(spec),
        packed=not rereads_history(spec),
    )
    view = StudyView(study=state.study, spec=spec, budgets=dict(state.budgets))
    view.finished = state.finished
    view.proposed = state.proposed
    view.next_number = state.next_number
    view.next_search = state.search_count
    view.finish_seq = state.next_finish_seq - 1
    view.proposer_state = state.proposer_state
    view.model_calls = next_model_call(session, study_id)
    view.proposer_waits = _waits(session, view)
    view.families = {family.id: family for family in state.families}
    view.commands = list(state.commands)
    view.baseline_params = baseline_params(spec.space)
    view.baseline_source = spec.program.source
    view.durations.extend(reads.recent_durations(session, study_id, DURATIONS_KEPT))
    _load_measured(view, state)
    _load_answers(view)
    _load_incumbent(session, view)
    load_live_trials(session, view, state)
    _load_converting(view, state)
    _load_curves(view, state)
    if spec.retention is not None:
        load_saved(session, view, spec.retention.policy)
    return view


def _waits(session: ReadSession, view: StudyView) -> bool:
    """Whether the study's detail is what its proposer waits for."""
    if not view.study.detail or view.study.state in STUDY_TERMINAL:
        return False
    kinds = (e.ProposerWaits.kind,)
    latest = page_of_entries(session, view.study.id, kinds=kinds, descending=True, limit=1)
    return bool(latest) and printable(str(latest[0].payload["detail"])) == view.study.detail


def load_saved(session: ReadSession, view: StudyView, policy: Policy) -> None:
    """What trials saved that was not let go, and that may go by the policy."""
    view.saved.clear()
    view.saved_under_way.clear()
    roles = [role for role in ArtifactRole if concerns(policy, role)]
    for found in saved_artifacts(session, view.study.id, roles):
        trial, artifact = found.trial, found.artifact
        ended = None
        if trial.state in TRIAL_TERMINAL and trial.reason is not None:
            ended = Ended(
                number=trial.number,
                kind=trial.kind,
                candidate_id=trial.candidate_id,
                state=trial.state,
                reason=trial.reason,
                value=trial.value,
                finish_seq=trial.finish_seq or 0,
            )
        key = artifact.attempt_id, artifact.role
        if ended is None:
            view.saved_under_way.setdefault(trial.id, []).append(key)
        view.saved[key] = Saved(
            attempt_id=artifact.attempt_id,
            trial_id=trial.id,
            role=artifact.role,
            digest=artifact.digest,
            size_bytes=artifact.size_bytes,
            ended=ended,
        )


def _load_curves(view: StudyView, state: LiveState) -> None:
    """File the curves of ended trials as if they had just ended: baselines, then search trials in
    the order of finishing, then replays."""
    if not state.curves:
        return
    curves = {number_of(trial_id): curve for trial_id, curve in state.curves.items()}
    ended = [
        *((t.number, t.kind, t.state) for t in state.baselines),
        *((t.number, TrialKind.SEARCH, t.state) for t in outcomes_of(state.finished)),
        *((t.number, t.kind, t.state) for t in state.replays),
    ]
    for number, kind, trial_state in ended:
        if number in curves:
            file_curve(view, kind, number, trial_state, curves[number])


def _load_measured(view: StudyView, state: LiveState) -> None:
    """Baselines and replays that ended, and how many baselines were ever proposed."""
    view.baselines_proposed = len(state.baselines)
    ended = sorted(
        (t for t in (*state.baselines, *state.replays) if t.finish_seq is not None),
        key=lambda t: t.finish_seq or 0,
    )
    for trial in ended:
        measured = to_measured(trial, state.evaluations.get(trial.id, ()))
        if trial.family_id is None:
            view.baselines.append(measured)
        else:
            view.replays.setdefault(trial.family_id, []).append(measured)


def to_measured(trial: Trial, evaluations: Sequence[Evaluation]) -> Measured:
    return Measured(
        trial_id=trial.id,
        candidate_id=trial.candidate_id,
        stage=trial.stage,
        state=trial.state,
        reason=trial.reason or Reason.MEASURED,
        detail=trial.detail,
        values={v.split: v.value for v in evaluations},
        scores={v.split: dict(v.scores) for v in evaluations},
    )


def _load_converting(view: StudyView, state: LiveState) -> None:
    """The study's conversions, and the trials of theirs that ended."""
    view.conversions = {found.id: found for found in state.converting.conversions}
    for trial in state.converting.trials:
        if trial.finish_seq is not None and trial.reason is not None:
            ended = live_trial(view, state, trial)
            file_converted(view, ended, trial.state, trial.reason, trial.detail)


def _load_answers(view: StudyView) -> None:
    """What duplicates are served with, the leader, and repeated measurements."""
    for measured in view.baselines:
        value = measured.values.get(Split.SEARCH)
        known = None if value is None else Known(number_of(measured.trial_id), value)
        if view.candidates.get(measured.candidate_id) is None:
            view.candidates[measured.candidate_id] = known
    again: set[int] | None = None
    if isinstance(view.finished, FinishedTrials):
        again = view.candidates.look_up_in(view.finished)
        again |= {hash(measured.candidate_id) for measured in view.baselines}
    for told in outcomes_of(view.finished):
        _note_value(view, told)
        if again is None or hash(told.candidate_id) in again:
            _load_answer(view, told)


def number_of(trial_id: str) -> int:
    """The number inside a trial's id."""
    return int(trial_id.rpartition("-")[2])


def _note_value(view: StudyView, told: Outcome) -> None:
    value = told.value
    if value is None or not answers(told):
        return
    if told.reason is not Reason.INFEASIBLE:
        best = view.best_value
        if best is None or is_better(value, best, view.spec.objective.direction):
            view.best_value = value
    if told.kept:
        view.leader = Leader(told.candidate_id, value)


def _load_answer(view: StudyView, told: Outcome) -> None:
    known = view.candidates.entered(told.candidate_id)
    if not answers(told):
        return
    if known is None:
        view.candidates[told.candidate_id] = Known(told.number, told.value)
    elif known.value is not None and told.value is not None:
        view.repeats.setdefault(told.candidate_id, [known.value]).append(told.value)


def _load_incumbent(session: ReadSession, view: StudyView) -> None:
    """Whom this study has to beat, as frozen when its inputs were: a promotion by another study
    in the meantime must not move the baseline under it."""
    promotion = view.spec.promotion
    if promotion is None:
        return
    head = reads.list_entries(session, view.study.id, limit=ENTRIES_BEFORE_FROZEN)
    frozen = next((entry for entry in head if entry.kind == e.InputsFrozen.kind), None)
    if frozen is None:
        found = reads.latest_incumbent(session, promotion.model)
        comparable = found is not None and found.comparison == view.study.comparison
        view.incumbent = to_beat(found) if comparable and found is not None else None
    else:
        report = frozen.payload["report"]
        view.incumbent = report.get(INCUMBENT) if isinstance(report, dict) else None
    if view.incumbent is not None:
        _reuse_pool(session, view, view.incumbent)


def to_beat(incumbent: Incumbent) -> dict[str, Json]:
    """What of an incumbent a study freezes."""
    return {"candidate_id": incumbent.candidate_id, "family_id": incumbent.family_id}


def _reuse_pool(session: ReadSession, view: StudyView, incumbent: Mapping[str, Json]) -> None:
    """Start from the incumbent's parameters; its confirmation runs are part of the pool."""
    candidate = reads.get_candidate(session, str(incumbent["candidate_id"]))
    view.baseline_params = candidate.params
    view.baseline_source = candidate.source_digest
    runs = reads.confirmation_runs(session, str(incumbent["family_id"] or ""), candidate.id)
    reused = [to_measured(trial, evaluations) for trial, evaluations in runs]
    whole = [m for m in reused if len(m.values) == len(Split)]
    view.pool_reused = len(whole)
    view.baselines = [*whole, *view.baselines]
