"""Reads for people: what a study amounts to, who a name means, how a request was answered."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import select

from ledger.database import ReadSession
from ledger.entries import AttemptStarted
from ledger.errors import NotFound
from ledger.records import Attempt, Study, Trial, TrialKind, Verdict
from ledger.rows import (
    ATTEMPTS,
    CANDIDATES,
    COMMANDS,
    DECISIONS,
    ENTRIES,
    LATEST,
    STUDIES,
    TRIALS,
    attempt_from,
    study_from,
    trial_from,
)

_MATCHES_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStarts:
    """When a study's first process started; seconds since the epoch, None while none did."""

    attempt: float | None
    trial: float | None


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    state: str
    """`pending`, `applied` or `refused`."""
    detail: str


def newest_study(session: ReadSession) -> Study | None:
    """The study that was submitted last."""
    query = select(STUDIES).order_by(STUDIES.c.created_at.desc(), STUDIES.c.id.desc()).limit(1)
    row = session.connection.execute(query).first()
    return None if row is None else study_from(row)


def studies_starting_with(session: ReadSession, beginning: str) -> list[Study]:
    """Studies whose id starts so, newest first; at most ten."""
    query = select(STUDIES).where(STUDIES.c.id.startswith(beginning, autoescape=True))
    rows = session.connection.execute(
        query.order_by(STUDIES.c.created_at.desc()).limit(_MATCHES_SHOWN)
    )
    return [study_from(row) for row in rows]


def studies_named(session: ReadSession, name: str) -> list[Study]:
    """Studies of exactly this name, newest first."""
    query = select(STUDIES).where(STUDIES.c.name == name).order_by(STUDIES.c.created_at.desc())
    return [study_from(row) for row in session.connection.execute(query)]


def is_trial(session: ReadSession, trial_id: str) -> bool:
    query = select(TRIALS.c.id).where(TRIALS.c.id == trial_id)
    return session.connection.execute(query).first() is not None


def is_candidate(session: ReadSession, candidate_id: str) -> bool:
    query = select(CANDIDATES.c.id).where(CANDIDATES.c.id == candidate_id)
    return session.connection.execute(query).first() is not None


def baseline_values(session: ReadSession, study_id: str) -> list[float]:
    """Search-split scores of the study's own baseline trials, by number."""
    query = select(TRIALS.c.number, TRIALS.c.value).where(
        TRIALS.c.study_id == study_id, TRIALS.c.kind == TrialKind.BASELINE
    )
    # Chosen and ordered here: a database that is asked to may walk over every trial for that.
    rows = session.connection.execute(query)
    return [float(row.value) for row in sorted(rows) if row.value is not None]


def baseline_trial_ids(session: ReadSession, study_id: str) -> list[str]:
    """The study's own baseline trials, by number."""
    query = select(TRIALS.c.number, TRIALS.c.id).where(
        TRIALS.c.study_id == study_id, TRIALS.c.kind == TrialKind.BASELINE
    )
    found = sorted((row.number, row.id) for row in session.connection.execute(query))
    return [trial_id for _number, trial_id in found]


def latest_noise_floor(session: ReadSession, study_id: str) -> float | None:
    """As the latest screening decision used it; None before the first."""
    query = (
        select(DECISIONS.c.noise_floor)
        .join(TRIALS, TRIALS.c.id == DECISIONS.c.trial_id)
        .where(TRIALS.c.study_id == study_id, TRIALS.c.kind == TrialKind.SEARCH)
        .where(TRIALS.c.finish_seq.is_not(None))
        .order_by(TRIALS.c.finish_seq.desc())
        .limit(1)
    )
    found = session.connection.execute(query).scalar_one_or_none()
    return None if found is None else float(found)


def leader_id(session: ReadSession, study_id: str) -> str | None:
    """Candidate id of the best screened candidate: the one kept last."""
    query = (
        select(TRIALS.c.candidate_id)
        .where(TRIALS.c.study_id == study_id, TRIALS.c.verdict == Verdict.KEEP)
        .where(TRIALS.c.finish_seq.is_not(None))
        .order_by(TRIALS.c.finish_seq.desc())
        .limit(1)
    )
    return session.connection.execute(query).scalar_one_or_none()


def first_starts(session: ReadSession, study_id: str) -> FirstStarts:
    """Of any attempt, and of a training attempt: from the entries, the first of which tell it,
    however many attempts there are."""
    query = (
        select(ENTRIES.c.body)
        .where(ENTRIES.c.chain == study_id, ENTRIES.c.kind == AttemptStarted.kind)
        .order_by(ENTRIES.c.seq)
        .execution_options(yield_per=10)
    )
    first: float | None = None
    for (text,) in session.connection.execute(query):
        body = json.loads(text)
        first = body["at"] if first is None else first
        if body["payload"]["trial_starts"]:
            return FirstStarts(attempt=first, trial=body["at"])
    return FirstStarts(attempt=first, trial=None)


def latest_values(
    session: ReadSession, trial_ids: Sequence[str]
) -> dict[str, list[tuple[str, int, float]]]:
    """(metric, step, value) last reported by each of some running trials, by trial id."""
    query = select(LATEST).where(LATEST.c.trial_id.in_(trial_ids)).order_by(LATEST.c.metric)
    found: dict[str, list[tuple[str, int, float]]] = {}
    for row in session.connection.execute(query):
        value = float(row.value.strip('"'))
        found.setdefault(row.trial_id, []).append((row.metric, row.step, value))
    return found


def trials_of(session: ReadSession, candidate_id: str) -> list[Trial]:
    """Every execution of a candidate in its study, by number."""
    query = select(TRIALS).where(TRIALS.c.candidate_id == candidate_id).order_by(TRIALS.c.number)
    return [trial_from(row) for row in session.connection.execute(query)]


def prepare_attempts(session: ReadSession, study_id: str) -> list[Attempt]:
    """A study's attempts that belong to no trial, oldest first."""
    # Few attempts of all studies belong to no trial: found by that, not among the study's own,
    # which SQLite would walk through; of an expression it has no index.
    of_study = ATTEMPTS.c.study_id.concat("") == study_id
    query = select(ATTEMPTS).where(ATTEMPTS.c.trial_id.is_(None), of_study)
    rows = session.connection.execute(query.order_by(ATTEMPTS.c.created_at))
    return [attempt_from(row) for row in rows]


def command_answers(session: ReadSession, command_ids: Sequence[int]) -> dict[int, CommandAnswer]:
    """How each request stands, by its id. Raises NotFound when one was never made."""
    query = select(COMMANDS.c.id, COMMANDS.c.state, COMMANDS.c.detail)
    rows = session.connection.execute(query.where(COMMANDS.c.id.in_(command_ids)))
    found = {row.id: CommandAnswer(row.state, row.detail) for row in rows}
    for command_id in command_ids:
        if command_id not in found:
            raise NotFound(f"no command has the id {command_id}")
    return found
