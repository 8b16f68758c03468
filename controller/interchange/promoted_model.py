"""Which stored model stands for a candidate, and what its scores say."""

from collections.abc import Sequence
from dataclasses import dataclass

from ledger import reads, summaries
from ledger.database import ReadSession
from ledger.errors import Conflict
from ledger.records import ArtifactRole, Candidate, Evaluation, Incumbent, Study, Trial
from ledger.states import StudyState, TrialState


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredModel:
    study: Study
    candidate: Candidate
    trial: Trial
    evaluations: Sequence[Evaluation]
    digest: str
    """Tree digest of its files."""
    incumbent: Incumbent | None
    """The promotion that it won, the latest one; None for a model that was not promoted."""


def model_of(session: ReadSession, candidate_id: str, trial_id: str | None = None) -> StoredModel:
    """The model of this trial; without one, of the run that confirmed the candidate's promotion,
    else of its first complete trial that saved one.

    Raises:
        NotFound: there is no such candidate.
        Conflict: no such trial has a model, or another tool ran the study.
    """
    candidate = reads.get_candidate(session, candidate_id)
    study = reads.get_study(session, candidate.study_id)
    if study.state is StudyState.IMPORTED:
        raise Conflict(f"study {study.id} was imported: the ledger has no model of its trials")
    trials = [
        trial
        for trial in summaries.trials_of(session, candidate_id)
        if trial.state is TrialState.COMPLETE and trial_id in (None, trial.id)
    ]
    trials.sort(key=lambda trial: not (trial.stage or "").startswith("confirm"))
    for trial in trials:
        digest = reads.find_artifact(session, trial.id, ArtifactRole.MODEL)
        if digest is not None:
            scored = reads.load_evaluations(session, [trial.id])
            return StoredModel(
                study=study,
                candidate=candidate,
                trial=trial,
                evaluations=scored.get(trial.id, ()),
                digest=digest,
                incumbent=_promotion(session, candidate_id),
            )
    subject = f"trial {trial_id}" if trial_id else f"candidate {candidate_id}"
    raise Conflict(f"{subject} has no complete run that saved a model, so none to export")


def promoted_by(session: ReadSession, study_id: str) -> StoredModel | None:
    """The model that the study promoted last; None when it promoted nothing."""
    won = [i for i in reads.list_incumbents(session) if i.study_id == study_id]
    if not won:
        return None
    return model_of(session, max(won, key=lambda i: i.created_at).candidate_id)


def _promotion(session: ReadSession, candidate_id: str) -> Incumbent | None:
    won = [i for i in reads.list_incumbents(session) if i.candidate_id == candidate_id]
    return max(won, key=lambda i: i.created_at, default=None)
