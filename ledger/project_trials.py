"""Row changes of the entries about candidates and trials."""

from typing import Final

from ledger.digests import canonical_json
from ledger.entries import (
    CandidateProposed,
    TrialDecided,
    TrialEnded,
    TrialEvaluated,
    TrialServed,
)
from ledger.projection import Projection, check_unsealed, printable
from ledger.records import Resource, Split, TrialKind, Verdict
from ledger.statements import Row, guarded_update, insert_row
from ledger.states import (
    FREE,
    TRIAL_TRANSITIONS,
    AttemptState,
    CandidateState,
    Reason,
    TrialState,
    check_transition,
)
from ledger.tables import Base

_TABLES: Final = Base.metadata.tables
_TRIALS: Final = _TABLES["trials"]

_INSERT_CANDIDATE: Final = insert_row(_TABLES["candidates"])
_INSERT_TRIAL: Final = insert_row(_TRIALS)
_INSERT_EVALUATION: Final = insert_row(_TABLES["evaluations"])
_INSERT_DECISION: Final = insert_row(_TABLES["decisions"])
# The first ending of a candidate's search trials settles it; replicates leave it as it is.
_SETTLE_CANDIDATE: Final = guarded_update(
    _TABLES["candidates"], "state", state=CandidateState.PENDING
)
_COLLECT_ATTEMPT: Final = guarded_update(_TABLES["attempts"], "state", state=AttemptState.EXITED)
_EVALUATE: Final = guarded_update(_TRIALS, "state", state=TrialState.EVALUATING)
_EVALUATE_SEARCH: Final = guarded_update(_TRIALS, "state", "value", state=TrialState.EVALUATING)
_ENDING: Final = ("reason", "finish_seq", "ended_at")
_DECIDE: Final = guarded_update(
    _TRIALS,
    *_ENDING,
    "verdict",
    constants={"state": TrialState.COMPLETE},
    state=TrialState.DECIDING,
)
_SERVE: Final = guarded_update(
    _TRIALS,
    *_ENDING,
    "value",
    constants={"state": TrialState.COMPLETE},
    state=TrialState.PROPOSED,
)
_END: Final = guarded_update(_TRIALS, *_ENDING, "state", "detail", state="")

_CANDIDATE_AFTER_END: Final = {
    TrialState.PRUNED: CandidateState.DISCARDED,
    TrialState.FAILED: CandidateState.FAILED,
}


def project_proposed(entry: CandidateProposed, to: Projection) -> None:
    if entry.new_candidate:
        _insert_candidate(entry, to)
    if entry.trial_kind is TrialKind.SEARCH:
        to.budgets.reserve(Resource.TRIALS, 1)
    row: Row = {
        "id": entry.trial_id,
        "study_id": to.study_id,
        "number": entry.number,
        "kind": entry.trial_kind,
        "candidate_id": entry.candidate_id,
        "state": TrialState.PROPOSED,
        "reason": None,
        "detail": "",
        "seed": entry.seed,
        "watermark": entry.watermark,
        "finish_seq": None,
        "splits": ",".join(entry.splits),
        "family_id": entry.family_id,
        "stage": entry.stage,
        "value": None,
        "verdict": None,
        "created_at": to.at,
        "started_at": None,
        "ended_at": None,
    }
    to.add(_INSERT_TRIAL, row, entry.trial_id, entry.candidate_id)


def _insert_candidate(entry: CandidateProposed, to: Projection) -> None:
    if entry.patch is not None:
        check_unsealed("patch", entry.patch.encode(), entry.patch_digest)
    row: Row = {
        "id": entry.candidate_id,
        "study_id": to.study_id,
        "digest": entry.digest,
        "params": canonical_json(dict(entry.params)),
        "patch": entry.patch,
        "source_digest": entry.source_digest,
        "parent_id": entry.parent_id,
        "rationale": printable(entry.rationale),
        "proposer": entry.proposer,
        "state": CandidateState.PENDING,
        "created_at": to.at,
    }
    to.add(_INSERT_CANDIDATE, row, entry.candidate_id)


