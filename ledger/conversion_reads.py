"""Reads of conversions and of what was measured of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Row, Table, select

from ledger.conversion_records import Conversion
from ledger.conversion_tables import ConversionRow, MeasurementRow
from ledger.database import ReadSession
from ledger.records import Json, Trial, TrialKind
from ledger.states import ConversionState, Reason
from ledger.tables import Base
from ledger.trial_parts import chunks

CONVERSIONS: Final[Table] = Base.metadata.tables[ConversionRow.__tablename__]
MEASUREMENTS: Final[Table] = Base.metadata.tables[MeasurementRow.__tablename__]


@dataclass(frozen=True, slots=True, kw_only=True)
class Converting:
    """The conversions of a study as its worker sees them."""

    conversions: Sequence[Conversion]
    """By number."""
    trials: Sequence[Trial]
    """Every conversion trial in whatever state, by number."""
    measurements: Mapping[str, Mapping[str, Json]]
    """What was measured of converted models, by trial id."""


def load_converting(session: ReadSession, study_id: str, trials: Sequence[Trial]) -> Converting:
    converted = [trial for trial in trials if trial.kind is TrialKind.CONVERSION]
    return Converting(
        conversions=list_conversions(session, study_id=study_id),
        trials=converted,
        measurements=load_measurements(session, [trial.id for trial in converted]),
    )


def list_conversions(
    session: ReadSession, *, study_id: str | None = None, candidate_id: str | None = None
) -> list[Conversion]:
    """Of a study, of a candidate, or of both; in the order of being asked for."""
    query = select(CONVERSIONS).order_by(CONVERSIONS.c.study_id, CONVERSIONS.c.number)
    if study_id is not None:
        query = query.where(CONVERSIONS.c.study_id == study_id)
    if candidate_id is not None:
        query = query.where(CONVERSIONS.c.candidate_id == candidate_id)
    return [_conversion_from(row) for row in session.connection.execute(query)]


def load_measurements(
    session: ReadSession, trial_ids: Sequence[str]
) -> dict[str, Mapping[str, Json]]:
    """What was measured, by trial id; trials without a measurement are absent."""
    found: dict[str, Mapping[str, Json]] = {}
    for ids in chunks(trial_ids):
        query = select(MEASUREMENTS).where(MEASUREMENTS.c.trial_id.in_(ids))
        for row in session.connection.execute(query):
            found[row.trial_id] = json.loads(row.report)
    return found


def _conversion_from(row: Row[Any]) -> Conversion:
    return Conversion(
        id=row.id,
        study_id=row.study_id,
        number=row.number,
        candidate_id=row.candidate_id,
        model=row.model,
        method=row.method,
        settings=json.loads(row.settings),
        sources=tuple(json.loads(row.sources)),
        digests=tuple(json.loads(row.digests)),
        actor=row.actor,
        state=ConversionState(row.state),
        reason=None if row.reason is None else Reason(row.reason),
        detail=row.detail,
        artifact_digest=row.artifact_digest,
        evidence=json.loads(row.evidence),
        created_at=row.created_at,
        ended_at=row.ended_at,
    )
