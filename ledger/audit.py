"""Who asked the API for what: the requests that the service chain holds."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select

from ledger.chain import SERVICE_CHAIN
from ledger.database import ReadSession
from ledger.hydration import parse_entry
from ledger.rows import ENTRIES
from ledger.service_entries import RequestMade


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRequest:
    seq: int
    """Its place in the service chain."""
    at: float
    request: RequestMade


def list_requests(
    session: ReadSession, *, after: int | None, limit: int, descending: bool = False
) -> Sequence[AuditedRequest]:
    """Requests that changed something, in the order asked for, beyond place `after`."""
    seq = ENTRIES.c.seq
    query = select(seq, ENTRIES.c.body).where(
        ENTRIES.c.chain == SERVICE_CHAIN, ENTRIES.c.kind == RequestMade.kind
    )
    if after is not None:
        query = query.where(seq < after if descending else seq > after)
    query = query.order_by(seq.desc() if descending else seq).limit(limit)
    found: list[AuditedRequest] = []
    for place, text in session.connection.execute(query):
        body = json.loads(text)
        entry = parse_entry(RequestMade.kind, body["payload"])
        if isinstance(entry, RequestMade):
            found.append(AuditedRequest(seq=place, at=body["at"], request=entry))
    return found
