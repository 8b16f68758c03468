"""The smallest environment: a wrong answer may be tried again, for a smaller reward."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar

from inner_trials.environments.protocol import Call, Turn
from inner_trials.verifiers.protocol import Verifier


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOptions:
    turns: int = field(default=2, metadata={"at_least": 1})
    """Answers in all."""
    discount: float = field(default=0.5, metadata={"above": 0.0, "at_most": 1.0})
    """What a right answer loses with each turn before it."""
    feedback: str = "That is not right. Try again."


class Retry:
    version: ClassVar[str] = "retry/1"
    tools: ClassVar[tuple[dict[str, Any], ...]] = ()

    def __init__(self, options: RetryOptions, verifier: Verifier) -> None:
        self._options, self._verifier = options, verifier

    def check(self, row: Mapping[str, Any]) -> None:
        self._verifier.check(row)

    def start(self, prompt: Any, row: Mapping[str, Any]) -> "RetryEpisode":
        return RetryEpisode(self._options, self._verifier, row)


class RetryEpisode:
    def __init__(self, options: RetryOptions, verifier: Verifier, row: Mapping[str, Any]) -> None:
        self._options, self._verifier, self._row = options, verifier, row
        self._turn = 0

    def answer(self, text: str, calls: Sequence[Call] = ()) -> Turn:
        worth = self._options.discount**self._turn
        self._turn += 1
        reward = worth * self._verifier.verify(text, self._row).reward
        is_over = reward > 0 or self._turn >= self._options.turns
        return Turn(observation=None if is_over else self._options.feedback, reward=reward)

    def __enter__(self) -> "RetryEpisode":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing to end."""
