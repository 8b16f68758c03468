"""The composition root: builds the ledger, the store, targets and proposers from settings."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from controller.clock import Clock, SystemClock
from controller.jobs import Jobs, unattended
from controller.places import evaluator_target, model_transport, options_of, place_of, used_places
from controller.settings import Settings, read_secret
from controller.spec.plan_section import plan_fault
from controller.spec.space import search_space
from controller.spec.study import StudySpec, TargetSpec
from controller.sweeper import Sweeper, release_words
from controller.witness import WitnessKeeper, check_not_restored
from evaluator.collector import Collected, Refused
from ledger.artifacts import ArtifactStore
from ledger.database import Ledger, open_ledger
from ledger.errors import ArlError, Conflict, TargetUnavailable
from ledger.search import Proposals
from proposers.protocol import Closable, Proposer
from proposers.registry import Setup, build_proposer, read_options
from proposers.search_space import SearchSpace
from targets.protocol import Target
from targets.registry import Place, make_target

log = logging.getLogger("arl.wiring")

END_PATIENCE_S: Final = 15.0
"""How long a killed attempt may take to be gone before its files are left for later."""
END_CHECK_S: Final = 0.05
AWAY_TRIES: Final = 3
AWAY_S: Final = 0.5
"""A target that does not answer is asked again so often, so many seconds apart."""
PROPOSING_THREADS: Final = 8
"""Studies whose slow proposers think at the same time."""


class Cleaner:
    """Deletes what ended attempts left, beside the loop: deleting is slow on a busy disk.

    What a crash leaves undeleted is found again when the study is next claimed.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="arl-cleaner")

    def release(self, target: Target, handle: str) -> None:
        unattended(self._pool, _release, target, handle)

    def run(self, work: Callable[[], None]) -> None:
        """After everything that was asked for so far."""
        unattended(self._pool, work)

    def close(self) -> None:
        """Finish what was asked for."""
        self._pool.shutdown(wait=True)


def _release(target: Target, handle: str) -> None:
    """Delete an attempt's files; one that was just killed may need a moment to be gone."""
    patience_s, tries_left = END_PATIENCE_S, AWAY_TRIES
    while True:
        try:
            target.release(handle)
        except Conflict as error:
            if patience_s <= 0:
                log.warning("attempt %s is not cleaned up yet: %s", handle, error)
                return
            time.sleep(END_CHECK_S)
            patience_s -= END_CHECK_S
        except TargetUnavailable as error:
            tries_left -= 1
            if not tries_left:
                log.warning("attempt %s is not cleaned up yet: %s", handle, error)
                return
            time.sleep(AWAY_S)
        except ArlError as error:
            log.warning("attempt %s is not cleaned up yet: %s", handle, error)
            return
        else:
            return


@dataclass(slots=True, kw_only=True)
class Service:
    """Everything that talks to the world, built once per process."""

    settings: Settings
    ledger: Ledger
    store: ArtifactStore
    clock: Clock
    cleaner: Cleaner = field(default_factory=Cleaner)
    sweeper: Sweeper = field(init=False)
    witness: WitnessKeeper = field(init=False)
    collecting: Jobs[Collected | Refused] = field(init=False)
    proposing: Jobs[Proposals] = field(init=False)
    woken: threading.Event = field(default_factory=threading.Event)
    """Set by `interrupt`, for a worker that has no target to wait for."""
    _proposers: dict[str, Proposer] = field(default_factory=dict)
    _targets: dict[Path, Target] = field(default_factory=dict)

    def __post_init__(self) -> None:
        home = self.settings.home
        self.witness = WitnessKeeper(self.ledger, home)
        self.sweeper = Sweeper(self.ledger, self.store, home, self.cleaner.run)
        self.store.why_gone = lambda digest: release_words(self.ledger, digest)
        self.collecting = Jobs(self.interrupt)
        self.proposing = Jobs(self.interrupt, threads=PROPOSING_THREADS)

    def training_target(self, spec: StudySpec) -> Target:
        """Where a study's trials run. Raises UnknownName, InvalidInput."""
        return self._target(spec.target)

    def evaluating_target(self, spec: StudySpec) -> Target:
        """Where its evaluations run, and preparing. Raises UnknownName, InvalidInput."""
        return self._target(evaluator_target(spec))

    def _target(self, spec: TargetSpec) -> Target:
        place = place_of(spec.name, options_of(spec, self.settings), self.settings, self.store)
        return self._open(spec.name, place)

    def _open(self, name: str, place: Place) -> Target:
        if place.root not in self._targets:
            self._targets[place.root] = make_target(name, place)
        return self._targets[place.root]

    def used_targets(self) -> list[Target]:
        """Those that have run something below this home, or may have."""
        return [self._open(*used) for used in used_places(self.settings, self.store)]

    def interrupt(self) -> None:
        """Wake whoever waits for news of a target. Callable from any thread."""
        self.woken.set()
        for target in list(self._targets.values()):
            target.interrupt()

    def space(self, spec: StudySpec) -> SearchSpace:
        return search_space(spec.space)

    def proposer(self, study_id: str, spec: StudySpec) -> Proposer:
        """The study's proposer, the same object until it is dismissed. Raises InvalidInput."""
        if study_id not in self._proposers:
            setup = Setup(
                space=self.space(spec),
                options=read_options(spec.proposer.name, spec.proposer.options),
                mutable=spec.program.mutable,
                required_calls=spec.program.required_calls,
                read_secret=read_secret,
                transport=model_transport(self.settings),
                is_valid=lambda params: not plan_fault(spec, params),
            )
            self._proposers[study_id] = build_proposer(spec.proposer.name, setup)
        return self._proposers[study_id]

    def dismiss_proposer(self, study_id: str) -> None:
        """Let go of a study's proposer: it is driven elsewhere, or not at all."""
        proposer: object = self._proposers.pop(study_id, None)
        if isinstance(proposer, Closable):
            proposer.close()

    def brief(self, spec: StudySpec) -> str:
        """The text that the study's program.brief was when it was submitted."""
        digest = spec.program.brief
        return "" if digest is None else self.store.read_bytes(digest).decode("utf-8", "replace")

    def close(self) -> None:
        """Let go of connections; attempts go on running."""
        for study_id in list(self._proposers):
            self.dismiss_proposer(study_id)
        self.proposing.close()
        self.collecting.close()
        self.cleaner.close()
        for target in self._targets.values():
            target.close()
        self.witness.close()
        self.ledger.close()


def build_service(settings: Settings, *, create: bool) -> Service:
    """Open everything below `settings.home`.

    Raises:
        LedgerUnavailable, LedgerTooNew, LedgerTooOld: see ledger.database.open_ledger.
        LedgerRestored: an older copy of the ledger was put in its place.
    """
    ledger = open_ledger(settings.ledger_url, create=create)
    try:
        check_not_restored(ledger, settings)
    except BaseException:
        ledger.close()
        raise
    return _service(settings, ledger)


def open_service_anyway(settings: Settings) -> Service:
    """The same over a ledger that may have been put back to an older state."""
    return _service(settings, open_ledger(settings.ledger_url, create=False))


def _service(settings: Settings, ledger: Ledger) -> Service:
    ledger.let_go_within(settings.lease_s)
    return Service(
        settings=settings,
        ledger=ledger,
        store=ArtifactStore(settings.home / "artifacts"),
        clock=SystemClock(),
    )
