"""Name to proposer. To add one: write it, name it here, and the contract tests cover it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ledger.errors import InvalidInput, UnknownName
from proposers.grid import Grid
from proposers.protocol import Proposer
from proposers.random_search import RandomSearch
from proposers.search_space import SearchSpace


@dataclass(frozen=True, slots=True)
class Registered:
    build: Callable[[SearchSpace], Proposer]
    """Raises InvalidInput for a space it cannot search."""
    exhausts: bool
    """Whether it ends by itself once every point of a finite space was proposed."""


PROPOSERS: Final[Mapping[str, Registered]] = {
    "grid": Registered(Grid, exhausts=True),
    "random": Registered(RandomSearch, exhausts=True),
}


def build_proposer(
    name: str, search_space: SearchSpace, options: Mapping[str, object] | None = None
) -> Proposer:
    """Raises UnknownName for a name that is not registered, InvalidInput for an option or a
    space that the proposer does not take."""
    registered = PROPOSERS.get(name)
    if registered is None:
        raise UnknownName(f"proposer.name: {name!r} is not known; write one of {known()}")
    if options:
        raise InvalidInput(
            f"proposer.options: {', '.join(sorted(options))}: {name} takes no options; remove them"
        )
    return registered.build(search_space)


def known() -> str:
    return ", ".join(sorted(PROPOSERS))
