"""Reads the model registry as documents, the same for the command line and the API."""

from typing import Final

from controller.documents.registry import (
    alias_document,
    position_document,
    promotion_detail_document,
    registered_document,
)
from controller.registry.making import card_of, sealed_of
from ledger import family_pages, registry_reads
from ledger.database import ReadSession
from ledger.errors import NotFound
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
    origin = registry_reads.origin_of(session, pointer)
    aliases = registry_reads.list_aliases(session, pointer.model)
    signed = registry_reads.signatures_of(session, pointer.model, [origin.seq])
    return position_document(pointer, origin, aliases, signed)


def position_detail(session: ReadSession, pointer: Incumbent) -> dict[str, Json]:
    """The same with its lineage, the gate's evidence, signatures and card. Raises Conflict."""
    sealed = sealed_of(session, pointer)
    origin = registry_reads.origin_of(session, pointer)
    signed = registry_reads.signatures_of(session, pointer.model, [origin.seq])
    return promotion_detail_document(
        position(session, pointer), sealed, signed.get(origin.seq, []), card_of(sealed)
    )
