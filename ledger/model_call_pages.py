"""Requests that a study made to language models: pages of them, and one with its words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from ledger.database import ReadSession
from ledger.rows import MODEL_CALLS

_LISTED = [
    MODEL_CALLS.c[name]
    for name in (
        "number",
        "first_number",
        "model",
        "endpoint",
        "outcome",
        "prompt_version",
        "prompt_tokens",
        "completion_tokens",
        "cost_usd",
        "latency_s",
        "created_at",
    )
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCall:
    number: int
    """Within the study, from 0."""
    first_number: int
    """Search proposals there were when it was made."""
    model: str
    endpoint: str
    outcome: str
    prompt_version: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    latency_s: float
    created_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeCall:
    call: ListedCall
    request: str
    response: str | None


def page_of_calls(
    session: ReadSession, study_id: str, *, before: int | None, limit: int
) -> Sequence[ListedCall]:
    """The newest first, older than number `before`."""
    query = select(*_LISTED).where(MODEL_CALLS.c.study_id == study_id)
    if before is not None:
        query = query.where(MODEL_CALLS.c.number < before)
    rows = session.connection.execute(query.order_by(MODEL_CALLS.c.number.desc()).limit(limit))
    return [_call(row) for row in rows]


def find_call(session: ReadSession, study_id: str, number: int) -> WholeCall | None:
    query = select(*_LISTED, MODEL_CALLS.c.request, MODEL_CALLS.c.response).where(
        MODEL_CALLS.c.study_id == study_id, MODEL_CALLS.c.number == number
    )
    row = session.connection.execute(query).first()
    if row is None:
        return None
    return WholeCall(call=_call(row), request=row.request, response=row.response)


def _call(row: Any) -> ListedCall:
    return ListedCall(**{column.name: getattr(row, column.name) for column in _LISTED})
