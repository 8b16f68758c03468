"""Entries of a chain as the events that clients follow."""

from controller.documents.times import iso
from ledger.records import EntryRecord, Json


def entry_document(entry: EntryRecord) -> dict[str, Json]:
    """One link: what happened, when, and the digests that chain it."""
    return {
        "chain": entry.chain,
        "seq": entry.seq,
        "kind": entry.kind,
        "at": iso(entry.at),
        "payload": dict(entry.payload),
        "previous": entry.previous,
        "digest": entry.digest,
    }


def event_document(entry: EntryRecord) -> dict[str, Json]:
    """The same for who follows a study: without the digests."""
    return {
        "seq": entry.seq,
        "kind": entry.kind,
        "at": iso(entry.at),
        "payload": dict(entry.payload),
    }
