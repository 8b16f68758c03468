"""Keeps a worker's picture of its host's pool and the ledger's alike: reads, says, sweeps."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from controller.clock import Clock
from controller.steps.capacity import Capacity
from controller.wiring import Service
from controller.worker.leases import is_owner_gone
from controller.worker.recovery import list_running
from ledger import pools, writes
from ledger.errors import Conflict
from ledger.pools import DrivenHold, Want

log = logging.getLogger("arl.worker")

LOOK_EVERY_S: Final = 2.0
TURN_EVERY_S: Final = 0.1
"""How often a worker looks for its turn while others hold what its studies wait for."""
ALONE_EVERY_S: Final = 0.25
"""The same while it knows of no other worker here."""
SAY_AFTER_S: Final = 1.0
"""Waiting that lasts so long is said in the ledger, for people, also where nobody else is."""
SWEEP_EVERY_S: Final = 2.0


class HostPool:
    """Of one worker. Everything it does can be left out: a commit that would take too much is
    refused in any case."""

    def __init__(self, service: Service, capacity: Capacity) -> None:
        self._service = service
        self._capacity = capacity
        self._said: dict[str, Want] = {}
        self._looked_at = float("-inf")
        self._said_at = float("-inf")
        self._swept_at = float("-inf")

    @property
    def _clock(self) -> Clock:
        return self._service.clock

    def look(self) -> None:
        """Before studies are driven: learn what other workers of this host hold and wait for."""
        now = self._clock.monotonic()
        if now - self._looked_at >= self._look_every_s():
            self._looked_at = now
            with self._service.ledger.read() as session:
                self._capacity.see(pools.host_use(session, self._capacity.host))
            self._sweep(now)

    def _look_every_s(self) -> float:
        """Only where something waits does it matter who else does."""
        if not self._capacity.anyone_waits():
            return LOOK_EVERY_S
        return TURN_EVERY_S / 2 if self._capacity.neighbours else ALONE_EVERY_S

    def say(self) -> None:
        """After: tell other workers, and people, what this one's studies wait for."""
        now = self._clock.monotonic()
        if now - self._said_at < TURN_EVERY_S:
            return
        with_others = bool(self._capacity.neighbours)
        wants = {want.study_id: want for want in self._capacity.wants()}
        changed = [
            want
            for want in wants.values()
            if _is_news(want, self._said.get(want.study_id), now, with_others=with_others)
        ]
        if not changed:
            return
        self._said_at = now
        try:
            with self._service.ledger.write() as session:
                gap_s = session.now() - now
                writes.say_wants(session, [_on_clock(want, gap_s) for want in changed])
        except Conflict as error:  # whoever took the study over says it
            log.debug("not said what waits: %s", error)
            return
        self._said.update({want.study_id: want for want in changed})

    def forget(self, study_id: str) -> None:
        self._said.pop(study_id, None)

    def patience_s(self) -> float:
        """How long the worker may wait for news before it looks for its turn."""
        if self._capacity.anyone_waits():
            return TURN_EVERY_S if self._capacity.neighbours else SAY_AFTER_S
        return LOOK_EVERY_S

    def _sweep(self, now: float) -> None:
        """Give back what trials held that nobody drives and that run no more: their worker was
        stopped or killed and none came after it."""
        if not self._capacity.anyone_waits() or now - self._swept_at < SWEEP_EVERY_S:
            return
        self._swept_at = now
        with self._service.ledger.read() as session:
            ledger_now = session.now()
        nobody = [
            one for one in self._capacity.neighbours.driven if self._is_left(one, ledger_now)
        ]
        if not nobody:
            return
        running = list_running(self._service)
        if running is None:
            return  # a target is away: what runs there is not known
        left: dict[tuple[str, int], list[str]] = {}
        for one in nobody:
            if one.hold.trial_id not in running:
                left.setdefault((one.hold.study_id, one.fence), []).append(one.hold.trial_id)
        self._drop(left)

    def _drop(self, left: Mapping[tuple[str, int], list[str]]) -> None:
        for (study_id, fence), trial_ids in left.items():
            with self._service.ledger.write() as session:
                count = writes.drop_abandoned(session, study_id, fence, trial_ids)
            if count:
                log.info("study %s holds nothing here any more: nobody drives it", study_id)
        self._looked_at = float("-inf")

    def _is_left(self, one: DrivenHold, ledger_now: float) -> bool:
        if one.lease_owner is None or (one.lease_expires_at or 0.0) <= ledger_now:
            return True
        return is_owner_gone(one.lease_owner, self._capacity.host)


def _is_news(want: Want, said: Want | None, now: float, *, with_others: bool) -> bool:
    """Whether others would decide otherwise, or people wonder, for not knowing it."""
    was_waiting = said is not None and said.waits_since is not None
    if want.waits_since is None:
        if was_waiting:
            return True
    elif not was_waiting and (with_others or now - want.waits_since >= SAY_AFTER_S):
        return True
    if not with_others:
        return False
    if said is None:
        return True
    is_changed = (want.weight, want.priority) != (said.weight, said.priority)
    return is_changed or want.waits_since != said.waits_since or want.used != said.used


def _on_clock(want: Want, gap_s: float) -> Want:
    """The same on the ledger's clock."""
    if want.waits_since is None:
        return want
    return replace(want, waits_since=want.waits_since + gap_s)
