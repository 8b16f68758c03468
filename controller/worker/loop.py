"""The worker's loop: claims studies, drives each, and waits for news of the world."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from controller.clock import JUMP_S
from controller.decisions.slots import ResourcePool
from controller.steps.capacity import Capacity
from controller.wiring import Service
from controller.worker.claims import Claims
from controller.worker.driver import StudyDriver
from controller.worker.host_pool import HostPool
from controller.worker.leases import owner_name, try_claim
from controller.worker.notifier import LAST_S, Notifier
from controller.worker.recovery import Recovery, reap_ended, recover
from controller.worker.telling import about_study
from controller.worker.waiting import wait_for_any
from ledger import reads, writes
from ledger.errors import DiskFull, LedgerUnavailable, StaleFence
from ledger.records import Study
from targets.protocol import Target

log = logging.getLogger("arl.worker")

LONGEST_WAIT_S: Final = 1.0
LEDGER_RETRY_S: Final = 1.0
TARGET_RETRY_S: Final = 1.0
BROKEN_RETRY_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What a front end may hook into; called in the loop's thread, so they must be quick."""

    on_recovery: Callable[[Recovery], None] = lambda _: None
    on_tick: Callable[[StudyDriver], None] = lambda _: None


class Worker:
    """One process that drives studies, one lease each."""

    def __init__(self, service: Service, callbacks: Callbacks | None = None) -> None:
        settings = service.settings
        self._service = service
        self._callbacks = callbacks or Callbacks()
        self._owner = owner_name(settings.host)
        self._capacity = Capacity(
            ResourcePool(
                cpus=settings.cpus,
                memory_bytes=settings.memory_bytes,
                gpu_ids=settings.gpu_ids,
            ),
            service.clock,
            host=settings.host,
            owner=self._owner,
        )
        self._pool = HostPool(service, self._capacity)
        self._claims = Claims(service.ledger, settings, self._owner, shares=True)
        self._drivers: dict[str, StudyDriver] = {}
        self._stopping = False
        self._notifier: Notifier | None = None
        self._last_s = 0.0
        """How long `run` may wait at its end for what webhooks are being told."""
        self._claim_at = 0.0
        self._renew_at = 0.0
        self._ahead = service.clock.ahead()
        """Of the wall clock, when leases were renewed last: it may have been set since."""
        self._broken_until: dict[str, float] = {}
        self._news: set[str] = set()

    @property
    def drivers(self) -> dict[str, StudyDriver]:
        return self._drivers

    def stop(self, *, last_s: float = 0.0) -> None:
        """Make `run` return soon; callable from a signal handler. Attempts go on running.

        `last_s`: how long webhooks may be told, before it does, of what has happened.
        """
        self._stopping, self._last_s = True, last_s
        if self._notifier is not None and not last_s:
            self._notifier.hurry()
        self._service.interrupt()

    def run(self, only: Sequence[str] | None = None) -> None:
        """Drive studies until `stop`, or until every study of `only` is settled.

        With `only=None` it serves whatever becomes claimable, for ever.
        """
        reap_ended(self._service)
        self._claims.shares = only is None
        self._notifier = notifier = Notifier(self._service, self._owner)
        notifier.start(only_if_needed=only is not None)
        try:
            while not self._stopping:
                if not self._turn(only):
                    self._last_s = LAST_S
                    return
        finally:
            self._let_go()
            notifier.end(self._last_s)

    def _turn(self, only: Sequence[str] | None) -> bool:
        """One round over all studies; False when there is nothing left to do."""
        try:
            self._renew()
            self._claim(only)
            self._pool.look()
            self._service.sweeper.turn()
            for study_id in list(self._drivers):
                with self._contained(study_id):
                    self._tick(study_id)
            self._pool.say()
            if only is not None and not self._drivers and self._are_settled(only):
                return False
        except (LedgerUnavailable, DiskFull) as error:
            log.warning("the ledger does not answer: %s", error)
            time.sleep(LEDGER_RETRY_S)
            return True
        is_due = self._capacity.needs_turn()
        if not is_due and not any(d.has_launches for d in self._drivers.values()):
            self._wait()
        return True

    def _tick(self, study_id: str) -> None:
        driver = self._drivers[study_id]
        driver.tick(self._news)
        self._callbacks.on_tick(driver)
        if driver.is_settled:
            self._release(study_id)

    @contextmanager
    def _contained(self, study_id: str) -> Iterator[None]:
        """Whatever happens to one study drops that study and none of the others."""
        try:
            with about_study(study_id):
                yield
        except StaleFence:
            log.warning("study %s is driven by another worker now", study_id)
            self._drop(study_id)
        except (LedgerUnavailable, DiskFull) as error:
            log.warning("study %s: the ledger does not answer: %s", study_id, error)
            self._drop(study_id)
            time.sleep(LEDGER_RETRY_S)
        except Exception:
            # The one broad except: a bug in one study must not take the others down with it.
            log.exception("study %s: unexpected error; it is read again in a while", study_id)
            self._drop(study_id)
            self._broken_until[study_id] = self._now() + BROKEN_RETRY_S

    # --- waiting -----------------------------------------------------------------------------

    def _wait(self) -> None:
        waited: dict[int, tuple[Target, list[str]]] = {}
        for driver in self._drivers.values():
            for target in driver.targets:
                _, handles = waited.setdefault(id(target), (target, []))
                handles += driver.handles(target)
        now = self._now()
        longest = min(LONGEST_WAIT_S, max(0.0, self._claim_at - now))
        longest = min(longest, self._pool.patience_s())
        timeout = min((d.wait_s(longest) for d in self._drivers.values()), default=longest)
        if not waited:
            self._news = set()
            self._service.woken.wait(timeout)
            self._service.woken.clear()
            return
        self._news, away = wait_for_any(list(waited.values()), timeout)
        if away:
            time.sleep(TARGET_RETRY_S)

    def _now(self) -> float:
        return self._service.clock.monotonic()

    # --- leases ------------------------------------------------------------------------------

    def _claim(self, only: Sequence[str] | None) -> None:
        now = self._now()
        if now < self._claim_at:
            return
        found = self._claims.look(now, self._drivers, only)
        self._claim_at = now + found.next_look_s
        for study in found.claim:
            if self._broken_until.get(study.id, 0.0) <= now:
                with self._contained(study.id):
                    self._claim_one(study)
        movable = [s for s, driver in self._drivers.items() if driver.is_movable]
        for study_id in movable[: found.hand_over]:
            with self._contained(study_id):
                self._release(study_id)

    def _claim_one(self, study: Study) -> None:
        settings = self._service.settings
        claimed_at, ahead = self._now(), self._service.clock.ahead()
        fence = try_claim(
            self._service.ledger, study, self._owner, settings.host, settings.lease_s
        )
        if fence is None:
            return
        driver = StudyDriver(self._service, study.id, fence, self._capacity)
        driver.lease_until, driver.clock_ahead = claimed_at + settings.lease_s, ahead
        self._drivers[study.id] = driver
        self._callbacks.on_recovery(recover(driver, self._service, was_held=study.lease_owner))

    def _renew(self) -> None:
        now, ahead = self._now(), self._service.clock.ahead()
        if now < self._renew_at and abs(ahead - self._ahead) <= JUMP_S:
            return
        self._ahead = ahead
        lease_s = self._service.settings.lease_s
        fences = {study_id: driver.fence for study_id, driver in self._drivers.items()}
        stale = self._claims.renew(fences)
        for study_id in fences:
            if study_id in stale:
                self._drop(study_id)
            else:
                driver = self._drivers[study_id]
                driver.lease_until, driver.clock_ahead = now + lease_s, ahead
        self._renew_at = now + lease_s / 3

    def _are_settled(self, only: Sequence[str]) -> bool:
        """Whether nothing named in `only` can be claimed any more."""
        with self._service.ledger.read() as session:
            return not any(study.id in only for study in reads.workable_studies(session))

    def _drop(self, study_id: str) -> None:
        """Forget a study without writing: it is someone else's, or the ledger is away."""
        self._drivers.pop(study_id, None)
        self._service.dismiss_proposer(study_id)
        self._capacity.leave(study_id)
        self._pool.forget(study_id)

    def _release(self, study_id: str) -> None:
        """Give a study's lease back, once everything is committed."""
        driver = self._drivers[study_id]
        driver.commit()
        with self._service.ledger.write() as session:
            writes.release_lease(session, study_id, driver.fence)
            writes.forget_want(session, study_id, self._owner)
        self._drop(study_id)

    def _let_go(self) -> None:
        for study_id in list(self._drivers):
            try:
                self._release(study_id)
            except (LedgerUnavailable, DiskFull, StaleFence) as error:
                log.warning("study %s: lease not given back: %s", study_id, error)
        try:
            self._claims.leave()
        except (LedgerUnavailable, DiskFull) as error:
            log.warning("the ledger does not hear that this worker leaves: %s", error)
