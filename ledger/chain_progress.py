"""Recomputes a chain a stretch at a time, going on where it stopped."""

from dataclasses import dataclass

from sqlalchemy import select

from ledger.chain import GENESIS
from ledger.chain_check import wrong_link
from ledger.database import ReadSession
from ledger.entry_pages import ChainHead
from ledger.rows import ENTRIES


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainProgress:
    """How far a chain was found whole."""

    seq: int = 0
    digest: str = GENESIS
    problem: str | None = None
    """What is wrong with the link after `seq`, or with the head."""


def check_further(
    session: ReadSession, head: ChainHead, done: ChainProgress, *, limit: int
) -> ChainProgress:
    """At most `limit` links more; the same once all are done or one is wrong."""
    if done.problem is not None:
        return done
    query = (
        select(ENTRIES)
        .where(ENTRIES.c.chain == head.chain, ENTRIES.c.seq > done.seq)
        .order_by(ENTRIES.c.seq)
        .limit(limit)
    )
    seq, digest, count = done.seq, done.digest, 0
    for row in session.connection.execute(query):
        problem = wrong_link(row.seq, row.kind, row.body, row.digest, seq, digest)
        if problem is not None:
            return ChainProgress(seq=seq, digest=digest, problem=f"entry {row.seq}: {problem}")
        seq, digest, count = row.seq, row.digest, count + 1
    at_end = count < limit
    if at_end and (seq, digest) != (head.seq, head.digest):
        why = f"the chain ends at {seq} and its head row says {head.seq}, or another digest"
        return ChainProgress(seq=seq, digest=digest, problem=why)
    return ChainProgress(seq=seq, digest=digest)
