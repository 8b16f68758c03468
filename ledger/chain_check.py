"""Recomputes the hash chains from the stored text and names the first link that is wrong."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select

from ledger.chain import GENESIS, link
from ledger.database import ReadSession
from ledger.heads import RecordedHead
from ledger.rows import ENTRIES


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    where: str
    """The row: `table key`, or the file."""
    problem: str

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


def check_chain(
    session: ReadSession,
    chain: str,
    head: RecordedHead | None,
    recorded: Sequence[RecordedHead] = (),
) -> Finding | None:
    """The first thing wrong with a chain, or None.

    `head` is where its head row says it ends, `recorded` what the file outside the database
    remembers of it.
    """
    remembered: Mapping[int, str] = {one.seq: one.digest for one in recorded}
    query = select(ENTRIES).where(ENTRIES.c.chain == chain).order_by(ENTRIES.c.seq)
    rows = session.connection.execute(query.execution_options(yield_per=1000))
    seq, digest = 0, GENESIS
    for row in rows:
        problem = wrong_link(row.seq, row.kind, row.body, row.digest, seq, digest)
        if problem is None and remembered.get(row.seq, row.digest) != row.digest:
            problem = "its digest is not the one that was recorded outside the database"
        if problem is not None:
            rows.close()
            return Finding(f"entries {chain}/{row.seq}", problem)
        seq, digest = row.seq, row.digest
    if head is None:
        return Finding(f"entries {chain}", "there is no head row for this chain")
    if (head.seq, head.digest) != (seq, digest):
        return Finding(
            f"entries {chain}/{max(seq, head.seq)}",
            f"the chain ends at {seq} and its head row says {head.seq}, or another digest",
        )
    longest = max(remembered, default=0)
    if longest > seq:
        return Finding(
            f"entries {chain}/{seq + 1}",
            f"missing: the chain ends at {seq}, and {longest} was recorded outside the database",
        )
    return None


def wrong_link(
    seq: int, kind: str, body: str, digest: str, previous_seq: int, previous: str
) -> str | None:
    """What is wrong with one stored entry after the one before it."""
    if seq != previous_seq + 1:
        return f"the entry after {previous_seq} is missing"
    if link(previous, body) != digest:
        return "its digest is not that of its text and the entry before it"
    try:
        parsed = json.loads(body)
        matches = parsed["seq"] == seq and parsed["kind"] == kind
    except (ValueError, KeyError, TypeError):
        return "its text is not an entry"
    return None if matches else "its kind or number is not the one in its text"
