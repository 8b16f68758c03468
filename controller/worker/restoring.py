"""Goes on with an older copy of the ledger, and records what it lacks."""

from controller.settings import Settings
from controller.wiring import Service, open_service_anyway
from controller.witness import missing_from
from ledger import writes
from ledger.attempt_reads import find_attempt
from ledger.errors import Conflict
from ledger.service_entries import RestoreAccepted
from ledger.states import ATTEMPT_TERMINAL
from ledger.witness import Missing, forget_heads, witness_path, write_witness
from targets.protocol import Found, Target


def accept_restore(settings: Settings, note: str, actor: str) -> tuple[Missing, int]:
    """What is given up, and how many attempts that only the lost entries knew were ended.

    Raises:
        Conflict: nothing is missing.
        TargetUnavailable: what runs there and is not known any more cannot be ended yet.
    """
    service = open_service_anyway(settings)
    try:
        found = missing_from(service.ledger, settings)
        if found is None:
            raise Conflict(
                f"{service.ledger.where} holds all that it ever held: there is nothing to accept"
            )
        ended = _end_unknown(service)
        with service.ledger.write() as session:
            writes.append_service(session, [_entry(found, note, actor)])
        with service.ledger.read() as session:
            forget_heads(session, settings.heads_path)
            path = witness_path(settings.home, service.ledger.id)
            write_witness(session, path, accepted=True)
        return found, ended
    finally:
        service.close()


def _entry(found: Missing, note: str, actor: str) -> RestoreAccepted:
    return RestoreAccepted(
        held=found.held,
        witnessed=found.witnessed,
        lost=found.witnessed - found.held,
        heads=tuple(
            {"chain": head.chain, "seq": head.seq, "digest": head.digest} for head in found.heads
        ),
        actor=actor,
        note=note,
    )


def _end_unknown(service: Service) -> int:
    """End what the lost entries started. A trial that is proposed again has the name that another
    one had, and would find what that one left."""
    unknown = [
        (target, found)
        for target in service.used_targets()
        for found in target.list_owned(service.ledger.id)
        if not _is_live(service, found)
    ]
    for target, found in unknown:
        _end(service, target, found)
    return len(unknown)


def _is_live(service: Service, found: Found) -> bool:
    with service.ledger.read() as session:
        attempt = find_attempt(session, found.name.removeprefix("arl-"))
    return attempt is not None and attempt.state not in ATTEMPT_TERMINAL


def _end(service: Service, target: Target, found: Found) -> None:
    target.kill(found.handle)
    service.cleaner.release(target, found.handle)
