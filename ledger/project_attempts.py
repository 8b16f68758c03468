"""Row changes of the entries about attempts, their values and their artifacts."""

from typing import Final

from sqlalchemy import bindparam, func, select, text, update

from ledger.digests import canonical_json, storable_float, values_json
from ledger.entries import (
    ArtifactRecorded,
    AttemptEnded,
    AttemptExited,
    AttemptLaunching,
    AttemptStarted,
    ValuesReported,
)
from ledger.errors import InvalidInput
from ledger.projection import Projection, check_unsealed, printable
from ledger.records import Resource
from ledger.statements import Row, Statement, guarded_update, insert_row
from ledger.states import (
    ATTEMPT_TRANSITIONS,
    AttemptState,
    TrialState,
    check_transition,
)
from ledger.tables import Base

_TABLES: Final = Base.metadata.tables
_ATTEMPTS: Final = _TABLES["attempts"]
_TRIALS: Final = _TABLES["trials"]

_INSERT_ATTEMPT: Final = insert_row(_ATTEMPTS)
_INSERT_BATCH: Final = insert_row(_TABLES["value_batches"])
_INSERT_ARTIFACT: Final = insert_row(_TABLES["artifacts"])
_START_ATTEMPT: Final = guarded_update(
    _ATTEMPTS,
    "handle",
    "started_at",
    constants={"state": AttemptState.RUNNING},
    state=AttemptState.LAUNCHING,
)
_START_TRIAL: Final = guarded_update(
    _TRIALS, "started_at", constants={"state": TrialState.RUNNING}, state=TrialState.PROPOSED
)
_EXIT: Final = guarded_update(
    _ATTEMPTS,
    "cause",
    "exit_code",
    "wall_s",
    "cpu_s",
    "max_rss_bytes",
    "gpu_s_spent",
    "ended_at",
    constants={"state": AttemptState.EXITED},
    state=AttemptState.RUNNING,
)
_COLLECT: Final = guarded_update(_ATTEMPTS, "state", state=AttemptState.EXITED)
_EVALUATE_TRIAL: Final = guarded_update(
    _TRIALS, constants={"state": TrialState.EVALUATING}, state=TrialState.RUNNING
)
_END: Final = Statement(
    update(_ATTEMPTS)
    .where(
        _ATTEMPTS.c.id == bindparam("by_id"),
        _ATTEMPTS.c.study_id == bindparam("by_study_id"),
        _ATTEMPTS.c.state == bindparam("by_state"),
    )
    .values(
        state=bindparam("state"),
        reason=bindparam("reason"),
        detail=bindparam("detail"),
        gpu_s_spent=_ATTEMPTS.c.gpu_s_spent + bindparam("gpu_s"),
        ended_at=func.coalesce(_ATTEMPTS.c.ended_at, bindparam("ended_at")),
    )
)
_RESERVED: Final = Statement(
    select(_ATTEMPTS.c.gpu_s_reserved).where(_ATTEMPTS.c.id == bindparam("id"))
)
_KEEP_LATEST: Final = Statement(
    text(
        "INSERT INTO latest_values (trial_id, metric, step, value) "
        "VALUES (:trial_id, :metric, :step, :value) "
        "ON CONFLICT (trial_id, metric) DO UPDATE SET step = excluded.step, value = excluded.value"
    )
)


def project_launch(entry: AttemptLaunching, to: Projection) -> None:
    if entry.gpu_s:
        to.budgets.reserve(Resource.GPU_S, entry.gpu_s)
    row: Row = {
        "id": entry.attempt_id,
        "study_id": to.study_id,
        "trial_id": entry.trial_id,
        "kind": entry.attempt_kind,
        "attempt_index": entry.index,
        "split": entry.split,
        "state": AttemptState.LAUNCHING,
        "reason": None,
        "detail": "",
        "target": entry.target,
        "handle": None,
        "host": entry.host,
        "timeout_s": entry.timeout_s,
        "cause": None,
        "exit_code": None,
        "wall_s": None,
        "cpu_s": None,
        "max_rss_bytes": None,
        "gpu_s_reserved": entry.gpu_s,
        "gpu_s_spent": 0.0,
        "created_at": to.at,
        "started_at": None,
        "ended_at": None,
    }
    to.add(_INSERT_ATTEMPT, row, entry.attempt_id, entry.trial_id)


