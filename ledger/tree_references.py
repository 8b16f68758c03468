"""Which stored trees the ledger's rows and entries name, and which of them were let go."""

import re
from collections.abc import Collection, Iterator
from typing import Final

from sqlalchemy import select

from ledger.chain import SERVICE_CHAIN
from ledger.conversion_reads import CONVERSIONS
from ledger.database import ReadSession
from ledger.records import ArtifactRole
from ledger.rows import ARTIFACTS, CANDIDATES, ENTRIES, EVALUATIONS, SIGNATURES, STUDIES
from ledger.service_entries import PromotionSigned, ServingJudged, ServingSet
from ledger.trial_parts import chunks

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NAMING: Final = (PromotionSigned.kind, ServingJudged.kind, ServingSet.kind)


def let_go_trees(
    session: ReadSession, also: Collection[tuple[str, ArtifactRole, str]] = ()
) -> frozenset[str]:
    """Trees that trials left and that none of them keeps, nor any candidate as its source; `also`
    are artifacts that are taken for let go, too: each with its attempt, role and digest."""
    run = session.connection.execute
    released = select(ARTIFACTS.c.digest).where(ARTIFACTS.c.released_at.is_not(None)).distinct()
    found = {*run(released).scalars(), *(digest for _, _, digest in also)}
    if not found:
        return frozenset()
    leaving = {(attempt, role) for attempt, role, _ in also}
    columns = (ARTIFACTS.c.attempt_id, ARTIFACTS.c.role, ARTIFACTS.c.digest)
    still = {
        digest
        for digests in chunks(sorted(found))
        for attempt, role, digest in run(
            select(*columns).where(
                ARTIFACTS.c.released_at.is_(None), ARTIFACTS.c.digest.in_(digests)
            )
        )
        if (attempt, role) not in leaving
    }
    sources = {
        digest
        for digests in chunks(sorted(found))
        for digest in run(
            select(CANDIDATES.c.source_digest).where(CANDIDATES.c.source_digest.in_(digests))
        ).scalars()
    }
    return frozenset(found - still - sources - set(_named_for_good(session)))


def needed_trees(session: ReadSession) -> frozenset[str]:
    """Every digest that a row names as something stored, let go or not; among them are some of
    other things, which are in no store."""
    run = session.connection.execute
    found = set(_named_for_good(session))
    for column in (ARTIFACTS.c.digest, EVALUATIONS.c.artifact_digest, CANDIDATES.c.source_digest):
        found.update(digest for digest in run(select(column).distinct()).scalars() if digest)
    rows = run(select(CONVERSIONS.c.digests, CONVERSIONS.c.artifact_digest))
    for digests, artifact in rows:
        found.update(_DIGEST.findall(f"{digests} {artifact or ''}"))
    return frozenset(found)


def _named_for_good(session: ReadSession) -> Iterator[str]:
    """What studies were submitted with, evidence, and what is or was served."""
    run = session.connection.execute
    for row in run(select(STUDIES.c.spec, STUDIES.c.inputs, STUDIES.c.bundle_digest)):
        yield from _DIGEST.findall(" ".join(row))
    yield from run(select(SIGNATURES.c.tree)).scalars()
    bodies = select(ENTRIES.c.body).where(
        ENTRIES.c.chain == SERVICE_CHAIN, ENTRIES.c.kind.in_(_NAMING)
    )
    for body in run(bodies.execution_options(yield_per=1000)).scalars():
        yield from _DIGEST.findall(body)
