"""What each host's trials hold, who waits for it, and which workers serve the ledger."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, select
from sqlalchemy.sql import Select

from ledger.database import ReadSession
from ledger.statements import Statement
from ledger.tables import Base

MICRO: Final = 1_000_000
KNOWN_LEASES: Final = 10
"""So many leases long a worker that fell silent is still known."""
HOLDS: Final = Base.metadata.tables["pool_holds"]
WANTS: Final = Base.metadata.tables["pool_wants"]
_STUDIES: Final = Base.metadata.tables["studies"]
_WORKERS: Final = Base.metadata.tables["workers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """What one trial holds of a host until it ends."""

    trial_id: str
    study_id: str
    host: str
    micro_cpus: int
    memory_bytes: int
    gpu_ids: tuple[str, ...]
    since: float = 0.0
    """On the database's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """A study's place among those that want a host, as its worker last said."""

    study_id: str
    host: str
    owner: str
    weight: float
    priority: int
    used: float
    """Seconds of the whole machine that its ended trials held."""
    expected_s: float
    waits_since: float | None
    micro_cpus: int
    memory_bytes: int
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrivenHold:
    """A hold, and who drives its study, if anybody does."""

    hold: Hold
    lease_owner: str | None
    lease_expires_at: float | None
    fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUse:
    """Everything that is known of a host's pool at one moment."""

    now: float
    holds: Sequence[DrivenHold]
    wants: Sequence[Want]
    """Of studies whose worker said so itself under a lease that lasts."""


_HOLDS_OF_HOST: Final = Statement(
    select(
        HOLDS.c.trial_id,
        HOLDS.c.study_id,
        HOLDS.c.host,
        HOLDS.c.micro_cpus,
        HOLDS.c.memory_bytes,
        HOLDS.c.gpu_ids,
        HOLDS.c.since,
        _STUDIES.c.lease_owner,
        _STUDIES.c.lease_expires_at,
        _STUDIES.c.fence,
    )
    .join(_STUDIES, _STUDIES.c.id == HOLDS.c.study_id)
    .where(HOLDS.c.host == bindparam("host"))
    .order_by(HOLDS.c.since, HOLDS.c.trial_id)
)
_VALID_WANTS: Final = (
    select(WANTS)
    .join(_STUDIES, _STUDIES.c.id == WANTS.c.study_id)
    .where(_STUDIES.c.lease_owner == WANTS.c.owner)
)
_WANTS_OF_HOST: Final = Statement(
    _VALID_WANTS.where(
        WANTS.c.host == bindparam("host"), _STUDIES.c.lease_expires_at > bindparam("now")
    ).order_by(WANTS.c.study_id)
)


def host_use(session: ReadSession, host: str) -> HostUse:
    now = session.now()
    return HostUse(
        now=now,
        holds=[_driven(row) for row in session.fetch(_HOLDS_OF_HOST, {"host": host})],
        wants=[Want(**_named(row)) for row in session.fetch(_WANTS_OF_HOST, _at(host, now))],
    )


def holds_of_study(session: ReadSession, study_id: str) -> list[Hold]:
    """Wherever they are."""
    query = _hold_columns().where(HOLDS.c.study_id == study_id)
    return [hold_from(row) for row in session.connection.execute(query)]


def query_holds(host: str) -> tuple[Statement, Mapping[str, Any]]:
    """What is held of a host; `holds_from` reads its rows."""
    return _HOLDS_OF_HOST, {"host": host}


def holds_of_host(session: ReadSession, host: str) -> list[Hold]:
    return holds_from(session.fetch(*query_holds(host)))


def holds_from(rows: Sequence[tuple[Any, ...]]) -> list[Hold]:
    return [_driven(row).hold for row in rows]


def all_holds(session: ReadSession) -> list[Hold]:
    query = _hold_columns().order_by(HOLDS.c.host, HOLDS.c.since, HOLDS.c.trial_id)
    return [hold_from(row) for row in session.connection.execute(query)]


def all_wants(session: ReadSession) -> list[Want]:
    """Of studies whose worker said so under a lease that lasts."""
    query = _VALID_WANTS.where(_STUDIES.c.lease_expires_at > session.now())
    return [Want(**row._mapping) for row in session.connection.execute(query)]


def find_want(session: ReadSession, study_id: str) -> Want | None:
    """What was last said of the study, by whichever worker."""
    row = session.connection.execute(select(WANTS).where(WANTS.c.study_id == study_id)).first()
    return None if row is None else Want(**row._mapping)


def heard_of_workers(session: ReadSession) -> dict[str, float]:
    """Every worker that is known to take any study, and when it was heard of last."""
    query = select(_WORKERS.c.owner, _WORKERS.c.seen_at).order_by(_WORKERS.c.owner)
    return {row.owner: row.seen_at for row in session.connection.execute(query)}


def seen_workers(session: ReadSession, within_s: float) -> list[str]:
    """Workers that take any study with work and were heard of so lately."""
    query = select(_WORKERS.c.owner).where(_WORKERS.c.seen_at > session.now() - within_s)
    return list(session.connection.execute(query.order_by(_WORKERS.c.owner)).scalars())


def hold_from(row: Any) -> Hold:
    """Of a row that starts with a hold's columns."""
    trial_id, study_id, host, micro_cpus, memory_bytes, gpu_ids, since = row[:7]
    return Hold(
        trial_id=trial_id,
        study_id=study_id,
        host=host,
        micro_cpus=micro_cpus,
        memory_bytes=memory_bytes,
        gpu_ids=tuple(json.loads(gpu_ids)),
        since=since,
    )


def _driven(row: Any) -> DrivenHold:
    return DrivenHold(
        hold=hold_from(row), lease_owner=row[7], lease_expires_at=row[8], fence=row[9]
    )


def _hold_columns() -> Select[Any]:
    return select(
        HOLDS.c.trial_id,
        HOLDS.c.study_id,
        HOLDS.c.host,
        HOLDS.c.micro_cpus,
        HOLDS.c.memory_bytes,
        HOLDS.c.gpu_ids,
        HOLDS.c.since,
    )


def _named(row: Sequence[Any]) -> dict[str, Any]:
    return dict(zip([column.name for column in WANTS.columns], row, strict=True))


def _at(host: str, now: float) -> dict[str, Any]:
    return {"host": host, "now": now}
