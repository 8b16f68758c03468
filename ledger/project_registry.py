"""The row changes of the service chain's entries about models: pointers, aliases, signatures."""

from typing import Final

from sqlalchemy import bindparam, select

from ledger.database import WriteSession
from ledger.errors import Conflict, NotFound
from ledger.projection import printable
from ledger.service_entries import (
    AliasSet,
    IncumbentSet,
    PromotionNoted,
    PromotionSigned,
    RegistryEntry,
    SigningKeyMade,
)
from ledger.statements import Row, Statement, insert_row
from ledger.tables import Base

_TABLES: Final = Base.metadata.tables
_INCUMBENTS: Final = _TABLES["incumbents"]
_ALIASES: Final = _TABLES["model_aliases"]
_KEYS: Final = _TABLES["signing_keys"]
_SIGNATURES: Final = _TABLES["promotion_signatures"]

_INSERT_INCUMBENT: Final = insert_row(_INCUMBENTS)
_LATEST_INCUMBENT: Final = Statement(
    select(_INCUMBENTS.c.seq, _INCUMBENTS.c.candidate_id, _INCUMBENTS.c.study_id)
    .where(_INCUMBENTS.c.model == bindparam("model"))
    .order_by(_INCUMBENTS.c.seq.desc())
)
_POINTER: Final = Statement(
    select(_INCUMBENTS.c.candidate_id, _INCUMBENTS.c.family_id).where(
        _INCUMBENTS.c.model == bindparam("model"), _INCUMBENTS.c.seq == bindparam("seq")
    )
)
_INSERT_ALIAS: Final = insert_row(_ALIASES)
_LATEST_ALIAS: Final = Statement(
    select(_ALIASES.c.revision, _ALIASES.c.promotion)
    .where(_ALIASES.c.model == bindparam("model"), _ALIASES.c.alias == bindparam("alias"))
    .order_by(_ALIASES.c.revision.desc())
)
_INSERT_KEY: Final = insert_row(_KEYS)
_KEY: Final = Statement(select(_KEYS.c.id).where(_KEYS.c.id == bindparam("key_id")))
_INSERT_SIGNATURE: Final = insert_row(_SIGNATURES)
_SIGNED: Final = Statement(
    select(_SIGNATURES.c.number)
    .where(_SIGNATURES.c.model == bindparam("model"), _SIGNATURES.c.seq == bindparam("seq"))
    .order_by(_SIGNATURES.c.number.desc())
)


def project_registry(session: WriteSession, entry: RegistryEntry, at: float) -> None:
    """Change the rows that the entry is about. Raises Conflict, NotFound."""
    if isinstance(entry, IncumbentSet):
        _insert_incumbent(session, entry, at)
    elif isinstance(entry, AliasSet):
        _insert_alias(session, entry, at)
    elif isinstance(entry, PromotionNoted):
        _pointer(session, entry.model, entry.seq)  # the chain alone has what was said of it
    elif isinstance(entry, SigningKeyMade):
        _insert_key(session, entry, at)
    else:
        _insert_signature(session, entry, at)


def _insert_incumbent(session: WriteSession, entry: IncumbentSet, at: float) -> None:
    """Compare and set: the new pointer is the next in its model's history, or Conflict."""
    latest = session.fetch(_LATEST_INCUMBENT, {"model": entry.model})
    present = latest[0][0] if latest else 0
    if entry.seq != present + 1:
        holder = f"candidate {latest[0][1]} of study {latest[0][2]}" if latest else "none"
        raise Conflict(
            f"model {entry.model}: its incumbent is number {present} ({holder}) now, so "
            f"{entry.candidate_id} may not become number {entry.seq}"
        )
    if entry.rolled_back_to is not None:
        earlier = _pointer(session, entry.model, entry.rolled_back_to)
        if earlier != (entry.candidate_id, entry.family_id):
            raise Conflict(
                f"model {entry.model}: number {entry.rolled_back_to} is candidate {earlier[0]}, "
                f"not {entry.candidate_id}"
            )
    row: Row = {
        "model": entry.model,
        "seq": entry.seq,
        "candidate_id": entry.candidate_id,
        "study_id": entry.study_id,
        "family_id": entry.family_id,
        "comparison": entry.comparison,
        "approver": entry.approver,
        "note": printable(entry.note),
        "created_at": at,
        "rolled_back_to": entry.rolled_back_to,
    }
    session.run(_INSERT_INCUMBENT, [row])


def _pointer(session: WriteSession, model: str, seq: int) -> tuple[str, str | None]:
    found = session.fetch(_POINTER, {"model": model, "seq": seq})
    if not found:
        raise NotFound(f"model {model} has no promotion number {seq}")
    return found[0][0], found[0][1]


def _insert_alias(session: WriteSession, entry: AliasSet, at: float) -> None:
    """Compare and set, as the pointer."""
    latest = session.fetch(_LATEST_ALIAS, {"model": entry.model, "alias": entry.alias})
    revision, promotion = (latest[0][0], latest[0][1]) if latest else (0, None)
    if entry.revision != revision + 1:
        named = "nothing" if promotion is None else f"number {promotion}"
        raise Conflict(
            f"model {entry.model}: alias {entry.alias} names {named} now: it was changed "
            "meanwhile; look again, and ask again if you still want to"
        )
    if entry.promotion is not None:
        _pointer(session, entry.model, entry.promotion)
    row: Row = {
        "model": entry.model,
        "alias": entry.alias,
        "revision": entry.revision,
        "promotion": entry.promotion,
        "actor": entry.actor,
        "note": printable(entry.note),
        "created_at": at,
    }
    session.run(_INSERT_ALIAS, [row])


def _insert_key(session: WriteSession, entry: SigningKeyMade, at: float) -> None:
    if session.fetch(_KEY, {"key_id": entry.key_id}):
        raise Conflict(f"signing key {entry.key_id} is known already")
    row: Row = {
        "id": entry.key_id,
        "public_key": entry.public_key,
        "actor": entry.actor,
        "created_at": at,
    }
    session.run(_INSERT_KEY, [row])


def _insert_signature(session: WriteSession, entry: PromotionSigned, at: float) -> None:
    _pointer(session, entry.model, entry.seq)
    if not session.fetch(_KEY, {"key_id": entry.key_id}):
        raise NotFound(f"no signing key has the id {entry.key_id}")
    latest = session.fetch(_SIGNED, {"model": entry.model, "seq": entry.seq})
    present = latest[0][0] if latest else 0
    if entry.number != present + 1:
        raise Conflict(
            f"{entry.model}:{entry.seq} was signed {present} times, so the next is "
            f"{present + 1}, not {entry.number}"
        )
    row: Row = {
        "model": entry.model,
        "seq": entry.seq,
        "number": entry.number,
        "tree": entry.tree,
        "key_id": entry.key_id,
        "actor": entry.actor,
        "created_at": at,
    }
    session.run(_INSERT_SIGNATURE, [row])
