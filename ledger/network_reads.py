"""What attempts asked of the network, read back from the entries that hold it."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import select

from ledger.database import ReadSession
from ledger.entries import NetworkRequested
from ledger.hydration import parse_entry
from ledger.records import Study
from ledger.rows import ENTRIES


@dataclass(frozen=True, slots=True)
class Recorded:
    """How much of one attempt the ledger has; also where the next batch goes on."""

    batches: int = 0
    requests: int = 0


def may_reach_hosts(study: Study) -> bool:
    """Whether its preparing and training have a network at all: else there is nothing to read,
    and a long chain is not searched for it."""
    target = study.spec.get("target")
    return isinstance(target, Mapping) and bool(target.get("egress"))


def read_requests(
    session: ReadSession, study: Study, trial_id: str | None = None, *, after: int = 0
) -> Iterator[NetworkRequested]:
    """The batches of one trial's attempts, or of all attempts of a study, in order; those beyond
    a place in its chain."""
    if not may_reach_hosts(study):
        return
    query = select(ENTRIES.c.body).where(
        ENTRIES.c.chain == study.id,
        ENTRIES.c.kind == NetworkRequested.kind,
        ENTRIES.c.seq > after,
    )
    if trial_id is not None:  # found by its text first: parsing all of them takes longer
        query = query.where(ENTRIES.c.body.contains(f'"trial_id":"{trial_id}"', autoescape=True))
    for (body,) in session.connection.execute(
        query.order_by(ENTRIES.c.seq).execution_options(yield_per=500)
    ):
        entry = parse_entry(NetworkRequested.kind, json.loads(body)["payload"])
        if isinstance(entry, NetworkRequested) and trial_id in (None, entry.trial_id):
            yield entry


def recorded_requests(
    session: ReadSession, study: Study, attempt_ids: Collection[str]
) -> dict[str, Recorded]:
    """By attempt, of those that have any."""
    found: dict[str, Recorded] = {}
    if not attempt_ids:
        return found
    for entry in read_requests(session, study):
        if entry.attempt_id in attempt_ids:
            before = found.get(entry.attempt_id, Recorded())
            found[entry.attempt_id] = Recorded(before.batches + 1, before.requests + entry.count)
    return found
