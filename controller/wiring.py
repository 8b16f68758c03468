"""The composition root: builds the ledger, the store, targets and proposers from settings."""

from dataclasses import dataclass, field
from pathlib import Path

from targets.local_process import LocalProcessTarget

from controller.clock import Clock, SystemClock
from controller.settings import Settings
from controller.spec.space import search_space
from controller.spec.study import StudySpec
from ledger.artifacts import ArtifactStore
from ledger.database import Ledger, open_ledger
from ledger.errors import UnknownName
from proposers.protocol import Proposer
from proposers.registry import build_proposer
from proposers.search_space import SearchSpace
from targets.protocol import Target


@dataclass(slots=True, kw_only=True)
class Service:
    """Everything that talks to the world, built once per process."""

    settings: Settings
    ledger: Ledger
    store: ArtifactStore
    clock: Clock
    _targets: dict[str, Target] = field(default_factory=dict)

    def target(self, name: str) -> Target:
        """The target of that name; `auto` is the local process, where nothing better exists."""
        known = "local" if name == "auto" else name
        if known != "local":
            raise UnknownName(f"target.name: {name!r}: known targets are auto, local")
        if known not in self._targets:
            self._targets[known] = LocalProcessTarget(
                self.settings.home / "local", self.store, host=self.settings.host
            )
        return self._targets[known]

    def space(self, spec: StudySpec) -> SearchSpace:
        return search_space(spec.space)

    def proposer(self, spec: StudySpec) -> Proposer:
        return build_proposer(spec.proposer.name, self.space(spec), spec.proposer.options)

    def close(self) -> None:
        """Let go of connections; attempts go on running."""
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
