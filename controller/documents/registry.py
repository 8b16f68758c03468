"""The model registry as documents: models with aliases, positions of a pointer, evidence."""

from collections.abc import Mapping, Sequence

from controller.documents.candidates import incumbent_document
from controller.documents.promotions import model_document
from controller.documents.times import iso
from ledger.family_pages import ModelSummary
from ledger.promotion_notes import Note
from ledger.records import Incumbent, Json
from ledger.registry_reads import Alias, PromotionSignature, SealedPromotion

Signatures = Mapping[int, Sequence[PromotionSignature]]


def alias_document(alias: Alias) -> dict[str, Json]:
    return {
        "alias": alias.alias,
        "promotion": alias.promotion,
        "actor": alias.actor,
        "note": alias.note,
        "at": iso(alias.created_at),
    }


def signature_document(signature: PromotionSignature) -> dict[str, Json]:
    return {
        "number": signature.number,
        "key": signature.key_id,
        "tree": signature.tree,
        "actor": signature.actor,
        "at": iso(signature.created_at),
    }


def registered_document(summary: ModelSummary, aliases: Sequence[Alias]) -> dict[str, Json]:
    """A model as a row of the list of models."""
    named: list[Json] = [alias_document(a) for a in aliases if a.model == summary.model]
    return {**model_document(summary), "aliases": named}


def note_document(note: Note) -> dict[str, Json]:
    return {"note": note.entry.note, "actor": note.entry.actor, "at": iso(note.at)}


def position_document(
    pointer: Incumbent,
    origin: Incumbent,
    aliases: Sequence[Alias],
    signatures: Signatures,
    notes: Sequence[Note],
) -> dict[str, Json]:
    """One position of a model's pointer, with the aliases that name it, who signed it and what
    was written of it since. `origin` is the promotion that it goes back to."""
    signed = signatures.get(origin.seq)
    names: list[Json] = [a.alias for a in aliases if a.promotion == pointer.seq]
    return {
        **incumbent_document(pointer),
        "aliases": names,
        "signature": signature_document(signed[0]) if signed else None,
        "notes": [note_document(note) for note in notes],
    }


def promotion_detail_document(
    position: Mapping[str, Json],
    sealed: SealedPromotion,
    signatures: Sequence[PromotionSignature],
    card: str,
) -> dict[str, Json]:
    """A position with everything that its promotion was sealed with."""
    entry = sealed.entry
    return {
        **position,
        "artifact": entry.artifact_digest,
        "previous": entry.previous_id,
        "evidence": dict(entry.evidence),
        "lineage": dict(entry.lineage),
        "entry": {"chain": sealed.chain, "seq": sealed.seq, "digest": sealed.digest},
        "signatures": [signature_document(signature) for signature in signatures],
        "card": card,
    }
