"""The machine, its workers and what runs, as a document."""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from sqlalchemy import make_url

from controller.disk_space import Disk
from controller.documents.sharing import held_document, want_document
from controller.documents.times import iso
from controller.wiring import Service
from ledger import pools
from ledger.attempt_reads import leased_studies, live_attempts
from ledger.database import ReadSession
from ledger.listing import count_studies
from ledger.records import Json, Study


def system_document(service: Service, session: ReadSession) -> dict[str, Json]:
    """Everything of it that a reader may know: no path, no address, no secret."""
    settings = service.settings
    disks = settings.disks()
    return {
        "version": version("arl"),
        "now": iso(session.now()),
        "ledger": _ledger(service),
        "pool": {
            "host": settings.host,
            "cpus": settings.cpus,
            "memory_bytes": settings.memory_bytes,
            "gpu_ids": list(settings.gpu_ids),
        },
        "held": held_document(pools.all_holds(session)),
        "waiting": [
            want_document(want)
            for want in pools.all_wants(session)
            if want.waits_since is not None
        ],
        "disk": _disk(disks[0]),
        "ledger_disk": _disk(disks[1]) if len(disks) > 1 else None,
        "workers": _workers(session, settings.lease_s),
        "running": [
            {
                "study": found.study_id,
                "host": found.host,
                "target": found.target,
                "state": str(found.state),
                "count": found.count,
            }
            for found in live_attempts(session)
        ],
        "targets": [
            {"name": t.name, "is_sandbox": t.is_sandbox, "is_shared": t.is_shared}
            for t in service.used_targets()
        ],
        "studies": {str(state): count for state, count in count_studies(session).items()},
    }


def _disk(disk: Disk) -> dict[str, Json]:
    return {
        "total_bytes": disk.total_bytes,
        "free_bytes": disk.free_bytes,
        "min_free_bytes": disk.min_free_bytes,
        "is_low": disk.is_low,
    }


def _ledger(service: Service) -> dict[str, Json]:
    url = make_url(service.ledger.address)
    size: Json = None
    if url.get_backend_name() == "sqlite" and url.database:
        size = Path(url.database).stat().st_size
    return {"id": service.ledger.id, "backend": url.get_backend_name(), "size_bytes": size}


def _workers(session: ReadSession, lease_s: float) -> list[Json]:
    """Those that hold a lease or were heard of lately, by name; one that fell silent stays a while
    as gone."""
    now, heard = session.now(), pools.heard_of_workers(session)
    held: dict[str, list[Study]] = {}
    for study in leased_studies(session):
        held.setdefault(study.lease_owner or "", []).append(study)
    known = [owner for owner, at in heard.items() if now - at < pools.KNOWN_LEASES * lease_s]
    return [
        _worker(owner, held.get(owner, []), heard.get(owner), now, lease_s)
        for owner in sorted({*held, *known})
    ]


def _worker(
    owner: str, studies: Sequence[Study], seen_at: float | None, now: float, lease_s: float
) -> dict[str, Json]:
    leases = [_lease(study, now) for study in studies]
    is_heard = seen_at is not None and now - seen_at < lease_s
    drives = any(lease["is_valid"] for lease in leases)
    return {
        "owner": owner,
        "state": "driving" if drives else ("idle" if is_heard else "gone"),
        "seen_at": iso(seen_at),
        "leases": [*leases],
    }


def _lease(study: Study, now: float) -> dict[str, Json]:
    expires = study.lease_expires_at
    return {
        "study": study.id,
        "name": study.name,
        "state": str(study.state),
        "fence": study.fence,
        "expires_at": iso(expires),
        "is_valid": expires is not None and expires > now,
    }
