"""What an environment is: it starts an episode for a prompt and answers each turn of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Of a tool, as the model wrote it."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What an environment says to one answer."""

    observation: str | tuple[dict[str, str], ...] | None
    """What the model reads next: a text, as the user's; messages of tools; None once the episode
    is over."""
    reward: float
    """So far; that of the last turn is the episode's."""
    note: str = ""
    """Why it is over before its time: `time-out`, `ended` …"""
    failed_calls: int = 0
    """Calls of tools that ended in an error or took too long."""


class Episode(Protocol):
    """One conversation. Never raises for anything an answer holds."""

    def answer(self, text: str, calls: Sequence[Call] = ()) -> Turn:
        """`calls` are those of the tools that the environment has, if it has any."""
        ...

    def __enter__(self) -> "Episode": ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Environment(Protocol):
    @property
    def version(self) -> str:
        """Like retry/1; kept with every completion."""
        ...

    @property
    def tools(self) -> tuple[dict[str, Any], ...]:
        """JSON schemas of what may be called, written into every prompt; mostly none."""
        ...

    def check(self, row: Mapping[str, Any]) -> None:
        """Raises BadReferenceError: no episode can be made of this row."""
        ...

    def start(self, prompt: Any, row: Mapping[str, Any]) -> Episode: ...
