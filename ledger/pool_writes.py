"""Takes and gives back what trials hold of a host. No chain is touched."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, delete, insert, select, text, update

from ledger.database import WriteSession
from ledger.errors import Conflict, StaleFence
from ledger.pools import HOLDS, MICRO, WANTS, Hold, Want, holds_from, query_holds
from ledger.statements import Statement, insert_row
from ledger.study_heads import renew_lease
from ledger.tables import Base

_GPUS: Final = Base.metadata.tables["pool_gpus"]
_STUDIES: Final = Base.metadata.tables["studies"]
_WORKERS: Final = Base.metadata.tables["workers"]
_LOCK: Final = Statement(
    text(
        "SELECT pg_advisory_xact_lock(hashtextextended(current_database() || '/' || "
        "current_schema() || '/' || CAST(:host AS text), 0))"
    )
)
_INSERT_HOLD: Final = insert_row(HOLDS)
_INSERT_GPU: Final = insert_row(_GPUS)
_DELETE_HOLD: Final = Statement(delete(HOLDS).where(HOLDS.c.trial_id == bindparam("trial_id")))
_DELETE_GPUS: Final = Statement(delete(_GPUS).where(_GPUS.c.trial_id == bindparam("trial_id")))


class HostFull(Conflict):
    """Another worker of the same host took what this one meant to take."""

    code = "host_full"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSize:
    """What the operator gives to trials on a host."""

    micro_cpus: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    """A hold that is to be written; `must_fit`: False for what runs already, whatever fits."""

    hold: Hold
    must_fit: bool = True


def change_holds(
    session: WriteSession,
    size: HostSize,
    *,
    given_back: Collection[str],
    taken: Sequence[Taking],
) -> None:
    """Give back and take, with what the studies' own entries say, in one transaction: the sums
    of a host stay within its size, and none of its GPUs is held twice, at every commit.

    Raises:
        HostFull: another worker was faster; nothing of the transaction may stay.
    """
    gone = [{"trial_id": trial_id} for trial_id in given_back]
    gone += [{"trial_id": one.hold.trial_id} for one in taken]
    if gone:
        session.run_each([(_DELETE_GPUS, gone), (_DELETE_HOLD, gone)])
    if not taken:
        return
    host = taken[0].hold.host
    held = _lock(session, host)
    for one in taken:
        _check(one, held, size)
        held.append(one.hold)
    now = session.now()
    session.run(_INSERT_HOLD, [_hold_row(one.hold, now) for one in taken])
    gpus = [
        {"host": host, "gpu_id": gpu, "trial_id": one.hold.trial_id}
        for one in taken
        for gpu in one.hold.gpu_ids
    ]
    if gpus:
        session.run(_INSERT_GPU, gpus)


def _lock(session: WriteSession, host: str) -> list[Hold]:
    """What is held of the host. Whoever takes of it waits until the transaction ends. Always
    taken last. SQLite has one writer anyway."""
    holds = query_holds(host)
    if session.dialect.name == "postgresql":
        return holds_from(session.fetch_each([(_LOCK, {"host": host}), holds])[1])
    return holds_from(session.fetch(*holds))


def _check(one: Taking, held: Sequence[Hold], size: HostSize) -> None:
    new = one.hold
    taken = {gpu for hold in held for gpu in hold.gpu_ids}
    cpus = sum(hold.micro_cpus for hold in held) + new.micro_cpus
    memory = sum(hold.memory_bytes for hold in held) + new.memory_bytes
    too_much = (new.micro_cpus and cpus > size.micro_cpus) or (
        new.memory_bytes and memory > size.memory_bytes
    )
    twice = taken & set(new.gpu_ids)
    if twice or (too_much and one.must_fit):
        what = f"gpu {sorted(twice)[0]}" if twice else f"{cpus / MICRO:g} cpus, {memory} bytes"
        raise HostFull(
            f"trial {new.trial_id}: host {new.host} has no room for it any more: {what} would "
            f"be held of {size.micro_cpus / MICRO:g} cpus, {size.memory_bytes} bytes"
        )


def _hold_row(hold: Hold, now: float) -> dict[str, int | float | str | bytes | None]:
    return {
        "trial_id": hold.trial_id,
        "study_id": hold.study_id,
        "host": hold.host,
        "micro_cpus": hold.micro_cpus,
        "memory_bytes": hold.memory_bytes,
        "gpu_ids": json.dumps(list(hold.gpu_ids)),
        "since": hold.since or now,
    }


def drop_abandoned(
    session: WriteSession, study_id: str, fence: int, trial_ids: Sequence[str]
) -> int:
    """Delete holds of a study that nobody has claimed since `fence`; how many there were."""
    still = select(_STUDIES.c.id).where(_STUDIES.c.id == study_id, _STUDIES.c.fence == fence)
    if session.connection.execute(still.with_for_update()).first() is None:
        return 0
    session.connection.execute(delete(_GPUS).where(_GPUS.c.trial_id.in_(trial_ids)))
    gone = session.connection.execute(delete(HOLDS).where(HOLDS.c.trial_id.in_(trial_ids)))
    return gone.rowcount


def say_wants(session: WriteSession, wants: Sequence[Want]) -> None:
    """Replace what was said before of those that their worker still drives."""
    owners = select(_STUDIES.c.id, _STUDIES.c.lease_owner).where(
        _STUDIES.c.id.in_([want.study_id for want in wants])
    )
    driven = {tuple(row) for row in session.connection.execute(owners)}
    for want in wants:
        if (want.study_id, want.owner) not in driven:
            continue
        values = {column.name: getattr(want, column.name) for column in WANTS.columns}
        told = update(WANTS).where(WANTS.c.study_id == want.study_id).values(values)
        if session.connection.execute(told).rowcount == 0:
            session.connection.execute(insert(WANTS).values(values))


def forget_want(session: WriteSession, study_id: str, owner: str) -> None:
    """Its worker lets go of the study."""
    session.connection.execute(
        delete(WANTS).where(WANTS.c.study_id == study_id, WANTS.c.owner == owner)
    )


def see_worker(session: WriteSession, owner: str, host: str, forget_s: float) -> None:
    """Note that a worker which takes any study lives; forget those not heard of for so long."""
    now = session.now()
    session.connection.execute(delete(_WORKERS).where(_WORKERS.c.seen_at < now - forget_s))
    seen = update(_WORKERS).where(_WORKERS.c.owner == owner).values(seen_at=now)
    if session.connection.execute(seen).rowcount == 0:
        session.connection.execute(insert(_WORKERS).values(owner=owner, host=host, seen_at=now))


def forget_worker(session: WriteSession, owner: str) -> None:
    session.connection.execute(delete(_WORKERS).where(_WORKERS.c.owner == owner))


def renew_leases(session: WriteSession, fences: Mapping[str, int], lease_s: float) -> set[str]:
    """Hold the studies for `lease_s` more from now, in one transaction; those that another
    worker has taken over, which stay theirs."""
    stale = set()
    for study_id in sorted(fences):
        try:
            renew_lease(session, study_id, fences[study_id], lease_s)
        except StaleFence:
            stale.add(study_id)
    return stale
