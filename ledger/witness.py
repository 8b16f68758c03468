"""A small file outside the database that says how many entries the ledger held, so that an older
copy of it in its place is noticed before anything is written to it."""

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import func, make_url, select

from ledger.chain import SERVICE_CHAIN
from ledger.database import ReadSession
from ledger.digests import canonical_json
from ledger.errors import Conflict
from ledger.heads import RecordedHead, current_heads, read_heads
from ledger.rows import ENTRIES, STUDIES
from ledger.tables import Base

_SERVICE = Base.metadata.tables["service_head"]


@dataclass(frozen=True, slots=True)
class Witness:
    entries: int
    """Of all chains together; they only ever grow."""
    at: float
    """When they were counted, on the database's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What the ledger held once and does not hold now."""

    held: int
    """Entries it holds."""
    witnessed: int
    """Entries it held."""
    at: float
    """When it was seen to hold them; 0 where only heads of chains were recorded."""
    heads: tuple[RecordedHead, ...]
    """Recorded heads beyond the present end of their chain, the last of each chain."""


def witness_path(home: Path, ledger_id: str) -> Path:
    """Beside the artifact store, one for each ledger that was used with it."""
    return home / f"witness-{ledger_id}.json"


def check_alone(home: Path, ledger_id: str, address: str) -> None:
    """Raises Conflict where another ledger uses this home, or did: what of the store it names is
    not known, so that nothing may be taken away."""
    own = {witness_path(home, ledger_id)}
    database = make_url(address).database if address.startswith("sqlite") else None
    if database is not None:
        own.add(Path(database).resolve())
    found = [*home.glob("witness-*.json"), *home.glob("ledger.db")]
    others = sorted(path for path in found if not own & {path, path.resolve()})
    if others:
        raise Conflict(
            f"{home} is another ledger's home, too, says {others[0].name}: what it still needs is "
            "not known here, and no stored file is taken away. Give each ledger an ARL_HOME of "
            "its own; or, if that ledger is gone for good, move the file away"
        )


def count_entries(session: ReadSession) -> int:
    run = session.connection.execute
    studies = run(select(func.sum(STUDIES.c.head_seq))).scalar() or 0
    service = run(select(_SERVICE.c.seq).where(_SERVICE.c.id == 1)).scalar() or 0
    return int(studies) + int(service)


def read_witness(path: Path) -> Witness | None:
    """None where there is none, or where a power cut left it empty."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Witness(int(found["entries"]), float(found["at"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_witness(session: ReadSession, path: Path, *, accepted: bool = False) -> None:
    """Whole or not at all, and without waiting for the disk: one that is a little old notices a
    little less. Only `accepted` makes the count smaller."""
    found = Witness(count_entries(session), session.now())
    known = read_witness(path)
    if known is not None and known.entries >= found.entries and not accepted:
        return
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        text = canonical_json({"entries": found.entries, "at": found.at})
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def find_missing(
    session: ReadSession, witness: Witness | None, heads: list[RecordedHead]
) -> Missing | None:
    """What an older copy lacks; None where the ledger holds all that was seen. Both must have been
    read before the session began: others write meanwhile."""
    held = count_entries(session)
    now = {head.chain: head.seq for head in current_heads(session)}
    last = {head.chain: head for head in heads}
    beyond = tuple(head for chain, head in last.items() if head.seq > now.get(chain, 0))
    is_short = witness is not None and witness.entries > held
    if not beyond and not is_short:
        return None
    lacking = sum(head.seq - now.get(head.chain, 0) for head in beyond)
    seen = witness.entries if witness is not None and is_short else held + lacking
    at = witness.at if witness is not None and is_short else 0.0
    return Missing(held=held, witnessed=seen, at=at, heads=beyond)


def forget_heads(session: ReadSession, path: Path) -> None:
    """Take recorded heads that the ledger does not reach out of the file, into one beside it; of
    the service chain those too in whose place something else is: that the copy was accepted."""
    now = {head.chain: head.seq for head in current_heads(session)}
    kept: list[str] = []
    gone: list[str] = []
    for line, head in zip(_lines(path), read_heads(path), strict=True):
        is_there = head.seq <= now.get(head.chain, 0)
        if is_there and head.chain == SERVICE_CHAIN:
            is_there = _digest_at(session, head) == head.digest
        (kept if is_there else gone).append(line)
    if not gone:
        return
    with path.with_name("heads-lost.jsonl").open("a", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in gone))
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    beside.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
    os.replace(beside, path)


def _digest_at(session: ReadSession, head: RecordedHead) -> str | None:
    query = select(ENTRIES.c.digest).where(
        ENTRIES.c.chain == head.chain, ENTRIES.c.seq == head.seq
    )
    return session.connection.execute(query).scalar()


def _lines(path: Path) -> list[str]:
    return path.read_text(errors="replace").split("\n")[:-1] if path.exists() else []
