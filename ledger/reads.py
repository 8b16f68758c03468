"""The only door to reading the ledger. Lists are counted and paged by the database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, exists, func, select
from sqlalchemy import true as sql_true

from ledger.chain import GENESIS
from ledger.curves import parse_values, read_values
from ledger.database import ReadSession
from ledger.errors import Conflict, NotFound
from ledger.listing import (
    ListedTrial,
    StudySummary,
    TrialFilter,
    TrialPage,
    find_candidates,
    list_studies,
    list_trials,
    maximizes,
)
from ledger.live import (
    LiveState,
    load_artifacts,
    load_budgets,
    load_evaluations,
    load_live,
    pending_commands,
    recent_durations,
)
from ledger.records import (
    Artifact,
    ArtifactRole,
    Attempt,
    Candidate,
    Decision,
    EntryRecord,
    Evaluation,
    Family,
    Incumbent,
    Study,
    Trial,
    TrialKind,
)
from ledger.rows import (
    ARTIFACTS,
    ATTEMPTS,
    CANDIDATES,
    COMMANDS,
    DECISIONS,
    ENTRIES,
    FAMILIES,
    INCUMBENTS,
    LATEST,
    STUDIES,
    TRIALS,
    USES,
    attempt_from,
    candidate_from,
    decision_from,
    entry_from,
    family_from,
    incumbent_from,
    study_from,
    trial_from,
)
from ledger.states import StudyState, TrialState

__all__ = [
    "ComparableTrial",
    "LatestValue",
    "ListedTrial",
    "LiveState",
    "StudySummary",
    "TrialDetail",
    "TrialFilter",
    "TrialPage",
    "best_trial",
    "claimable_studies",
    "confirmation_runs",
    "ended_study_ids",
    "find_artifact",
    "latest_value",
    "recent_durations",
    "comparable_trials",
    "find_candidates",
    "find_study",
    "find_trial",
    "get_candidate",
    "get_study",
    "get_trial",
    "holdout_uses",
    "latest_incumbent",
    "list_entries",
    "list_families",
    "list_incumbents",
    "list_studies",
    "list_trials",
    "load_artifacts",
    "load_budgets",
    "load_evaluations",
    "load_live",
    "maximizes",
    "parse_values",
    "pending_commands",
    "read_values",
    "workable_studies",
]

_AMBIGUOUS_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestValue:
    metric: str
    step: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialDetail:
    trial: Trial
    candidate: Candidate
    attempts: Sequence[Attempt]
    evaluations: Sequence[Evaluation]
    artifacts: Sequence[Artifact]
    decision: Decision | None
    latest: Sequence[LatestValue]
    """The last value of every metric it reported, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparableTrial:
    """A complete baseline or replay trial of any study of one comparison family."""

    trial: Trial
    candidate_digest: str
    evaluations: Sequence[Evaluation]


def get_study(session: ReadSession, study_id: str) -> Study:
    """Raises NotFound."""
    row = session.connection.execute(select(STUDIES).where(STUDIES.c.id == study_id)).first()
    if row is None:
        raise NotFound(f"no study has the id {study_id}: `arl studies` lists them")
    return study_from(row)


def find_study(session: ReadSession, id_or_name: str) -> Study:
    """The study with this id, or the only one with this name.

    Raises:
        NotFound: there is none.
        Conflict: several have the name; the message lists their ids.
    """
    run = session.connection.execute
    row = run(select(STUDIES).where(STUDIES.c.id == id_or_name)).first()
    if row is not None:
        return study_from(row)
    named = select(STUDIES).where(STUDIES.c.name == id_or_name)
    rows = run(named.order_by(STUDIES.c.created_at.desc()).limit(_AMBIGUOUS_SHOWN + 1)).all()
    if not rows:
        raise NotFound(f"no study has the id or name {id_or_name}: `arl studies` lists them")
    if len(rows) > 1:
        ids = ", ".join(found.id for found in rows[:_AMBIGUOUS_SHOWN])
        raise Conflict(f"several studies are named {id_or_name}: say which by its id ({ids})")
    return study_from(rows[0])


def claimable_studies(session: ReadSession) -> list[Study]:
    """Studies that nobody drives and that have something to do, oldest first: they have not
    ended, or a command waits for them."""
    free = (
        STUDIES.c.lease_owner.is_(None)
        | STUDIES.c.lease_expires_at.is_(None)
        | (STUDIES.c.lease_expires_at <= session.now())
    )
    return _with_work(session, free)


def _with_work(session: ReadSession, condition: ColumnElement[bool]) -> list[Study]:
    ended = (StudyState.COMPLETED, StudyState.FAILED, StudyState.CANCELLED)
    asked = exists().where(COMMANDS.c.study_id == STUDIES.c.id, COMMANDS.c.state == "pending")
    query = select(STUDIES).where(condition, STUDIES.c.state.not_in(ended) | asked)
    rows = session.connection.execute(query.order_by(STUDIES.c.created_at))
    return [study_from(row) for row in rows]


