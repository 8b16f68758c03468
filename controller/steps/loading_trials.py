"""Builds a study's live trials and attempts from the ledger, as the view holds them."""

from controller.steps.view import LiveAttempt, LiveTrial, StudyView
from ledger import entries as e
from ledger import reads
from ledger.database import ReadSession
from ledger.live import LiveState
from ledger.network_reads import Recorded, recorded_requests
from ledger.records import ArtifactRole, Attempt, AttemptKind, Evaluation, Trial
from ledger.states import AttemptState, FaultClass, TrialState, fault_class


def load_live_trials(session: ReadSession, view: StudyView, state: LiveState) -> None:
    for trial in state.trials:
        view.live[trial.id] = live_trial(view, state, trial)
        view.candidates.setdefault(trial.candidate_id, None)
        if view.spec.evaluator.mode == "reported":
            metric = view.spec.objective.metric
            view.live[trial.id].last_reported = reads.latest_value(session, trial.id, metric)
    for past in state.past_attempts:
        _count_past(view, past)
    recorded = recorded_requests(session, view.study, {a.id for a in state.attempts})
    for attempt in state.attempts:
        _attach(view, state, attempt, recorded.get(attempt.id, Recorded()))


def live_trial(view: StudyView, state: LiveState, trial: Trial) -> LiveTrial:
    candidate = state.candidates[trial.candidate_id]
    live = LiveTrial(
        id=trial.id,
        number=trial.number,
        kind=trial.kind,
        candidate_id=trial.candidate_id,
        params=candidate.params,
        source_digest=candidate.source_digest,
        seed=trial.seed,
        splits=trial.splits,
        family_id=trial.family_id,
        stage=trial.stage,
        state=trial.state,
        proposer=candidate.proposer,
        parent_id=candidate.parent_id,
        rationale=candidate.rationale,
        curve=list(state.curves.get(trial.id, ())),
        measured=state.converting.measurements.get(trial.id),
    )
    for (trial_id, kind, split), count in state.attempt_counts.items():
        if trial_id == trial.id:
            live.launches[kind, split] = count
    for artifact in state.artifacts.get(trial.id, ()):
        if artifact.role is ArtifactRole.MODEL:
            live.model_digest = artifact.digest
        elif artifact.role is ArtifactRole.RESUME:
            live.resume_digest = artifact.digest
    for scored in state.evaluations.get(trial.id, ()):
        live.scores[scored.split] = _evaluated(scored, trial)
    return live


def _evaluated(scored: Evaluation, trial: Trial) -> e.TrialEvaluated:
    return e.TrialEvaluated(
        attempt_id=scored.attempt_id,
        trial_id=scored.trial_id,
        split=scored.split,
        bundle_digest=scored.bundle_digest,
        artifact_digest=scored.artifact_digest,
        value=scored.value,
        scores=scored.scores,
        items_digest=None,
        items=tuple(scored.items),
        last=trial.state is TrialState.DECIDING,
    )


def _count_past(view: StudyView, attempt: Attempt) -> None:
    """What ended attempts mean for their trial: time used, and failures by whose fault."""
    if attempt.trial_id is None:
        view.prepare_launches = max(view.prepare_launches, attempt.index + 1)
        return
    trial = view.live[attempt.trial_id]
    trial.wall_s += attempt.wall_s or 0.0
    whose = FaultClass.NONE if attempt.reason is None else fault_class(attempt.reason)
    if attempt.state is not AttemptState.COLLECTED:
        trial.failures[whose] = trial.failures.get(whose, 0) + 1


def _attach(view: StudyView, state: LiveState, attempt: Attempt, recorded: Recorded) -> None:
    live = LiveAttempt(
        id=attempt.id,
        trial_id=attempt.trial_id,
        kind=attempt.kind,
        index=attempt.index,
        split=attempt.split,
        target=attempt.target,
        host=attempt.host,
        timeout_s=attempt.timeout_s,
        gpu_s=view.gpu_seconds(attempt.kind, attempt.timeout_s),
        state=attempt.state,
        handle=attempt.handle,
        committed=True,
        skip_values=state.value_counts.get(attempt.id, 0),
        value_batches=state.value_batches.get(attempt.id, 0),
        skip_requests=recorded.requests,
        request_batches=recorded.batches,
        requests_kept=recorded.requests,
    )
    if attempt.state is AttemptState.EXITED:
        live.exited = e.AttemptExited(
            attempt_id=attempt.id,
            exit_code=attempt.exit_code,
            cause=attempt.cause or "lost",
            wall_s=attempt.wall_s or 0.0,
            cpu_s=attempt.cpu_s or 0.0,
            max_rss_bytes=attempt.max_rss_bytes or 0,
        )
    if attempt.kind is AttemptKind.PREPARE:
        view.prepare = live
        view.prepare_launches = attempt.index + 1
    elif attempt.trial_id is not None:
        trial = view.live[attempt.trial_id]
        trial.attempt = live
        trial.wall_s += attempt.wall_s or 0.0
