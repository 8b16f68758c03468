"""Appends entries to a chain: each body is hashed together with the digest before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ledger.chain import link
from ledger.database import WriteSession
from ledger.digests import canonical_json
from ledger.entries import Entry, payload
from ledger.errors import InvalidInput
from ledger.statements import Change, Row, insert_row
from ledger.tables import Base

_INSERT: Final = insert_row(Base.metadata.tables["entries"])


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends. Whoever appends holds the lock on the row that stores it."""

    seq: int
    digest: str


def entry_body(entry: Entry, seq: int, at: float) -> str:
    """What is hashed and stored. Raises InvalidInput for what JSON cannot carry."""
    try:
        body = canonical_json(
            {"at": at, "kind": entry.kind, "payload": payload(entry), "seq": seq}
        )
        body.encode()
    except (ValueError, TypeError) as error:  # NaN, lone surrogates, foreign types
        raise InvalidInput(f"entry {entry.kind} cannot be written as JSON: {error}") from error
    return body


def seal_entries(
    chain: str, head: Head, entries: Sequence[Entry], at: float
) -> tuple[Head, list[Change]]:
    """The new head, which the caller stores, and what appends them in order."""
    rows: list[Row] = []
    seq, digest = head.seq, head.digest
    for entry in entries:
        seq += 1
        body = entry_body(entry, seq, at)
        digest = link(digest, body)
        rows.append(
            {"chain": chain, "seq": seq, "kind": entry.kind, "body": body, "digest": digest}
        )
    return Head(seq, digest), [(_INSERT, rows)] if rows else []


def append_entries(
    session: WriteSession, chain: str, head: Head, entries: Sequence[Entry], at: float
) -> Head:
    """Append in order and return the new head, which the caller stores."""
    new, changes = seal_entries(chain, head, entries, at)
    session.run_each(changes)
    return new