def workable_studies(session: ReadSession) -> list[Study]:
    """As `claimable_studies`, whoever holds the lease: its holder may be gone."""
    return _with_work(session, sql_true())


def ended_study_ids(session: ReadSession) -> set[str]:
    """Studies in which nothing may run any more."""
    ended = (StudyState.COMPLETED, StudyState.FAILED, StudyState.CANCELLED)
    query = select(STUDIES.c.id).where(STUDIES.c.state.in_(ended))
    return set(session.connection.execute(query).scalars())


def get_candidate(session: ReadSession, candidate_id: str) -> Candidate:
    """Raises NotFound."""
    query = select(CANDIDATES).where(CANDIDATES.c.id == candidate_id)
    row = session.connection.execute(query).first()
    if row is None:
        raise NotFound(f"no candidate has the id {candidate_id}")
    return candidate_from(row)


def find_trial(session: ReadSession, study_id: str, number: int) -> Trial | None:
    query = select(TRIALS).where(TRIALS.c.study_id == study_id, TRIALS.c.number == number)
    row = session.connection.execute(query).first()
    return None if row is None else trial_from(row)


def get_trial(session: ReadSession, trial_id: str) -> TrialDetail:
    """A trial with everything that belongs to it. Raises NotFound."""
    run = session.connection.execute
    row = run(select(TRIALS).where(TRIALS.c.id == trial_id)).first()
    if row is None:
        raise NotFound(f"no trial has the id {trial_id}")
    trial = trial_from(row)
    attempts = select(ATTEMPTS).where(ATTEMPTS.c.trial_id == trial_id)
    attempts = attempts.order_by(ATTEMPTS.c.created_at, ATTEMPTS.c.attempt_index)
    decision = run(select(DECISIONS).where(DECISIONS.c.trial_id == trial_id)).first()
    latest = select(LATEST).where(LATEST.c.trial_id == trial_id).order_by(LATEST.c.metric)
    return TrialDetail(
        trial=trial,
        candidate=get_candidate(session, trial.candidate_id),
        attempts=[attempt_from(r) for r in run(attempts)],
        evaluations=load_evaluations(session, [trial_id]).get(trial_id, []),
        artifacts=load_artifacts(session, [trial_id]).get(trial_id, []),
        decision=None if decision is None else decision_from(decision),
        latest=[
            LatestValue(metric=r.metric, step=r.step, value=float(r.value.strip('"')))
            for r in run(latest)
        ],
    )


def best_trial(session: ReadSession, study: Study) -> Trial | None:
    """The complete search trial with the best value, the earliest of equals; None without any."""
    value = TRIALS.c.value.desc() if maximizes(study) else TRIALS.c.value
    query = (
        select(TRIALS)
        .where(
            TRIALS.c.study_id == study.id,
            TRIALS.c.kind == TrialKind.SEARCH,
            TRIALS.c.value.is_not(None),
            TRIALS.c.state == TrialState.COMPLETE,
        )
        .order_by(value, TRIALS.c.number)
        .limit(1)
    )
    row = session.connection.execute(query).first()
    return None if row is None else trial_from(row)


def list_entries(
    session: ReadSession, chain: str, *, after: int = 0, limit: int = 500
) -> list[EntryRecord]:
    """Links of a chain in order, from the one after sequence number `after`."""
    rows = session.connection.execute(
        select(ENTRIES)
        .where(ENTRIES.c.chain == chain, ENTRIES.c.seq >= after)
        .order_by(ENTRIES.c.seq)
        .limit(limit + 1)
    ).all()
    previous = GENESIS
    found: list[EntryRecord] = []
    for row in rows:
        if row.seq > after:
            found.append(entry_from(row, previous))
        previous = row.digest
    return found[:limit]


def list_families(session: ReadSession, study_id: str) -> list[Family]:
    query = select(FAMILIES).where(FAMILIES.c.study_id == study_id).order_by(FAMILIES.c.number)
    return [family_from(row) for row in session.connection.execute(query)]


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


def find_artifact(session: ReadSession, trial_id: str, role: ArtifactRole) -> str | None:
    """Tree digest of the latest artifact of that role which a trial saved."""
    query = (
        select(ARTIFACTS.c.digest)
        .where(ARTIFACTS.c.trial_id == trial_id, ARTIFACTS.c.role == role)
        .order_by(ARTIFACTS.c.created_at.desc())
        .limit(1)
    )
    digest: str | None = session.connection.execute(query).scalar()
    return digest


def latest_value(session: ReadSession, trial_id: str, metric: str) -> float | None:
    """The last value a trial reported of one metric."""
    query = select(LATEST.c.value).where(LATEST.c.trial_id == trial_id, LATEST.c.metric == metric)
    stored = session.connection.execute(query).scalar()
    return None if stored is None else float(stored.strip('"'))


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
