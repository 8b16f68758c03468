"""Campaigns, read from the service chain and appended to it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, get_args

from sqlalchemy import select

from ledger.campaign_entries import CampaignEntry
from ledger.chain import SERVICE_CHAIN
from ledger.database import ReadSession, WriteSession
from ledger.errors import Conflict, InvalidInput
from ledger.hydration import parse_entry
from ledger.rows import ENTRIES
from ledger.study_heads import lock_service
from ledger.writes import append_service

KINDS: Final = frozenset(cls.kind for cls in get_args(CampaignEntry))


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignFact:
    entry: CampaignEntry
    at: float
    seq: int
    """In the service chain."""


def campaign_facts(
    session: ReadSession, campaign: str | None = None, *, after: int = 0
) -> list[CampaignFact]:
    """Everything that is recorded of one campaign, or of all, in order; `after` a place in the
    service chain."""
    query = (
        select(ENTRIES.c.seq, ENTRIES.c.kind, ENTRIES.c.body)
        .where(
            ENTRIES.c.chain == SERVICE_CHAIN,
            ENTRIES.c.kind.in_(sorted(KINDS)),
            ENTRIES.c.seq > after,
        )
        .order_by(ENTRIES.c.seq)
    )
    found = []
    for row in session.connection.execute(query.execution_options(yield_per=500)):
        body = json.loads(row.body)
        if campaign is None or body["payload"]["campaign"] == campaign:
            entry = parse_entry(row.kind, body["payload"])
            if isinstance(entry, CampaignEntry):
                found.append(CampaignFact(entry=entry, at=body["at"], seq=row.seq))
    return found


def append_campaign(session: WriteSession, entry: CampaignEntry) -> None:
    """Compare and set: it is the next of its campaign. Raises Conflict."""
    lock_service(session)
    present = _latest_number(session, entry.campaign)
    if entry.number != present + 1:
        raise Conflict(
            f"campaign {entry.campaign}: {present} entries are recorded, so the next is "
            f"{present + 1}, not {entry.number}: another process is at work on it"
        )
    append_service(session, [entry])


def _latest_number(session: ReadSession, campaign: str) -> int:
    query = (
        select(ENTRIES.c.body)
        .where(ENTRIES.c.chain == SERVICE_CHAIN, ENTRIES.c.kind.in_(sorted(KINDS)))
        .order_by(ENTRIES.c.seq.desc())
    )
    rows = session.connection.execute(query.execution_options(yield_per=50))
    try:
        for row in rows:
            payload = json.loads(row.body)["payload"]
            if payload["campaign"] == campaign:
                return int(payload["number"])
    finally:
        rows.close()  # who found it reads no further
    return 0


def check_campaigns(entries: Iterable[CampaignEntry]) -> None:
    """Whether the history of every campaign is without gaps. Raises InvalidInput."""
    latest: dict[str, int] = {}
    for entry in entries:
        expected = latest.get(entry.campaign, 0) + 1
        if entry.number != expected:
            raise InvalidInput(
                f"campaign {entry.campaign}: entry {entry.number} comes where {expected} should"
            )
        latest[entry.campaign] = entry.number
