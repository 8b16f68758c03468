"""Reads the model registry as documents, the same for the command line and the API."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from controller.documents.registry import (
    alias_document,
    position_document,
    promotion_detail_document,
    registered_document,
)
from controller.registry.checking import Checked
from controller.registry.making import card_of, sealed_of
from ledger import family_pages, registry_reads
from ledger.database import ReadSession
from ledger.errors import NotFound
from ledger.promotion_notes import notes_of
from ledger.records import Incumbent, Json

CHANGES: Final = 100


def models_listed(session: ReadSession) -> list[dict[str, Json]]:
    """Every model, by name."""
    aliases = registry_reads.list_aliases(session)
    return [registered_document(found, aliases) for found in family_pages.list_models(session)]


def model_detail(session: ReadSession, model: str) -> dict[str, Json]:
    """One model with the latest changes of its aliases. Raises NotFound."""
    found = next((s for s in family_pages.list_models(session) if s.model == model), None)
    if found is None:
        raise NotFound(f"no study promotes to a model {model!r}: `arl models` lists the models")
    aliases = registry_reads.list_aliases(session, model)
    changes = registry_reads.alias_history(session, model, limit=CHANGES)
    listed: list[Json] = [alias_document(change) for change in changes]
    return {**registered_document(found, aliases), "alias_changes": listed}


def position(session: ReadSession, pointer: Incumbent) -> dict[str, Json]:
    """One position of a model's pointer."""
    return positions(session, pointer.model, [pointer])[0]


def positions(
    session: ReadSession, model: str, pointers: Sequence[Incumbent]
) -> list[dict[str, Json]]:
    """Several positions of one model's pointer, in the order they are given in."""
    aliases = registry_reads.list_aliases(session, model)
    notes = notes_of(session, model)
    origins = [registry_reads.origin_of(session, pointer) for pointer in pointers]
    signed = registry_reads.signatures_of(session, model, [origin.seq for origin in origins])
    return [
        position_document(pointer, origin, aliases, signed, notes.get(pointer.seq, ()))
        for pointer, origin in zip(pointers, origins, strict=True)
    ]


def position_detail(session: ReadSession, pointer: Incumbent) -> dict[str, Json]:
    """The same with its lineage, the gate's evidence, signatures and card. Raises Conflict."""
    sealed = sealed_of(session, pointer)
    origin = registry_reads.origin_of(session, pointer)
    signed = registry_reads.signatures_of(session, pointer.model, [origin.seq])
    return promotion_detail_document(
        position(session, pointer), sealed, signed.get(origin.seq, []), card_of(sealed)
    )


def checked_document(found: Checked, home: Path) -> dict[str, Json]:
    """What came of checking a promotion. Where on this machine the store is stays here."""
    wrong: list[Json] = [
        {"where": f.where, "problem": f.problem.replace(str(home), "ARL_HOME")}
        for f in found.findings
    ]
    return {
        "promotion": found.name,
        "ok": not found.findings,
        "signatures": found.signatures,
        "key": found.key,
        "key_is_known": found.key_is_known,
        "findings": wrong,
    }
