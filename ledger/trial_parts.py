"""Reads of what belongs to trials and studies: scores, artifacts, budgets, requests."""

from collections.abc import Iterator, Sequence
from typing import Final

from sqlalchemy import func, select

from ledger.database import ReadSession
from ledger.records import Artifact, BudgetLine, Command, Evaluation, Resource, TrialKind
from ledger.rows import (
    ARTIFACTS,
    ATTEMPTS,
    BUDGETS,
    COMMANDS,
    EVALUATIONS,
    TRIALS,
    artifact_from,
    budget_from,
    command_from,
    evaluation_from,
)
from ledger.states import Reason, TrialState

_CHUNK: Final = 500


def load_evaluations(
    session: ReadSession, trial_ids: Sequence[str]
) -> dict[str, list[Evaluation]]:
    """Evaluations by trial id; trials without one are absent."""
    found: dict[str, list[Evaluation]] = {}
    for ids in chunks(trial_ids):
        query = select(EVALUATIONS).where(EVALUATIONS.c.trial_id.in_(ids))
        for row in session.connection.execute(query):
            found.setdefault(row.trial_id, []).append(evaluation_from(row))
    return found


def load_artifacts(session: ReadSession, trial_ids: Sequence[str]) -> dict[str, list[Artifact]]:
    """Artifacts by trial id, oldest first; trials without one are absent."""
    found: dict[str, list[Artifact]] = {}
    for ids in chunks(trial_ids):
        query = select(ARTIFACTS).where(ARTIFACTS.c.trial_id.in_(ids))
        for row in session.connection.execute(query.order_by(ARTIFACTS.c.created_at)):
            found.setdefault(row.trial_id, []).append(artifact_from(row))
    return found


def load_budgets(session: ReadSession, study_id: str) -> dict[Resource, BudgetLine]:
    query = select(BUDGETS).where(BUDGETS.c.study_id == study_id)
    lines = [budget_from(r) for r in session.connection.execute(query)]
    return {line.resource: line for line in lines}


def pending_commands(session: ReadSession, study_id: str) -> list[Command]:
    """What operators asked for and nobody carried out yet, oldest first."""
    query = select(COMMANDS).where(COMMANDS.c.study_id == study_id, COMMANDS.c.state == "pending")
    return [command_from(r) for r in session.connection.execute(query.order_by(COMMANDS.c.id))]


def recent_durations(session: ReadSession, study_id: str, limit: int) -> list[float]:
    """Seconds that the latest complete trials took, all their attempts together; oldest first.
    Conversions train nothing and are left out."""
    latest = (
        select(TRIALS.c.id, TRIALS.c.finish_seq)
        .where(
            TRIALS.c.study_id == study_id,
            TRIALS.c.kind != TrialKind.CONVERSION,
            TRIALS.c.state == TrialState.COMPLETE,
            TRIALS.c.reason != Reason.DUPLICATE,
        )
        .order_by(TRIALS.c.finish_seq.desc())
        .limit(limit)
        .subquery()
    )
    query = (
        select(func.sum(ATTEMPTS.c.wall_s))
        .join(latest, latest.c.id == ATTEMPTS.c.trial_id)
        .group_by(latest.c.id, latest.c.finish_seq)
        .order_by(latest.c.finish_seq)
    )
    return [float(row[0] or 0.0) for row in session.connection.execute(query)]


def chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """`ids` in pieces short enough for one IN list."""
    return (ids[start : start + _CHUNK] for start in range(0, len(ids), _CHUNK))


def load_times(session: ReadSession, study_id: str) -> dict[int, float]:
    """What the attempts of each search trial took, by its number: added up in their order, as
    the worker does it, so that the sum is the same to the last bit."""
    query = (
        select(TRIALS.c.number, ATTEMPTS.c.wall_s)
        .join(TRIALS, TRIALS.c.id == ATTEMPTS.c.trial_id)
        .where(ATTEMPTS.c.study_id == study_id, TRIALS.c.kind == TrialKind.SEARCH)
        .order_by(ATTEMPTS.c.created_at, ATTEMPTS.c.kind, ATTEMPTS.c.attempt_index)
    )
    times: dict[int, float] = {}
    for number, wall_s in session.connection.execute(query):
        times[number] = times.get(number, 0.0) + (wall_s or 0.0)
    return times
