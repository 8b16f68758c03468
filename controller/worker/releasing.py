"""Lets go, study by study, of what retention does not keep; a study that is driven sees to it."""

from collections.abc import Sequence
from dataclasses import dataclass

from controller.decisions.retention import LetGo
from controller.spec.retention import Policy
from controller.steps.loading import load_saved, load_view
from controller.steps.retain import BY_ITSELF, let_go, release_entry
from controller.steps.view import StudyView
from controller.wiring import Service
from controller.worker.leases import describe_holder, owner_name, try_claim
from ledger import reads, writes
from ledger.database import ReadSession
from ledger.errors import InvalidInput
from ledger.records import ArtifactRole


@dataclass(frozen=True, slots=True)
class Released:
    """What went, or would go, of one study."""

    study_id: str
    policy: Policy
    found: Sequence[LetGo]

    def keys(self) -> list[tuple[str, ArtifactRole, str]]:
        return [(one.saved.attempt_id, one.saved.role, one.saved.digest) for one in self.found]


@dataclass(frozen=True, slots=True)
class Skipped:
    study_id: str
    why: str


def find_released(
    service: Service, study_ids: Sequence[str], wanted: Policy | None
) -> tuple[list[Released], list[Skipped]]:
    """What would go; writes nothing."""
    found: list[Released] = []
    skipped: list[Skipped] = []
    with service.ledger.read() as session:
        for study_id in study_ids:
            try:
                one = _decide(session, study_id, wanted)
            except InvalidInput as error:  # another ARL's study file
                skipped.append(Skipped(study_id, str(error)))
                continue
            if one is not None and one.found:
                found.append(one)
    return found, skipped


def release(
    service: Service, found: Sequence[Released], wanted: Policy | None, actor: str
) -> tuple[list[Released], list[Skipped]]:
    """Decide again under each study's lease, and record it. Raises LedgerUnavailable, DiskFull."""
    done: list[Released] = []
    skipped: list[Skipped] = []
    for one in found:
        outcome = _release(service, one.study_id, wanted, actor)
        if isinstance(outcome, Skipped):
            skipped.append(outcome)
        elif outcome is not None:
            done.append(outcome)
    return done, skipped


def _decide(session: ReadSession, study_id: str, wanted: Policy | None) -> Released | None:
    view = load_view(session, study_id)
    policy = _policy(view, wanted)
    if policy is None:
        return None
    if wanted is not None:
        load_saved(session, view, wanted)
    return Released(study_id, policy, let_go(session, view, policy))


def _policy(view: StudyView, wanted: Policy | None) -> Policy | None:
    """The operator's word, else the study file's."""
    if wanted is not None:
        return wanted
    return None if view.spec.retention is None else view.spec.retention.policy


def _release(
    service: Service, study_id: str, wanted: Policy | None, actor: str
) -> Released | Skipped | None:
    settings, ledger = service.settings, service.ledger
    with ledger.read() as session:
        study = reads.get_study(session, study_id)
    owner = owner_name(settings.host)
    fence = try_claim(ledger, study, owner, settings.host, settings.lease_s)
    if fence is None:
        return Skipped(study_id, f"{describe_holder(study)} drives it and lets go by itself")
    with ledger.read() as session:
        decided = _decide(session, study_id, wanted)
    with ledger.write() as session:
        if decided is not None and decided.found:
            by = BY_ITSELF if wanted is None else actor
            entries = [release_entry(one, decided.policy, by) for one in decided.found]
            writes.record(session, study_id, fence, entries)
        writes.release_lease(session, study_id, fence)
    return decided
