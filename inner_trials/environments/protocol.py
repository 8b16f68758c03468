"""What an environment is: it starts an episode for a prompt and answers each turn of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What an environment says to one answer."""

    observation: str | None
    """What the model reads next; None once the episode is over."""
    reward: float
    """So far; that of the last turn is the episode's."""
    note: str = ""
    """Why it is over before its time: `time-out`, `ended` …"""


class Episode(Protocol):
    """One conversation. Never raises for anything an answer holds."""

    def answer(self, text: str) -> Turn: ...

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

    def check(self, row: Mapping[str, Any]) -> None:
        """Raises BadReferenceError: no episode can be made of this row."""
        ...

    def start(self, prompt: Any, row: Mapping[str, Any]) -> Episode: ...
