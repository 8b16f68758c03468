"""What a page of trials shows beside its rows: scores, last reported values, attempts."""

import json
from collections.abc import Sequence

from sqlalchemy import func, select

from ledger.database import ReadSession
from ledger.records import Split
from ledger.rows import ATTEMPTS, EVALUATIONS, LATEST, TRIALS


def search_scores(session: ReadSession, trial_ids: Sequence[str]) -> dict[str, dict[str, float]]:
    """Every metric on the search split, by trial; without the scores of single items."""
    query = select(EVALUATIONS.c.trial_id, EVALUATIONS.c.scores).where(
        EVALUATIONS.c.trial_id.in_(trial_ids), EVALUATIONS.c.split == Split.SEARCH
    )
    return {row.trial_id: json.loads(row.scores) for row in session.connection.execute(query)}


def last_metrics(session: ReadSession, trial_ids: Sequence[str]) -> dict[str, dict[str, float]]:
    """The last value of each metric, by trial."""
    found: dict[str, dict[str, float]] = {}
    query = select(LATEST.c.trial_id, LATEST.c.metric, LATEST.c.value)
    query = query.where(LATEST.c.trial_id.in_(trial_ids)).order_by(LATEST.c.metric)
    for trial_id, metric, value in session.connection.execute(query):
        found.setdefault(trial_id, {})[metric] = float(value.strip('"'))
    return found


def attempt_counts(session: ReadSession, trial_ids: Sequence[str]) -> dict[str, int]:
    """How many processes were started for each trial."""
    query = (
        select(ATTEMPTS.c.trial_id, func.count())
        .where(ATTEMPTS.c.trial_id.in_(trial_ids))
        .group_by(ATTEMPTS.c.trial_id)
    )
    return {trial_id: int(count) for trial_id, count in session.connection.execute(query)}


def metric_names(session: ReadSession, study_id: str, *, trials: int = 200) -> list[str]:
    """Metrics that the latest trials of a study reported."""
    latest = (
        select(TRIALS.c.id)
        .where(TRIALS.c.study_id == study_id)
        .order_by(TRIALS.c.number.desc())
        .limit(trials)
    )
    query = select(LATEST.c.metric).distinct().where(LATEST.c.trial_id.in_(latest))
    return sorted(session.connection.execute(query).scalars())


def every_metric(session: ReadSession, study_id: str) -> list[str]:
    """Metrics that any trial of a study reported."""
    query = select(LATEST.c.metric).distinct().join(TRIALS, TRIALS.c.id == LATEST.c.trial_id)
    return sorted(session.connection.execute(query.where(TRIALS.c.study_id == study_id)).scalars())
