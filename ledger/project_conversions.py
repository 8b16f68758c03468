"""Row changes of the entries about conversions."""

from typing import Final

from ledger.conversion_entries import ConversionEnded, ConversionMeasured, ConversionOpened
from ledger.conversion_tables import ConversionRow, MeasurementRow
from ledger.digests import canonical_json
from ledger.errors import InvalidInput
from ledger.projection import Projection, printable
from ledger.statements import Row, guarded_update, insert_row
from ledger.states import (
    CONVERSION_TRANSITIONS,
    AttemptState,
    ConversionState,
    check_transition,
)
from ledger.tables import Base

_CONVERSIONS: Final = Base.metadata.tables[ConversionRow.__tablename__]
_INSERT: Final = insert_row(_CONVERSIONS)
_INSERT_MEASUREMENT: Final = insert_row(Base.metadata.tables[MeasurementRow.__tablename__])
_COLLECT: Final = guarded_update(
    Base.metadata.tables["attempts"], "state", state=AttemptState.EXITED
)
_END: Final = guarded_update(
    _CONVERSIONS,
    "state",
    "reason",
    "detail",
    "artifact_digest",
    "evidence",
    "ended_at",
    state=ConversionState.OPEN,
)


def project_opened(entry: ConversionOpened, to: Projection) -> None:
    if not entry.sources or len(entry.sources) != len(entry.digests):
        raise InvalidInput("conversion_opened: every source has one digest, and there is a source")
    row: Row = {
        "id": entry.conversion_id,
        "study_id": to.study_id,
        "number": entry.number,
        "candidate_id": entry.candidate_id,
        "model": entry.model,
        "method": entry.method,
        "settings": canonical_json(dict(entry.settings)),
        "sources": canonical_json(list(entry.sources)),
        "digests": canonical_json(list(entry.digests)),
        "actor": entry.actor,
        "state": ConversionState.OPEN,
        "reason": None,
        "detail": "",
        "artifact_digest": None,
        "evidence": "{}",
        "created_at": to.at,
        "ended_at": None,
    }
    to.add(_INSERT, row, entry.conversion_id, entry.candidate_id)


def project_measured(entry: ConversionMeasured, to: Projection) -> None:
    row: Row = {
        "trial_id": entry.trial_id,
        "attempt_id": entry.attempt_id,
        "report": canonical_json(dict(entry.report)),
    }
    to.add(_INSERT_MEASUREMENT, row, entry.trial_id, entry.attempt_id)
    key: Row = {
        "by_id": entry.attempt_id,
        "by_study_id": to.study_id,
        "state": AttemptState.COLLECTED,
    }
    move = (AttemptState.EXITED, AttemptState.COLLECTED)
    to.move(_COLLECT, key, "attempt", entry.attempt_id, move)


def project_conversion_end(entry: ConversionEnded, to: Projection) -> None:
    subject = f"conversion {entry.conversion_id}"
    check_transition(CONVERSION_TRANSITIONS, subject, ConversionState.OPEN, entry.new)
    if entry.new is ConversionState.SERVABLE and entry.artifact_digest is None:
        raise InvalidInput("conversion_ended: a servable conversion has an artifact")
    row: Row = {
        "by_id": entry.conversion_id,
        "by_study_id": to.study_id,
        "state": entry.new,
        "reason": entry.reason,
        "detail": printable(entry.detail),
        "artifact_digest": entry.artifact_digest,
        "evidence": canonical_json(dict(entry.evidence)),
        "ended_at": to.at,
    }
    move = (ConversionState.OPEN, entry.new)
    to.move(_END, row, "conversion", entry.conversion_id, move)
