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


def list_requests(session: ReadSession, *, after: int, limit: int) -> Sequence[AuditedRequest]:
    """Requests that changed something, in order, from the one after place `after`."""
    query = (
        select(ENTRIES.c.seq, ENTRIES.c.body)
        .where(
            ENTRIES.c.chain == SERVICE_CHAIN,
            ENTRIES.c.kind == RequestMade.kind,
            ENTRIES.c.seq > after,
        )
        .order_by(ENTRIES.c.seq)
        .limit(limit)
    )
    found: list[AuditedRequest] = []
    for seq, text in session.connection.execute(query):
        body = json.loads(text)
        entry = parse_entry(RequestMade.kind, body["payload"])
        if isinstance(entry, RequestMade):
            found.append(AuditedRequest(seq=seq, at=body["at"], request=entry))
    return found
