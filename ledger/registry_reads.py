"""Reads of the model registry: promotions with what was sealed of them, aliases, signatures."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select

from ledger.database import ReadSession
from ledger.entries import CandidatePromoted
from ledger.errors import NotFound
from ledger.hydration import parse_entry
from ledger.records import Incumbent
from ledger.rows import ALIASES, ENTRIES, INCUMBENTS, SIGNATURES, SIGNING_KEYS, incumbent_from


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """What a name of a model means now, or meant once."""

    model: str
    alias: str
    revision: int
    promotion: int | None
    """None: it was taken away."""
    actor: str
    note: str
    created_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    id: str
    public_key: str
    """PEM."""
    actor: str
    created_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionSignature:
    """One signing of a promotion's evidence."""

    model: str
    seq: int
    number: int
    tree: str
    key_id: str
    actor: str
    created_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedPromotion:
    """The study chain's entry by which a candidate became the incumbent, and its place there."""

    chain: str
    seq: int
    previous: str
    """Digest of the entry before it."""
    body: str
    """Exactly what was hashed."""
    digest: str
    at: float
    entry: CandidatePromoted


def get_pointer(session: ReadSession, model: str, seq: int) -> Incumbent:
    """One position of a model's pointer. Raises NotFound."""
    query = select(INCUMBENTS).where(INCUMBENTS.c.model == model, INCUMBENTS.c.seq == seq)
    row = session.connection.execute(query).first()
    if row is None:
        raise NotFound(f"model {model} has no promotion number {seq}: `arl models show {model}`")
    return incumbent_from(row)


def origin_of(session: ReadSession, pointer: Incumbent) -> Incumbent:
    """The promotion that a position goes back to: itself, unless it is a roll back."""
    while pointer.rolled_back_to is not None:
        pointer = get_pointer(session, pointer.model, pointer.rolled_back_to)
    return pointer


def find_sealed(session: ReadSession, pointer: Incumbent) -> SealedPromotion | None:
    """The entry that promoted a position's candidate; None where its study has none."""
    origin = origin_of(session, pointer)
    query = select(ENTRIES).where(
        ENTRIES.c.chain == origin.study_id, ENTRIES.c.kind == CandidatePromoted.kind
    )
    for row in session.connection.execute(query.order_by(ENTRIES.c.seq)):
        body = json.loads(row.body)
        entry = parse_entry(row.kind, body["payload"])
        if not isinstance(entry, CandidatePromoted):
            continue
        if (entry.model, entry.incumbent_seq) == (origin.model, origin.seq):
            return _sealed(session, row, body["at"], entry)
    return None


def _sealed(
    session: ReadSession, row: Any, at: float, entry: CandidatePromoted
) -> SealedPromotion:
    before = select(ENTRIES.c.digest).where(
        ENTRIES.c.chain == row.chain, ENTRIES.c.seq == row.seq - 1
    )
    return SealedPromotion(
        chain=row.chain,
        seq=row.seq,
        previous=session.connection.execute(before).scalar() or "",
        body=row.body,
        digest=row.digest,
        at=at,
        entry=entry,
    )


def latest_alias(session: ReadSession, model: str, alias: str) -> Alias | None:
    """What the alias means now; its promotion is None once it was taken away."""
    query = select(ALIASES).where(ALIASES.c.model == model, ALIASES.c.alias == alias)
    row = session.connection.execute(query.order_by(ALIASES.c.revision.desc()).limit(1)).first()
    return None if row is None else _alias(row)


def list_aliases(session: ReadSession, model: str | None = None) -> list[Alias]:
    """Every alias that names something now, by model and name."""
    newest = select(
        ALIASES.c.model, ALIASES.c.alias, func.max(ALIASES.c.revision).label("revision")
    ).group_by(ALIASES.c.model, ALIASES.c.alias)
    if model is not None:
        newest = newest.where(ALIASES.c.model == model)
    last = newest.subquery()
    query = select(ALIASES).join(
        last,
        (last.c.model == ALIASES.c.model)
        & (last.c.alias == ALIASES.c.alias)
        & (last.c.revision == ALIASES.c.revision),
    )
    query = query.where(ALIASES.c.promotion.is_not(None))
    query = query.order_by(ALIASES.c.model, ALIASES.c.alias)
    return [_alias(row) for row in session.connection.execute(query)]


def alias_history(session: ReadSession, model: str, *, limit: int) -> list[Alias]:
    """Changes of a model's aliases, the newest first."""
    query = select(ALIASES).where(ALIASES.c.model == model)
    query = query.order_by(ALIASES.c.created_at.desc(), ALIASES.c.alias, ALIASES.c.revision.desc())
    return [_alias(row) for row in session.connection.execute(query.limit(limit))]


def list_keys(session: ReadSession) -> list[SigningKey]:
    """Every key that ever was, the newest first."""
    query = select(SIGNING_KEYS).order_by(SIGNING_KEYS.c.created_at.desc(), SIGNING_KEYS.c.id)
    return [
        SigningKey(
            id=row.id, public_key=row.public_key, actor=row.actor, created_at=row.created_at
        )
        for row in session.connection.execute(query)
    ]


def signatures_of(
    session: ReadSession, model: str, seqs: Sequence[int] | None = None
) -> Mapping[int, list[PromotionSignature]]:
    """Signings of a model's promotions by number, the newest first."""
    query = select(SIGNATURES).where(SIGNATURES.c.model == model)
    if seqs is not None:
        query = query.where(SIGNATURES.c.seq.in_(list(seqs)))
    query = query.order_by(SIGNATURES.c.seq, SIGNATURES.c.number.desc())
    found: dict[int, list[PromotionSignature]] = {}
    for row in session.connection.execute(query):
        found.setdefault(row.seq, []).append(_signature(row))
    return found


def unsigned_promotions(session: ReadSession) -> list[Incumbent]:
    """Promotions (no roll backs) without evidence, the oldest first."""
    signed = select(SIGNATURES.c.seq).where(
        SIGNATURES.c.model == INCUMBENTS.c.model, SIGNATURES.c.seq == INCUMBENTS.c.seq
    )
    query = select(INCUMBENTS).where(INCUMBENTS.c.rolled_back_to.is_(None), ~signed.exists())
    query = query.order_by(INCUMBENTS.c.created_at, INCUMBENTS.c.model, INCUMBENTS.c.seq)
    return [incumbent_from(row) for row in session.connection.execute(query)]


def _alias(row: Any) -> Alias:
    return Alias(
        model=row.model,
        alias=row.alias,
        revision=row.revision,
        promotion=row.promotion,
        actor=row.actor,
        note=row.note,
        created_at=row.created_at,
    )


def _signature(row: Any) -> PromotionSignature:
    return PromotionSignature(
        model=row.model,
        seq=row.seq,
        number=row.number,
        tree=row.tree,
        key_id=row.key_id,
        actor=row.actor,
        created_at=row.created_at,
    )
