"""The composition root: builds the ledger, the store, targets and proposers from settings."""

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from controller.clock import Clock, SystemClock
from controller.jobs import Jobs
from controller.settings import Settings
from controller.spec.space import search_space
from controller.spec.study import StudySpec
from evaluator.collector import Collected, Refused
from ledger.artifacts import ArtifactStore
from ledger.database import Ledger, open_ledger
from ledger.errors import ArlError, Conflict
from proposers.protocol import Proposer
from proposers.registry import build_proposer
from proposers.search_space import SearchSpace
from targets.protocol import Target
from targets.registry import TARGETS, make_target

log = logging.getLogger("arl.wiring")

END_PATIENCE_S: Final = 15.0
"""How long a killed attempt may take to be gone before its files are left for later."""
END_CHECK_S: Final = 0.05
AUTO: Final = "local"
"""What a study gets that names no target."""


class Cleaner:
    """Deletes what ended attempts left, beside the loop: deleting is slow on a busy disk.

    What a crash leaves undeleted is found again when the study is next claimed.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="arl-cleaner")

    def release(self, target: Target, handle: str) -> None:
        self._pool.submit(_release, target, handle)

    def close(self) -> None:
        """Finish what was asked for."""
        self._pool.shutdown(wait=True)


def _release(target: Target, handle: str) -> None:
    """Delete an attempt's files; one that was just killed may need a moment to be gone."""
    patience_s = END_PATIENCE_S
    while True:
        try:
            target.release(handle)
        except Conflict as error:
            if patience_s <= 0:
                log.warning("attempt %s is not cleaned up yet: %s", handle, error)
                return
            time.sleep(END_CHECK_S)
            patience_s -= END_CHECK_S
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
    collecting: Jobs[Collected | Refused] = field(init=False)
    _targets: dict[str, Target] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.collecting = Jobs(self.interrupt)

    def target(self, name: str) -> Target:
        """The target of that name; `auto` is the local process. Raises UnknownName."""
        known = AUTO if name == "auto" else name
        if known not in self._targets:
            root = self.settings.home / known
            self._targets[known] = make_target(known, root, self.store, host=self.settings.host)
        return self._targets[known]

    def used_targets(self) -> list[Target]:
        """Those that have run something below this home, or may have, the default one first."""
        others = [name for name in sorted(TARGETS) if (self.settings.home / name).is_dir()]
        return [self.target(name) for name in dict.fromkeys([AUTO, *others])]

    def interrupt(self) -> None:
        """Wake whoever waits for news of a target. Callable from any thread."""
        for target in list(self._targets.values()):
            target.interrupt()

    def space(self, spec: StudySpec) -> SearchSpace:
        return search_space(spec.space)

    def proposer(self, spec: StudySpec) -> Proposer:
        return build_proposer(spec.proposer.name, self.space(spec), spec.proposer.options)

    def close(self) -> None:
        """Let go of connections; attempts go on running."""
        self.collecting.close()
        self.cleaner.close()
        for target in self._targets.values():
            target.close()
        self.ledger.close()


def build_service(settings: Settings, *, create: bool) -> Service:
    """Open everything below `settings.home`.

    Raises:
        LedgerUnavailable, LedgerTooNew, LedgerTooOld: see ledger.database.open_ledger.
    """
    home = Path(settings.home)
    ledger = open_ledger(settings.ledger_url, create=create)
    return Service(
        settings=settings,
        ledger=ledger,
        store=ArtifactStore(home / "artifacts"),
        clock=SystemClock(),
    )
