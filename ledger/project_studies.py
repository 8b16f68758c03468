"""Row changes of the entries about a study, its commands, its proposer and its families."""

import json
from typing import Final

from sqlalchemy import bindparam, select, text

from ledger.digests import canonical_json
from ledger.entries import (
    BudgetChanged,
    CommandApplied,
    FamilyMoved,
    FamilyOpened,
    HoldoutUsed,
    InputsFrozen,
    ProposalsMade,
    ProposerWaits,
    StudyMoved,
)
from ledger.errors import InvalidInput
from ledger.projection import Projection, check_unsealed, printable
from ledger.statements import Row, Statement, guarded_update, insert_row
from ledger.states import (
    FAMILY_TRANSITIONS,
    STUDY_TERMINAL,
    STUDY_TRANSITIONS,
    FamilyState,
    Reason,
    StudyState,
    check_transition,
)
from ledger.tables import Base

_TABLES: Final = Base.metadata.tables
_ENTRIES: Final = _TABLES["entries"]

_MOVE: Final = guarded_update(
    _TABLES["studies"],
    "state",
    "reason",
    "detail",
    "paused_by",
    "paused_from",
    "ended_at",
    state="",
)
_REASON: Final = Statement(
    select(_TABLES["studies"].c.reason).where(_TABLES["studies"].c.id == bindparam("id"))
)
_MOVES: Final = Statement(
    select(_ENTRIES.c.body)
    .where(_ENTRIES.c.chain == bindparam("chain"), _ENTRIES.c.kind == bindparam("kind"))
    .order_by(_ENTRIES.c.seq.desc())
)
_FREEZE: Final = guarded_update(_TABLES["studies"], "inputs")
_DETAIL: Final = guarded_update(_TABLES["studies"], "detail")
_APPLY_COMMAND: Final = guarded_update(_TABLES["commands"], "state", "detail", state="pending")
_KEEP_STATE: Final = Statement(
    text(
        "INSERT INTO proposer_states (study_id, first_number, digest, state) "
        "VALUES (:study_id, :first_number, :digest, :state) "
        "ON CONFLICT (study_id) DO UPDATE SET first_number = excluded.first_number, "
        "digest = excluded.digest, state = excluded.state"
    )
)
_INSERT_FAMILY: Final = insert_row(_TABLES["families"])
_MOVE_FAMILY: Final = guarded_update(
    _TABLES["families"], "state", "reason", "evidence", "ended_at", state=""
)
_INSERT_USE: Final = insert_row(_TABLES["holdout_uses"])

_LOOKING: Final = frozenset({StudyState.PREPARING, StudyState.RUNNING})


def project_move(entry: StudyMoved, to: Projection) -> None:
    check_transition(STUDY_TRANSITIONS, f"study {to.study_id}", entry.current, entry.new)
    pauses = entry.new is StudyState.PAUSED
    if pauses != (entry.paused_by is not None):
        raise InvalidInput("study_moved: paused_by is given with a move to paused, and only then")
    row: Row = {
        "by_id": to.study_id,
        "by_state": entry.current,
        "state": entry.new,
        "reason": entry.reason or _standing_reason(entry, to),
        "detail": printable(entry.detail),
        "paused_by": entry.paused_by,
        "paused_from": entry.current if pauses else None,
        "ended_at": to.at if entry.new in STUDY_TERMINAL else None,
    }
    to.move(_MOVE, row, "study", to.study_id, (entry.current, entry.new))


def _standing_reason(entry: StudyMoved, to: Projection) -> Reason | None:
    """The reason that still holds after a move that gives none.

    A study that looks on has none. Otherwise it is why it stopped looking, which a pause in
    between has overwritten in the row and only the chain still knows.
    """
    if entry.new in _LOOKING:
        return None
    to.apply()
    if entry.current is not StudyState.PAUSED:
        found = to.session.fetch(_REASON, {"id": to.study_id})
        return Reason(found[0][0]) if found and found[0][0] else None
    for (body,) in to.session.fetch(_MOVES, {"chain": to.study_id, "kind": StudyMoved.kind}):
        move = json.loads(body)["payload"]
        if move["new"] == StudyState.DRAINING and move["current"] != StudyState.PAUSED:
            return Reason(move["reason"]) if move["reason"] else None
    return None


def project_inputs(entry: InputsFrozen, to: Projection) -> None:
    row: Row = {"by_id": to.study_id, "inputs": canonical_json(dict(entry.inputs))}
    to.add(_FREEZE, row, to.study_id)


def project_command(entry: CommandApplied, to: Projection) -> None:
    row: Row = {
        "by_id": entry.command_id,
        "by_study_id": to.study_id,
        "state": "refused" if entry.refused else "applied",
        "detail": printable(entry.detail),
    }
    to.settle_command(_APPLY_COMMAND, row, entry.command_id)


def project_budget(entry: BudgetChanged, to: Projection) -> None:
    to.budgets.set_limit(entry.resource, entry.limit)


def project_wait(entry: ProposerWaits, to: Projection) -> None:
    to.add(_DETAIL, {"by_id": to.study_id, "detail": printable(entry.detail)}, to.study_id)


def project_proposals(entry: ProposalsMade, to: Projection) -> None:
    if entry.state is None:
        return
    check_unsealed("state", entry.state, entry.state_digest)
    row: Row = {
        "study_id": to.study_id,
        "first_number": entry.first_number,
        "digest": entry.state_digest,
        "state": entry.state,
    }
    to.add(_KEEP_STATE, row, to.study_id)


def project_family_opened(entry: FamilyOpened, to: Projection) -> None:
    row: Row = {
        "id": entry.family_id,
        "study_id": to.study_id,
        "number": entry.number,
        "state": FamilyState.OPEN,
        "reason": None,
        "model": entry.model,
        "bundle_digest": entry.bundle_digest,
        "profile": canonical_json(dict(entry.profile)),
        "candidates": canonical_json(list(entry.candidates)),
        "incumbent_id": entry.incumbent_id,
        "pool": canonical_json(list(entry.pool)),
        "evidence": "{}",
        "created_at": to.at,
        "ended_at": None,
    }
    to.add(_INSERT_FAMILY, row, entry.family_id)


def project_family_move(entry: FamilyMoved, to: Projection) -> None:
    check_transition(FAMILY_TRANSITIONS, f"family {entry.family_id}", entry.current, entry.new)
    row: Row = {
        "by_id": entry.family_id,
        "by_study_id": to.study_id,
        "by_state": entry.current,
        "state": entry.new,
        "reason": entry.reason,
        "evidence": canonical_json(dict(entry.evidence)),
        "ended_at": None if entry.new in FAMILY_TRANSITIONS else to.at,
    }
    to.move(_MOVE_FAMILY, row, "family", entry.family_id, (entry.current, entry.new))
    if entry.detail:
        to.add(_DETAIL, {"by_id": to.study_id, "detail": printable(entry.detail)}, to.study_id)


def project_holdout_use(entry: HoldoutUsed, to: Projection) -> None:
    row: Row = {
        "bundle_digest": entry.bundle_digest,
        "use_number": entry.use,
        "family_id": entry.family_id,
        "created_at": to.at,
    }
    to.add(_INSERT_USE, row, entry.family_id)
