"""A worker's claims on studies: which it takes, keeps, and hands over to other workers."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controller.decisions.claiming import Free, how_many_to_hand_over, studies_to_claim
from controller.decisions.slots import ResourcePool, never_fits
from controller.settings import Settings
from controller.spec.errors import StudyRefused
from controller.spec.loading import parse_study
from controller.steps.study_share import request_of
from controller.worker.leases import is_owner_gone
from ledger import pools, reads, writes
from ledger.database import Ledger
from ledger.records import Study

log = logging.getLogger("arl.worker")

CLAIM_EVERY_S: Final = 2.0
SOON_S: Final = 0.02
"""After a lease has run out on the database's clock."""
SHARED: Final = ("http", "outside", "ray")
"""Targets whose trials run on other machines than their worker's."""
PATIENCE_S: Final = 5.0
"""A study that the others leave alone for so long is taken beyond one's fair part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimable:
    """What there is to claim, hand over and wait for."""

    claim: Sequence[Study]
    hand_over: int
    """How many of its own studies this worker should give back."""
    next_look_s: float


@dataclass(slots=True)
class Claims:
    ledger: Ledger
    settings: Settings
    owner: str
    shares: bool
    """Whether it takes any study, beside others that do; else it is there for those named."""
    _free_since: dict[str, float] = field(default_factory=dict)

    def look(
        self, now: float, driven: Mapping[str, object], only: Sequence[str] | None
    ) -> Claimable:
        """Raises LedgerUnavailable."""
        lease_s = self.settings.lease_s
        with self.ledger.read() as session:
            found = [
                study
                for study in reads.workable_studies(session)
                if only is None or study.id in only
            ]
            ledger_now = session.now()
            seen = pools.seen_workers(session, lease_s) if self.shares else []
        theirs = [study for study in found if study.id not in driven]
        free = [study for study in theirs if self._is_free(study, ledger_now)]
        self._free_since = {s.id: self._free_since.get(s.id, now) for s in free}
        peers = self._peers(seen)
        claimed = studies_to_claim(
            [self._free(study, now) for study in free],
            driven=len(driven),
            studies=len(found),
            workers=len(peers) + 1,
            patience_s=PATIENCE_S,
        )
        by_id = {study.id: study for study in free}
        expiries = [s.lease_expires_at - ledger_now for s in theirs if s.lease_expires_at]
        soonest = min((left for left in expiries if left > 0), default=CLAIM_EVERY_S)
        return Claimable(
            claim=[by_id[study_id] for study_id in claimed],
            hand_over=self._surplus(peers, found, len(driven)),
            next_look_s=min(CLAIM_EVERY_S, soonest + SOON_S),
        )

    def _is_free(self, study: Study, ledger_now: float) -> bool:
        owner, expires_at = study.lease_owner, study.lease_expires_at
        if owner is None or owner == self.owner or expires_at is None or expires_at <= ledger_now:
            return True
        return is_owner_gone(owner, self.settings.host)

    def _free(self, study: Study, now: float) -> Free:
        if not self.shares:
            return Free(study_id=study.id, free_for_s=PATIENCE_S)
        priority = study.spec.get("priority")
        return Free(
            study_id=study.id,
            priority=priority if isinstance(priority, int) else 0,
            created_at=study.created_at,
            free_for_s=now - self._free_since[study.id],
            fits=self._fits(study),
        )

    def _fits(self, study: Study) -> bool:
        """Whether this machine has what one of its trials needs, if it needs a machine of ours."""
        try:
            spec = parse_study(study.spec)
        except StudyRefused:
            return True  # of another ARL: driving it says what is wrong
        machine = ResourcePool(
            cpus=self.settings.cpus,
            memory_bytes=self.settings.memory_bytes,
            gpu_ids=self.settings.gpu_ids,
        )
        return spec.target.name in SHARED or never_fits(machine, request_of(spec)) is None

    def _peers(self, seen: Sequence[str]) -> list[str]:
        host = self.settings.host
        return [one for one in seen if one != self.owner and not is_owner_gone(one, host)]

    def _surplus(self, peers: Sequence[str], found: Sequence[Study], driven: int) -> int:
        """Only to workers of this host: what runs here can be collected nowhere else."""
        here = [peer for peer in peers if peer.rsplit("/", 2)[0] == self.settings.host]
        if not self.shares or len(here) != len(peers) or not here:
            return 0
        others = dict.fromkeys(here, 0)
        for study in found:
            if study.lease_owner in others:
                others[study.lease_owner] += 1
        return how_many_to_hand_over(driven=driven, others=others, studies=len(found))

    def renew(self, fences: Mapping[str, int]) -> set[str]:
        """Keep what is driven, in one transaction; those that another worker drives by now."""
        if not fences and not self.shares:
            return set()
        lease_s = self.settings.lease_s
        with self.ledger.write() as session:
            if self.shares:
                forget_s = pools.KNOWN_LEASES * lease_s
                writes.see_worker(session, self.owner, self.settings.host, forget_s)
            return writes.renew_leases(session, fences, lease_s)

    def leave(self) -> None:
        """This worker serves no more."""
        if self.shares:
            with self.ledger.write() as session:
                writes.forget_worker(session, self.owner)
