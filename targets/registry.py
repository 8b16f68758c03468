"""The targets a study may name."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ledger.errors import UnknownName
from targets.bubblewrap import BubblewrapTarget
from targets.local_process import LocalProcessTarget
from targets.protocol import Target
from targets.workspace import Store

TARGETS: Final[Mapping[str, Callable[[Path, Store, str], Target]]] = {
    "bubblewrap": lambda root, store, host: BubblewrapTarget(root, store, host=host),
    "local": lambda root, store, host: LocalProcessTarget(root, store, host=host),
}


def make_target(name: str, root: Path, store: Store, *, host: str) -> Target:
    """The target called `name`, keeping its attempts below `root`. Raises UnknownName."""
    try:
        make = TARGETS[name]
    except KeyError:
        raise UnknownName(
            f"target.name {name!r} is not known: write one of {', '.join(sorted(TARGETS))}"
        ) from None
    return make(root, store, host)