def project_start(entry: AttemptStarted, to: Projection) -> None:
    row: Row = {
        "by_id": entry.attempt_id,
        "by_study_id": to.study_id,
        "handle": entry.handle,
        "started_at": to.at,
    }
    move = (AttemptState.LAUNCHING, AttemptState.RUNNING)
    to.move(_START_ATTEMPT, row, "attempt", entry.attempt_id, move)
    if entry.trial_starts:
        if entry.trial_id is None:
            raise InvalidInput("attempt_started: trial_starts needs a trial_id")
        start: Row = {
            "by_id": entry.trial_id,
            "by_study_id": to.study_id,
            "started_at": to.at,
        }
        trial_move = (TrialState.PROPOSED, TrialState.RUNNING)
        to.move(_START_TRIAL, start, "trial", entry.trial_id, trial_move)


def project_values(entry: ValuesReported, to: Projection) -> None:
    if entry.count != len(entry.values):
        raise InvalidInput(f"values_reported: count is {entry.count}, not {len(entry.values)}")
    payload = values_json(entry.values)
    check_unsealed("values", payload.encode(), entry.digest)
    row: Row = {
        "attempt_id": entry.attempt_id,
        "sequence": entry.sequence,
        "trial_id": entry.trial_id,
        "value_count": entry.count,
        "payload": payload,
        "digest": entry.digest,
    }
    to.add(_INSERT_BATCH, row, entry.attempt_id, entry.trial_id)
    for value in {v.metric: v for v in entry.values}.values():
        latest: Row = {
            "trial_id": entry.trial_id,
            "metric": value.metric,
            "step": value.step,
            "value": canonical_json(storable_float(value.value)),
        }
        to.add(_KEEP_LATEST, latest, entry.trial_id)


def project_exit(entry: AttemptExited, to: Projection) -> None:
    if to.budgets.is_reserved(Resource.GPU_S) or entry.gpu_s:
        to.budgets.settle(Resource.GPU_S, _reserved(entry.attempt_id, to), entry.gpu_s)
    row: Row = {
        "by_id": entry.attempt_id,
        "by_study_id": to.study_id,
        "cause": entry.cause,
        "exit_code": entry.exit_code,
        "wall_s": entry.wall_s,
        "cpu_s": entry.cpu_s,
        "max_rss_bytes": entry.max_rss_bytes,
        "gpu_s_spent": entry.gpu_s,
        "ended_at": to.at,
    }
    move = (AttemptState.RUNNING, AttemptState.EXITED)
    to.move(_EXIT, row, "attempt", entry.attempt_id, move)


def project_ended_attempt(entry: AttemptEnded, to: Projection) -> None:
    """What ran and was never measured is charged its whole reservation."""
    check_transition(ATTEMPT_TRANSITIONS, f"attempt {entry.attempt_id}", entry.current, entry.new)
    gpu_s = 0.0
    if entry.current is not AttemptState.EXITED and to.budgets.is_reserved(Resource.GPU_S):
        reserved = _reserved(entry.attempt_id, to)
        gpu_s = reserved if entry.current is AttemptState.RUNNING else 0.0
        to.budgets.settle(Resource.GPU_S, reserved, gpu_s)
    row: Row = {
        "by_id": entry.attempt_id,
        "by_study_id": to.study_id,
        "by_state": entry.current,
        "state": entry.new,
        "reason": entry.reason,
        "detail": printable(entry.detail),
        "gpu_s": gpu_s,
        "ended_at": to.at,
    }
    to.move(_END, row, "attempt", entry.attempt_id, (entry.current, entry.new))


def project_artifact(entry: ArtifactRecorded, to: Projection) -> None:
    row: Row = {
        "attempt_id": entry.attempt_id,
        "role": entry.role,
        "digest": entry.digest,
        "trial_id": entry.trial_id,
        "files": entry.files,
        "size_bytes": entry.size_bytes,
        "created_at": to.at,
        "released_at": None,
        "release_reason": None,
        "release_policy": None,
    }
    to.add(_INSERT_ARTIFACT, row, entry.attempt_id, entry.trial_id)
    if not entry.collects:
        return
    key: Row = {
        "by_id": entry.attempt_id,
        "by_study_id": to.study_id,
        "state": AttemptState.COLLECTED,
    }
    move = (AttemptState.EXITED, AttemptState.COLLECTED)
    to.move(_COLLECT, key, "attempt", entry.attempt_id, move)
    if entry.trial_id is not None:
        trial: Row = {"by_id": entry.trial_id, "by_study_id": to.study_id}
        trial_move = (TrialState.RUNNING, TrialState.EVALUATING)
        to.move(_EVALUATE_TRIAL, trial, "trial", entry.trial_id, trial_move)


def _reserved(attempt_id: str, to: Projection) -> float:
    to.apply()  # The launch may be among the queued changes.
    rows = to.session.fetch(_RESERVED, {"id": attempt_id})
    return float(rows[0][0]) if rows else 0.0
