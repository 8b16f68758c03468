"""The locked row at the head of each study's chain, and the worker's lease beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, select

from ledger.chain import SERVICE_CHAIN
from ledger.database import WriteSession
from ledger.entries import WorkerClaimed
from ledger.errors import InvalidInput, LedgerUnavailable, NotFound, StaleFence
from ledger.sealing import Head, append_entries
from ledger.statements import Change, Row, Statement, guarded_update
from ledger.tables import Base

_STUDIES: Final = Base.metadata.tables["studies"]
_SERVICE: Final = Base.metadata.tables["service_head"]

# On SQLite the write transaction is the lock; FOR UPDATE is what PostgreSQL needs.
_LOCK: Final = Statement(
    select(
        _STUDIES.c.fence,
        _STUDIES.c.head_seq,
        _STUDIES.c.head_digest,
        _STUDIES.c.lease_owner,
        _STUDIES.c.lease_expires_at,
    )
    .where(_STUDIES.c.id == bindparam("id"))
    .with_for_update()
)
_HEAD: Final = ("head_seq", "head_digest")
_ADVANCE: Final = guarded_update(_STUDIES, *_HEAD, also_key="fence")
_ADVANCE_ACTIVE: Final = guarded_update(_STUDIES, *_HEAD, "active_s", also_key="fence")
_CLAIM: Final = guarded_update(
    _STUDIES, *_HEAD, "fence", "lease_owner", "lease_expires_at", also_key="fence"
)
_RENEW: Final = guarded_update(_STUDIES, "lease_expires_at", also_key="fence")
_RELEASE: Final = guarded_update(_STUDIES, "lease_owner", "lease_expires_at", also_key="fence")
_LOCK_SERVICE: Final = Statement(
    select(_SERVICE.c.seq, _SERVICE.c.digest)
    .where(_SERVICE.c.id == bindparam("id"))
    .with_for_update()
)
_ADVANCE_SERVICE: Final = guarded_update(_SERVICE, "seq", "digest")


@dataclass(frozen=True, slots=True)
class LockedStudy:
    fence: int
    head: Head
    lease_owner: str | None
    lease_expires_at: float | None


def lock_study(session: WriteSession, study_id: str) -> LockedStudy:
    """Lock a study's head row until the transaction ends. Raises NotFound."""
    return _locked(study_id, session.fetch(_LOCK, {"id": study_id}))


def lock_and_fetch(
    session: WriteSession, study_id: str, query: tuple[Statement, Mapping[str, Any]]
) -> tuple[LockedStudy, list[tuple[Any, ...]]]:
    """The same, and what another query finds once it is locked. Raises NotFound."""
    rows, found = session.fetch_each([(_LOCK, {"id": study_id}), query])
    return _locked(study_id, rows), found


def _locked(study_id: str, rows: Sequence[tuple[Any, ...]]) -> LockedStudy:
    if not rows:
        raise NotFound(f"no study has the id {study_id}: `arl studies` lists them")
    fence, seq, digest, owner, expires_at = rows[0]
    return LockedStudy(fence, Head(seq, digest), owner, expires_at)


def advance_study(study_id: str, fence: int, head: Head, active_s: float | None) -> Change:
    """Stores a study's new head, guarded by its fence in SQL as well: it changes one row, or
    another worker has taken the study over."""
    row: dict[str, int | float | str | bytes | None] = {
        "by_id": study_id,
        "by_fence": fence,
        "head_seq": head.seq,
        "head_digest": head.digest,
    }
    if active_s is None:
        return _ADVANCE, [row]
    return _ADVANCE_ACTIVE, [{**row, "active_s": active_s}]


def lock_service(session: WriteSession) -> Head:
    """Lock the service chain's head. A study's head, if needed too, is always locked first."""
    rows = session.fetch(_LOCK_SERVICE, {"id": 1})
    if not rows:
        raise LedgerUnavailable("the service chain's head row is missing: run `arl verify`")
    return Head(*rows[0])


def advance_service(session: WriteSession, head: Head) -> None:
    session.run(_ADVANCE_SERVICE, [{"by_id": 1, "seq": head.seq, "digest": head.digest}])


def claim_study(
    session: WriteSession, study_id: str, owner: str, lease_s: float, *, dead: bool
) -> int | None:
    """Take a study that nobody drives: its lease is free or expired, or the caller knows that
    the owner's process is gone (`dead`). Returns the new fence, or None when it is held.

    Raises:
        NotFound: there is no such study.
    """
    if study_id == SERVICE_CHAIN or not owner:
        raise InvalidInput("owner: a worker needs a name to hold a lease")
    study = lock_study(session, study_id)
    now = session.now()
    expired = study.lease_expires_at is None or study.lease_expires_at <= now
    if study.lease_owner is not None and not expired and not dead:
        return None
    fence = study.fence + 1
    claimed = WorkerClaimed(owner=owner, fence=fence)
    head = append_entries(session, study_id, study.head, [claimed], now)
    session.run(
        _CLAIM,
        [
            {
                "by_id": study_id,
                "by_fence": study.fence,
                "head_seq": head.seq,
                "head_digest": head.digest,
                "fence": fence,
                "lease_owner": owner,
                "lease_expires_at": now + lease_s,
            }
        ],
    )
    return fence


def renew_lease(session: WriteSession, study_id: str, fence: int, lease_s: float) -> None:
    """Hold the study for `lease_s` more from now. Raises StaleFence when it was taken over."""
    row: Row = {
        "by_id": study_id,
        "by_fence": fence,
        "lease_expires_at": session.now() + lease_s,
    }
    if session.run(_RENEW, [row]) != 1:
        raise StaleFence(f"study {study_id}: another worker has taken it over")


def release_lease(session: WriteSession, study_id: str, fence: int) -> bool:
    """Give the study back; False, and nothing happens, when it was taken over meanwhile."""
    row: Row = {
        "by_id": study_id,
        "by_fence": fence,
        "lease_owner": None,
        "lease_expires_at": None,
    }
    return session.run(_RELEASE, [row]) == 1
