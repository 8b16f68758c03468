"""Row changes of the entries about what another tool recorded."""

from typing import Final

from ledger.digests import canonical_json
from ledger.errors import InvalidInput
from ledger.import_entries import StudyImported, TrialImported
from ledger.projection import Projection, printable
from ledger.records import AttemptKind, Split, TrialKind, Verdict
from ledger.statements import Row, guarded_update, insert_row
from ledger.states import (
    TRIAL_TERMINAL,
    AttemptState,
    CandidateState,
    Reason,
    StudyState,
    TrialState,
)
from ledger.tables import Base

PROPOSER: Final = "imported"
"""Who proposed an imported candidate, and where its attempt ran."""

_TABLES: Final = Base.metadata.tables
_MOVE: Final = guarded_update(
    _TABLES["studies"], "state", "reason", "detail", "ended_at", state=StudyState.SUBMITTED
)
_INSERT_CANDIDATE: Final = insert_row(_TABLES["candidates"])
_INSERT_TRIAL: Final = insert_row(_TABLES["trials"])
_INSERT_ATTEMPT: Final = insert_row(_TABLES["attempts"])
_INSERT_EVALUATION: Final = insert_row(_TABLES["evaluations"])


def project_imported_study(entry: StudyImported, to: Projection) -> None:
    row: Row = {
        "by_id": to.study_id,
        "state": StudyState.IMPORTED,
        "reason": Reason.IMPORTED,
        "detail": printable(f"{entry.name} of {entry.source}, read from {entry.location}"),
        "ended_at": to.at,
    }
    move = (StudyState.SUBMITTED, StudyState.IMPORTED)
    to.move(_MOVE, row, "study", to.study_id, move)


def project_imported_trial(entry: TrialImported, to: Projection) -> None:
    """Raises InvalidInput when the entry contradicts itself."""
    if entry.state not in TRIAL_TERMINAL:
        raise InvalidInput(f"trial_imported: {entry.trial_id} is {entry.state}, which is no end")
    if entry.scores and entry.attempt_id is None:
        raise InvalidInput(f"trial_imported: {entry.trial_id} has scores and no attempt")
    if entry.new_candidate:
        to.add(_INSERT_CANDIDATE, _candidate_row(entry, to), entry.candidate_id)
    to.add(_INSERT_TRIAL, _trial_row(entry, to), entry.trial_id, entry.candidate_id)
    if entry.attempt_id is None:
        return
    to.add(_INSERT_ATTEMPT, _attempt_row(entry, to), entry.attempt_id, entry.trial_id)
    if entry.value is not None:
        row = _evaluation_row(entry, entry.attempt_id, entry.value)
        to.add(_INSERT_EVALUATION, row, entry.trial_id, entry.attempt_id)


def _begun(entry: TrialImported, to: Projection) -> float:
    known = (entry.started_at, entry.ended_at, to.at)
    return next(moment for moment in known if moment is not None)


def _candidate_row(entry: TrialImported, to: Projection) -> Row:
    return {
        "id": entry.candidate_id,
        "study_id": to.study_id,
        "digest": entry.digest,
        "params": canonical_json(dict(entry.params)),
        "patch": None,
        "source_digest": None,
        "parent_id": None,
        "rationale": "",
        "proposer": PROPOSER,
        "state": CandidateState.PENDING,
        "created_at": _begun(entry, to),
    }


def _trial_row(entry: TrialImported, to: Projection) -> Row:
    complete = entry.state is TrialState.COMPLETE
    return {
        "id": entry.trial_id,
        "study_id": to.study_id,
        "number": entry.number,
        "kind": TrialKind.SEARCH,
        "candidate_id": entry.candidate_id,
        "state": entry.state,
        "reason": Reason.IMPORTED,
        "detail": printable(entry.detail),
        "seed": 0,
        "watermark": 0,
        "finish_seq": entry.finish_seq,
        "splits": str(Split.SEARCH),
        "family_id": None,
        "stage": None,
        "value": entry.value,
        "verdict": Verdict.MEASURED if complete else None,
        "created_at": _begun(entry, to),
        "started_at": entry.started_at,
        "ended_at": entry.ended_at,
    }


def _attempt_row(entry: TrialImported, to: Projection) -> Row:
    timed = entry.started_at is not None and entry.ended_at is not None
    return {
        "id": entry.attempt_id,
        "study_id": to.study_id,
        "trial_id": entry.trial_id,
        "kind": AttemptKind.TRAIN,
        "attempt_index": 0,
        "split": None,
        "state": AttemptState.COLLECTED,
        "reason": None,
        "detail": "",
        "target": PROPOSER,
        "handle": None,
        "host": "",
        "timeout_s": 0.0,
        "cause": None,
        "exit_code": None,
        "wall_s": (entry.ended_at or 0.0) - (entry.started_at or 0.0) if timed else None,
        "cpu_s": None,
        "max_rss_bytes": None,
        "gpu_s_reserved": 0.0,
        "gpu_s_spent": 0.0,
        "created_at": _begun(entry, to),
        "started_at": entry.started_at,
        "ended_at": entry.ended_at,
    }


def _evaluation_row(entry: TrialImported, attempt_id: str, value: float) -> Row:
    """Without bundle and artifact: nothing of ours scored it."""
    return {
        "trial_id": entry.trial_id,
        "split": Split.SEARCH,
        "attempt_id": attempt_id,
        "bundle_digest": "",
        "artifact_digest": "",
        "value": value,
        "scores": canonical_json(dict(entry.scores)),
        "items": None,
    }
