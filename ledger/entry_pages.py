"""Pages of a chain's entries, of some kinds or all, in either direction."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, func, select

from ledger.chain import GENESIS, SERVICE_CHAIN
from ledger.database import ReadSession
from ledger.records import EntryRecord
from ledger.rows import ENTRIES, STUDIES, entry_from
from ledger.tables import Base

_SERVICE = Base.metadata.tables["service_head"]


@dataclass(frozen=True, slots=True)
class ChainHead:
    """Where a chain ends according to its head row."""

    chain: str
    seq: int
    digest: str


def page_of_entries(
    session: ReadSession,
    chain: str,
    *,
    kinds: Sequence[str] | None = None,
    after: int | None = None,
    descending: bool = False,
    limit: int = 100,
) -> list[EntryRecord]:
    """At most `limit` entries, beyond sequence number `after` in the order asked for."""
    seq = ENTRIES.c.seq
    order = seq.desc() if descending else seq
    query = select(ENTRIES).where(ENTRIES.c.chain == chain)
    if kinds:
        places = _places(session, chain, kinds, after, descending=descending, limit=limit)
        query = query.where(seq.in_(places))
    elif after is not None:
        query = query.where(seq < after if descending else seq > after)
    rows = session.connection.execute(query.order_by(order).limit(limit)).all()
    previous = _previous(session, chain, rows)
    return [entry_from(row, previous.get(row.seq - 1, GENESIS)) for row in rows]


def _places(
    session: ReadSession,
    chain: str,
    kinds: Sequence[str],
    after: int | None,
    *,
    descending: bool,
    limit: int,
) -> list[int]:
    """Sequence numbers of a page of some kinds. Each kind is asked for by itself, since its index
    is in order; asked for together, a database would rather read the whole chain."""
    seq = ENTRIES.c.seq
    found: list[int] = []
    for kind in set(kinds):
        query = select(seq).where(ENTRIES.c.chain == chain, ENTRIES.c.kind == kind)
        if after is not None:
            query = query.where(seq < after if descending else seq > after)
        order = seq.desc() if descending else seq
        found += session.connection.execute(query.order_by(order).limit(limit)).scalars()
    return sorted(found, reverse=descending)[:limit]


@dataclass(frozen=True, slots=True)
class StoredLink:
    """A link as it is stored: what its digest was made of, letter by letter."""

    seq: int
    kind: str
    body: str
    digest: str


def page_of_links(
    session: ReadSession, chain: str, *, after: int = 0, limit: int = 500
) -> list[StoredLink]:
    """At most `limit` links in their order, from the one after `after`."""
    columns = (ENTRIES.c.seq, ENTRIES.c.kind, ENTRIES.c.body, ENTRIES.c.digest)
    query = select(*columns).where(ENTRIES.c.chain == chain, ENTRIES.c.seq > after)
    rows = session.connection.execute(query.order_by(ENTRIES.c.seq).limit(limit))
    return [StoredLink(*row) for row in rows]


def _previous(session: ReadSession, chain: str, rows: Sequence[Any]) -> dict[int, str]:
    """Digests of the links before those rows, by sequence number."""
    known = {row.seq: row.digest for row in rows}
    missing = [row.seq - 1 for row in rows if row.seq > 1 and row.seq - 1 not in known]
    query = select(ENTRIES.c.seq, ENTRIES.c.digest)
    for start in range(0, len(missing), 500):
        chunk = missing[start : start + 500]
        found = query.where(ENTRIES.c.chain == chain, ENTRIES.c.seq.in_(chunk))
        known.update((row.seq, row.digest) for row in session.connection.execute(found))
    return known


def chain_marks(session: ReadSession) -> dict[str, tuple[int, str | None]]:
    """How long each chain is, and the state of its study; None for the service's."""
    query = select(STUDIES.c.id, STUDIES.c.head_seq, STUDIES.c.state)
    run = session.connection.execute
    found: dict[str, tuple[int, str | None]] = {row.id: (row[1], row[2]) for row in run(query)}
    service = run(select(_SERVICE.c.seq).where(_SERVICE.c.id == 1)).scalar_one_or_none()
    found[SERVICE_CHAIN] = (service or 0, None)
    return found


def find_head(session: ReadSession, chain: str) -> ChainHead | None:
    """None for a chain that does not exist."""
    if chain == SERVICE_CHAIN:
        query = select(_SERVICE.c.seq, _SERVICE.c.digest).where(_SERVICE.c.id == 1)
    else:
        query = select(STUDIES.c.head_seq, STUDIES.c.head_digest).where(STUDIES.c.id == chain)
    row = session.connection.execute(query).first()
    return None if row is None else ChainHead(chain, row[0], row[1])


def kinds_of(session: ReadSession, chain: str) -> Iterable[str]:
    """Kinds of entries that a chain has: each is looked up in an index behind the one before,
    since a database that is asked for all would walk over the whole chain."""
    query = select(func.min(ENTRIES.c.kind)).where(
        ENTRIES.c.chain == chain, ENTRIES.c.kind > bindparam("before")
    )
    found: list[str] = []
    kind: str | None = ""
    while kind is not None:
        kind = session.connection.execute(query, {"before": kind}).scalar()
        found += [] if kind is None else [kind]
    return sorted(found)
