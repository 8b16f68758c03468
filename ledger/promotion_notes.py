"""What was written of promotions after they were made, read from the service chain."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import select

from ledger.chain import SERVICE_CHAIN
from ledger.database import ReadSession
from ledger.hydration import parse_entry
from ledger.rows import ENTRIES
from ledger.service_entries import PromotionNoted


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    entry: PromotionNoted
    at: float


def notes_of(session: ReadSession, model: str) -> Mapping[int, list[Note]]:
    """By the number of the promotion, the oldest first."""
    query = (
        select(ENTRIES.c.body)
        .where(ENTRIES.c.chain == SERVICE_CHAIN, ENTRIES.c.kind == PromotionNoted.kind)
        .order_by(ENTRIES.c.seq)
    )
    found: dict[int, list[Note]] = {}
    for row in session.connection.execute(query):
        body = json.loads(row.body)
        entry = parse_entry(PromotionNoted.kind, body["payload"])
        if isinstance(entry, PromotionNoted) and entry.model == model:
            found.setdefault(entry.seq, []).append(Note(entry=entry, at=body["at"]))
    return found
