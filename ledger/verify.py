"""Checks a whole ledger: chains, rows against entries, budget sums, stored files."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from sqlalchemy import select, text

from ledger.artifacts import ArtifactStore
from ledger.chain import GENESIS, SERVICE_CHAIN
from ledger.chain_check import Finding, check_chain
from ledger.database import Ledger, ReadSession, open_ledger
from ledger.entries import CandidatePromoted
from ledger.errors import ArlError, LedgerUnavailable
from ledger.heads import RecordedHead, current_heads, read_heads
from ledger.rebuild import rebuild_service, rebuild_study
from ledger.row_differences import compare_service, compare_study
from ledger.rows import ENTRIES, INCUMBENTS
from ledger.sums_check import artifact_findings, budget_findings

__all__ = ["Finding", "verify_ledger"]

_FINDINGS_KEPT: Final = 1000


def verify_ledger(
    ledger: Ledger,
    store: ArtifactStore | None,
    *,
    heads_path: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[Finding]:
    """Everything that is wrong with a ledger, the first of each chain first; empty when whole.

    Without `store` no artifact is checked, without `heads_path` no head recorded outside the
    database. `progress` is called with a line for people before each part. Changes nothing.
    """
    say = progress or (lambda _line: None)
    found: list[Finding] = []
    try:
        for finding in _findings(ledger, store, heads_path, say):
            found.append(finding)
            if len(found) >= _FINDINGS_KEPT:
                break
    except LedgerUnavailable as error:
        found.append(Finding(ledger.where, str(error)))
    return found


def _findings(
    ledger: Ledger,
    store: ArtifactStore | None,
    heads_path: Path | None,
    say: Callable[[str], None],
) -> Iterator[Finding]:
    with ledger.read() as session:
        say("database file")
        yield from _file_findings(session)
        recorded = read_heads(heads_path) if heads_path is not None else []
        # A service chain nobody wrote to yet has no head worth recording.
        heads = {SERVICE_CHAIN: RecordedHead(SERVICE_CHAIN, 0, GENESIS)}
        heads.update((head.chain, head) for head in current_heads(session))
        whole: list[str] = []
        for chain in _chains(session, heads, recorded):
            say(f"chain {chain}")
            known = [head for head in recorded if head.chain == chain]
            finding = check_chain(session, chain, heads.get(chain), known)
            if finding is None:
                whole.append(chain)
            else:
                yield finding
        yield from _row_findings(session, whole, say)
        say("budgets")
        yield from budget_findings(session)
        if store is not None:
            yield from artifact_findings(session, store, say)


def _file_findings(session: ReadSession) -> Iterator[Finding]:
    """What SQLite itself says of the file's pages and of references between rows."""
    if session.dialect.name != "sqlite":
        return
    for (line,) in session.connection.execute(text("PRAGMA integrity_check(20)")):
        if line != "ok":
            yield Finding("database file", line)
    for row in session.connection.execute(text("PRAGMA foreign_key_check")):
        yield Finding(f"{row[0]} row {row[1]}", f"it refers to a row of {row[2]} that is missing")


def _chains(
    session: ReadSession, heads: dict[str, RecordedHead], recorded: list[RecordedHead]
) -> list[str]:
    """Every chain that has a head row, an entry, or was recorded outside."""
    stored = session.connection.execute(select(ENTRIES.c.chain).distinct()).scalars()
    return sorted({SERVICE_CHAIN, *heads, *stored, *(head.chain for head in recorded)})


def _row_findings(
    session: ReadSession, chains: list[str], say: Callable[[str], None]
) -> Iterator[Finding]:
    """Rebuild every study whose chain is whole, and compare."""
    with tempfile.TemporaryDirectory(prefix="arl-verify-") as directory:
        scratch = open_ledger(Path(directory) / "scratch.db", create=True)
        try:
            promoted: list[CandidatePromoted] = []
            for chain in chains:
                if chain != SERVICE_CHAIN:
                    say(f"rows of study {chain}")
                    yield from _study_findings(session, scratch, chain, promoted)
            if SERVICE_CHAIN in chains:
                yield from _service_findings(session, scratch, promoted)
        finally:
            scratch.close()


def _study_findings(
    session: ReadSession, scratch: Ledger, study_id: str, promoted: list[CandidatePromoted]
) -> Iterator[Finding]:
    try:
        with scratch.write() as writer:
            rebuilt = rebuild_study(session, writer, study_id)
    except ArlError as error:
        yield Finding(f"entries {study_id}", f"its entries cannot be projected again: {error}")
        return
    promoted.extend(rebuilt.promoted)
    yield from rebuilt.findings
    with scratch.read() as reader:
        yield from compare_study(session, reader, study_id)


def _service_findings(
    session: ReadSession, scratch: Ledger, promoted: list[CandidatePromoted]
) -> Iterator[Finding]:
    try:
        with scratch.write() as writer:
            rebuild_service(session, writer)
    except ArlError as error:
        yield Finding(f"entries {SERVICE_CHAIN}", f"it cannot be projected again: {error}")
        return
    with scratch.read() as reader:
        yield from compare_service(session, reader)
    columns = (INCUMBENTS.c.model, INCUMBENTS.c.seq, INCUMBENTS.c.candidate_id)
    held = {tuple(row) for row in session.connection.execute(select(*columns))}
    for entry in promoted:
        if (entry.model, entry.incumbent_seq, entry.candidate_id) not in held:
            yield Finding(
                f"incumbents {entry.model}/{entry.incumbent_seq}",
                f"candidate {entry.candidate_id} was promoted and is not in the service chain",
            )
