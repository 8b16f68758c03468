"""The only door to reading the ledger. Lists are counted and paged by the database."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select

from ledger.chain import GENESIS
from ledger.conversion_reads import list_conversions
from ledger.curves import parse_values, read_values
from ledger.database import ReadSession
from ledger.errors import NotFound
from ledger.listing import StudySummary, list_studies, maximizes
from ledger.live import LiveState, load_live, open_attempts
from ledger.records import (
    Artifact,
    ArtifactRole,
    Attempt,
    Candidate,
    Decision,
    EntryRecord,
    Evaluation,
    Study,
    Trial,
    TrialKind,
)
from ledger.replay_reads import (
    ComparableTrial,
    comparable_trials,
    confirmation_runs,
    get_family,
    holdout_uses,
    latest_incumbent,
    list_families,
    list_incumbents,
)
from ledger.rows import (
    ARTIFACTS,
    ATTEMPTS,
    CANDIDATES,
    DECISIONS,
    ENTRIES,
    LATEST,
    TRIALS,
    attempt_from,
    candidate_from,
    decision_from,
    entry_from,
    trial_from,
)
from ledger.states import TrialState
from ledger.study_reads import (
    claimable_studies,
    ended_study_ids,
    find_study,
    get_study,
    workable_studies,
)
from ledger.trial_pages import (
    ListedTrial,
    TrialFilter,
    TrialPage,
    find_candidates,
    list_trials,
)
from ledger.trial_parts import (
    load_artifacts,
    load_budgets,
    load_evaluations,
    pending_commands,
    recent_durations,
)

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
    "comparable_trials",
    "confirmation_runs",
    "ended_study_ids",
    "find_artifact",
    "find_candidates",
    "find_study",
    "find_trial",
    "get_candidate",
    "get_family",
    "get_study",
    "get_trial",
    "holdout_uses",
    "latest_incumbent",
    "latest_value",
    "list_conversions",
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
    "open_attempts",
    "parse_values",
    "pending_commands",
    "read_values",
    "recent_durations",
    "workable_studies",
]


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
