"""What the keeper is to its attempts."""

from typing import Protocol

from targets.docker_container.calls import Answer, EngineCalls
from targets.layout import Fact


class Surroundings(Protocol):
    """Its methods may be called from any thread."""

    attempts: str
    """The directory of attempt directories."""
    boot: str
    calls: EngineCalls
    socket: str
    """The path of the engine's socket."""

    def find_info(self) -> Answer:
        """What the engine says of itself. Raises Trouble while it is away."""
        ...

    def find_identity(self) -> Fact:
        """Of the engine, as far as this machine can tell: another one means that the engine was
        restarted."""
        ...

    def on_trouble(self, what: str) -> None:
        """A call of the engine was in vain."""
        ...

    def on_end(self, attempt: str, containers: list[str]) -> None:
        """The attempt's end is recorded; these containers, by id, are to be deleted."""
        ...