def project_evaluation(entry: TrialEvaluated, to: Projection) -> None:
    items = canonical_json(list(entry.items)) if entry.items_digest is not None else None
    if items is not None:
        check_unsealed("items", items.encode(), entry.items_digest)
    row: Row = {
        "trial_id": entry.trial_id,
        "split": entry.split,
        "attempt_id": entry.attempt_id,
        "bundle_digest": entry.bundle_digest,
        "artifact_digest": entry.artifact_digest,
        "value": entry.value,
        "scores": canonical_json(dict(entry.scores)),
        "items": items,
    }
    to.add(_INSERT_EVALUATION, row, entry.trial_id, entry.attempt_id)
    if entry.bundle_digest:
        _collect_evaluation(entry.attempt_id, to)
    new = TrialState.DECIDING if entry.last else TrialState.EVALUATING
    key: dict[str, str | float] = {
        "by_id": entry.trial_id,
        "by_study_id": to.study_id,
        "state": new,
    }
    statement = _EVALUATE
    if entry.split is Split.SEARCH:
        statement = _EVALUATE_SEARCH
        key["value"] = entry.value
    to.move(statement, key, "trial", entry.trial_id, (TrialState.EVALUATING, new))


def _collect_evaluation(attempt_id: str, to: Projection) -> None:
    """Without a bundle (`reported` mode) the evaluated attempt is the training one, and its
    artifact collected it already."""
    row: Row = {
        "by_id": attempt_id,
        "by_study_id": to.study_id,
        "state": AttemptState.COLLECTED,
    }
    move = (AttemptState.EXITED, AttemptState.COLLECTED)
    to.move(_COLLECT_ATTEMPT, row, "attempt", attempt_id, move)


def project_decision(entry: TrialDecided, to: Projection) -> None:
    row: Row = {
        "by_id": entry.trial_id,
        "by_study_id": to.study_id,
        "reason": entry.reason,
        "finish_seq": entry.finish_seq,
        "ended_at": to.at,
        "verdict": entry.verdict,
    }
    move = (TrialState.DECIDING, TrialState.COMPLETE)
    to.move(_DECIDE, row, "trial", entry.trial_id, move)
    decision: Row = {
        "trial_id": entry.trial_id,
        "verdict": entry.verdict,
        "reason": entry.reason,
        "compared_with": entry.compared_with,
        "margin": entry.margin,
        "noise_floor": entry.noise_floor,
    }
    to.add(_INSERT_DECISION, decision, entry.trial_id)
    if entry.trial_kind is not TrialKind.SEARCH:
        return
    to.budgets.settle(Resource.TRIALS, 1, 1)
    if entry.verdict is not Verdict.MEASURED:
        kept = entry.verdict is Verdict.KEEP
        _settle_candidate(
            entry.candidate_id, CandidateState.KEPT if kept else CandidateState.DISCARDED, to
        )


def _settle_candidate(candidate_id: str, state: CandidateState, to: Projection) -> None:
    row: Row = {"by_id": candidate_id, "by_study_id": to.study_id, "state": state}
    to.add(_SETTLE_CANDIDATE, row, candidate_id)


def project_served(entry: TrialServed, to: Projection) -> None:
    """Only search trials are served: the trial budget's reservation is spent."""
    row: Row = {
        "by_id": entry.trial_id,
        "by_study_id": to.study_id,
        "reason": Reason.DUPLICATE,
        "finish_seq": entry.finish_seq,
        "ended_at": to.at,
        "value": entry.value,
    }
    move = (TrialState.PROPOSED, TrialState.COMPLETE)
    to.move(_SERVE, row, "trial", entry.trial_id, move)
    to.budgets.settle(Resource.TRIALS, 1, 1)


def project_end(entry: TrialEnded, to: Projection) -> None:
    subject = f"trial {entry.trial_id}"
    check_transition(TRIAL_TRANSITIONS, subject, entry.current, entry.new)
    row: Row = {
        "by_id": entry.trial_id,
        "by_study_id": to.study_id,
        "by_state": entry.current,
        "state": entry.new,
        "reason": entry.reason,
        "detail": printable(entry.detail),
        "finish_seq": entry.finish_seq,
        "ended_at": to.at,
    }
    to.move(_END, row, "trial", entry.trial_id, (entry.current, entry.new))
    if entry.trial_kind is not TrialKind.SEARCH:
        return
    to.budgets.settle(Resource.TRIALS, 1, 0 if entry.reason in FREE else 1)
    after = _CANDIDATE_AFTER_END.get(entry.new)
    if after is not None:
        _settle_candidate(entry.candidate_id, after, to)
