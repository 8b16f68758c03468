"""Reads of what a study asked of language models."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import func, select

from ledger.database import ReadSession
from ledger.records import TrialKind
from ledger.rows import MODEL_CALLS, TRIALS
from ledger.states import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """What a study asked of language models, and what came of it."""

    calls: int
    outcomes: Mapping[str, int]
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    latency_s: float
    """Of all calls together."""
    proposed: int
    """Search trials of the study."""
    malformed: int
    """Those that could be no candidate: a malformed patch, or one that changed nothing."""


def next_model_call(session: ReadSession, study_id: str) -> int:
    """The number of the next request: one more than the last one's."""
    latest = select(func.max(MODEL_CALLS.c.number)).where(MODEL_CALLS.c.study_id == study_id)
    found = session.connection.execute(latest).scalar()
    return 0 if found is None else int(found) + 1


def model_use(session: ReadSession, study_id: str) -> ModelUse | None:
    """None for a study that asked no model."""
    run = session.connection.execute
    of_study = MODEL_CALLS.c.study_id == study_id
    totals = [
        func.sum(MODEL_CALLS.c[name])
        for name in ("prompt_tokens", "completion_tokens", "cost_usd", "latency_s")
    ]
    rows = run(
        select(MODEL_CALLS.c.outcome, func.count(), *totals)
        .where(of_study)
        .group_by(MODEL_CALLS.c.outcome)
        .order_by(MODEL_CALLS.c.outcome)
    ).all()
    if not rows:
        return None
    search = (TRIALS.c.study_id == study_id) & (TRIALS.c.kind == TrialKind.SEARCH)
    unfit = TRIALS.c.reason.in_((Reason.MALFORMED_PATCH, Reason.NO_CHANGE))
    proposed = run(select(func.count()).where(search)).scalar_one()
    malformed = run(select(func.count()).where(search, unfit)).scalar_one()
    return ModelUse(
        calls=sum(row[1] for row in rows),
        outcomes={row[0]: row[1] for row in rows},
        prompt_tokens=sum(row[2] for row in rows),
        completion_tokens=sum(row[3] for row in rows),
        cost_usd=sum(row[4] for row in rows),
        latency_s=sum(row[5] for row in rows),
        proposed=proposed,
        malformed=malformed,
    )
