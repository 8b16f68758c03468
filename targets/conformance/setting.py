"""What a run of the checks is given, and what an attempt of it came to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ledger.records import IntermediateValue, Json
from targets.protocol import Exit, NetworkRequest, Target


class Shelf(Protocol):
    """What a check needs of ledger.artifacts.ArtifactStore, the target's own store."""

    def put_tree(self, source: Path) -> str:
        """Keep a copy of a directory; its digest."""
        ...

    def checkout(self, tree: str) -> Path: ...


class Cancelled(Exception):
    """The whole run is being ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A target to be checked, and how to reach it."""

    open_target: Callable[[], Target]
    """Another object for the same place with every call."""
    shelf: Shelf
    work: Path
    """A private directory outside of the target's, for what a program must not find."""
    owner: str
    """The same for every run on this place, so that a run finds what a killed one left."""
    python: str
    """How `{python}` is called where attempts run."""
    image: str | None = None
    options: Mapping[str, Json] = field(default_factory=dict)
    roots: tuple[Path, ...] = ()
    """Where the target keeps files on this machine: nothing of an attempt may stay there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """One attempt, followed to its end."""

    handle: str
    exit: Exit
    values: tuple[IntermediateValue, ...] = ()
    rejected: int = 0
    requests: tuple[NetworkRequest, ...] = ()
    told_at: float = 0.0
    """When its end was told: wall clock of this machine."""
