"""Replay families with their runs, and the models they are for, as documents."""

from collections.abc import Mapping, Sequence

from controller.documents.candidates import family_document, incumbent_document
from controller.documents.trials import outcome_word
from ledger.family_pages import ModelSummary
from ledger.records import Candidate, Evaluation, Family, Json, Study, Trial


def promotion_document(family: Family, study_name: str) -> dict[str, Json]:
    """A family as a row of the list of promotions."""
    return {**family_document(family), "study": family.study_id, "study_name": study_name}


def evidence_document(
    family: Family,
    study: Study,
    runs: Sequence[Trial],
    evaluations: Mapping[str, Sequence[Evaluation]],
    candidates: Mapping[str, Candidate],
) -> dict[str, Json]:
    """A family with every run that was made for it, the incumbent's pool among them."""
    objective = study.spec.get("objective")
    return {
        **promotion_document(family, study.name),
        "objective": dict(objective) if isinstance(objective, Mapping) else {},
        "params": {
            candidate.id: dict(candidate.params)
            for candidate in candidates.values()
            if candidate.id in {*family.candidates, family.incumbent_id}
        },
        "runs": [_run(trial, evaluations.get(trial.id, ()), family) for trial in runs],
    }


def _run(trial: Trial, evaluations: Sequence[Evaluation], family: Family) -> dict[str, Json]:
    return {
        "trial": trial.id,
        "number": trial.number,
        "candidate": trial.candidate_id,
        "stage": trial.stage,
        "is_pool": trial.id in family.pool,
        "state": str(trial.state),
        "outcome": outcome_word(trial.state, trial.verdict),
        "reason": None if trial.reason is None else str(trial.reason),
        "values": {str(found.split): found.value for found in evaluations},
        "scores": {str(found.split): dict(found.scores) for found in evaluations},
    }


def model_document(summary: ModelSummary) -> dict[str, Json]:
    return {
        "model": summary.model,
        "incumbent": None if summary.incumbent is None else incumbent_document(summary.incumbent),
        "families": summary.families,
        "awaiting": summary.awaiting,
    }
