"""What is served under which name, read from the service chain and appended to it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import select

from ledger.chain import SERVICE_CHAIN
from ledger.database import ReadSession, WriteSession
from ledger.errors import Conflict, InvalidInput
from ledger.hydration import parse_entry
from ledger.records import Evaluation, Split
from ledger.rows import ENTRIES, EVALUATIONS, evaluation_from
from ledger.service_entries import ServingFailed, ServingJudged, ServingSet
from ledger.study_heads import lock_service
from ledger.writes import append_service


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Who has a name now."""

    entry: ServingSet
    at: float


def find_served(session: ReadSession, name: str) -> Served | None:
    """What the record says is served under a name; None before the first."""
    for served in _pointers(session):
        if served.entry.name == name:
            return served
    return None


def list_sets(session: ReadSession, name: str) -> list[ServingSet]:
    """Everything that ever had a name, the newest first."""
    return [served.entry for served in _pointers(session) if served.entry.name == name]


def evaluations_of(
    session: ReadSession, artifact_digest: str, bundle_digest: str
) -> dict[Split, Evaluation]:
    """What the frozen evaluator gave exactly this artifact, by split."""
    query = select(EVALUATIONS).where(
        EVALUATIONS.c.bundle_digest == bundle_digest,
        EVALUATIONS.c.artifact_digest == artifact_digest,
    )
    rows = session.connection.execute(query.order_by(EVALUATIONS.c.trial_id.desc()))
    found = [evaluation_from(row) for row in rows]
    return {evaluation.split: evaluation for evaluation in found}


def append_judged(session: WriteSession, entry: ServingJudged) -> int:
    """Its number in the service chain."""
    number = lock_service(session).seq + 1
    append_service(session, [entry])
    return number


def append_failed(session: WriteSession, entry: ServingFailed) -> None:
    append_service(session, [entry])


def append_served(session: WriteSession, entry: ServingSet) -> None:
    """Compare and set: it is the next in its name's history. Raises Conflict, naming who is."""
    lock_service(session)
    served = find_served(session, entry.name)
    present = 0 if served is None else served.entry.seq
    if entry.seq != present + 1:
        holder = "none" if served is None else served.entry.served_as
        raise Conflict(
            f"{entry.name}: what it serves is number {present} ({holder}) now, so "
            f"{entry.served_as} may not become number {entry.seq}"
        )
    append_service(session, [entry])


def check_served(entries: Sequence[ServingSet]) -> None:
    """Whether the whole history of every name is without gaps. Raises InvalidInput."""
    latest: dict[str, int] = {}
    for entry in entries:
        expected = latest.get(entry.name, 0) + 1
        if entry.seq != expected:
            raise InvalidInput(
                f"what {entry.name} serves: number {entry.seq} comes where {expected} should"
            )
        latest[entry.name] = entry.seq


def _pointers(session: ReadSession) -> Iterator[Served]:
    """Whatever had a name, the newest first."""
    kind = ServingSet.kind
    query = (
        select(ENTRIES.c.body)
        .where(ENTRIES.c.chain == SERVICE_CHAIN, ENTRIES.c.kind == kind)
        .order_by(ENTRIES.c.seq.desc())
    )
    rows = session.connection.execute(query.execution_options(yield_per=200))
    try:
        for row in rows:
            body = json.loads(row.body)
            entry = parse_entry(kind, body["payload"])
            if isinstance(entry, ServingSet):
                yield Served(entry=entry, at=body["at"])
    finally:
        rows.close()  # who found what it looked for reads no further
