"""Reads around replays and promotions: families, pools, holdout uses, incumbents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select

from ledger.database import ReadSession
from ledger.errors import NotFound
from ledger.records import Evaluation, Family, Incumbent, Trial, TrialKind
from ledger.rows import (
    CANDIDATES,
    FAMILIES,
    INCUMBENTS,
    STUDIES,
    TRIALS,
    USES,
    family_from,
    incumbent_from,
    trial_from,
)
from ledger.states import TrialState
from ledger.trial_parts import load_evaluations


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparableTrial:
    """A complete baseline or replay trial of any study of one comparison family."""

    trial: Trial
    candidate_digest: str
    evaluations: Sequence[Evaluation]


def list_families(session: ReadSession, study_id: str) -> list[Family]:
    query = select(FAMILIES).where(FAMILIES.c.study_id == study_id).order_by(FAMILIES.c.number)
    return [family_from(row) for row in session.connection.execute(query)]


def get_family(session: ReadSession, family_id: str) -> Family:
    """Raises NotFound."""
    row = session.connection.execute(select(FAMILIES).where(FAMILIES.c.id == family_id)).first()
    if row is None:
        raise NotFound(f"no promotion has the id {family_id}")
    return family_from(row)


def list_incumbents(session: ReadSession, model: str | None = None) -> list[Incumbent]:
    """The history of one model's pointer (or of all), newest first."""
    query = select(INCUMBENTS)
    if model is not None:
        query = query.where(INCUMBENTS.c.model == model)
    query = query.order_by(INCUMBENTS.c.model, INCUMBENTS.c.seq.desc())
    return [incumbent_from(row) for row in session.connection.execute(query)]


def latest_incumbent(session: ReadSession, model: str) -> Incumbent | None:
    query = select(INCUMBENTS).where(INCUMBENTS.c.model == model)
    row = session.connection.execute(query.order_by(INCUMBENTS.c.seq.desc()).limit(1)).first()
    return None if row is None else incumbent_from(row)


def holdout_uses(session: ReadSession, bundle_digest: str) -> int:
    """How many replay families, of all studies, have used this bundle's holdout split."""
    query = select(func.count()).where(USES.c.bundle_digest == bundle_digest)
    return int(session.connection.execute(query).scalar_one())


def confirmation_runs(
    session: ReadSession, family_id: str, candidate_id: str
) -> list[tuple[Trial, Sequence[Evaluation]]]:
    """The complete runs that confirmed a candidate in its family, with their scores."""
    query = (
        select(TRIALS)
        .where(
            TRIALS.c.family_id == family_id,
            TRIALS.c.candidate_id == candidate_id,
            TRIALS.c.state == TrialState.COMPLETE,
            TRIALS.c.stage.like("confirm:%"),
        )
        .order_by(TRIALS.c.number)
    )
    trials = [trial_from(row) for row in session.connection.execute(query)]
    evaluations = load_evaluations(session, [trial.id for trial in trials])
    return [(trial, evaluations.get(trial.id, ())) for trial in trials]


def comparable_trials(
    session: ReadSession, comparison: str, *, candidate_digest: str | None = None
) -> list[ComparableTrial]:
    """Complete baseline and replay trials of every study with this comparison digest, in the
    order they ended: what a pool may be built from."""
    query = (
        select(TRIALS, CANDIDATES.c.digest)
        .join(STUDIES, STUDIES.c.id == TRIALS.c.study_id)
        .join(CANDIDATES, CANDIDATES.c.id == TRIALS.c.candidate_id)
        .where(
            STUDIES.c.comparison == comparison,
            TRIALS.c.kind.in_((TrialKind.BASELINE, TrialKind.REPLAY)),
            TRIALS.c.state == TrialState.COMPLETE,
        )
        .order_by(TRIALS.c.ended_at, TRIALS.c.id)
    )
    if candidate_digest is not None:
        query = query.where(CANDIDATES.c.digest == candidate_digest)
    rows = session.connection.execute(query).all()
    evaluations: Mapping[str, Sequence[Evaluation]] = load_evaluations(
        session, [row.id for row in rows]
    )
    return [
        ComparableTrial(
            trial=trial_from(row),
            candidate_digest=row.digest,
            evaluations=evaluations.get(row.id, ()),
        )
        for row in rows
    ]
