"""A study's own environment: a program that is asked one JSON line a turn.

The first line it reads is `{"prompt": ..., "row": {...}}`, each further one `{"answer": "..."}`.
To each answer (not to the first line) it writes `{"observation": "...", "reward": 0}`, with null
for an observation when the episode is over. One process an episode. What it does not answer in
time, or not as agreed, ends the episode with the reward it had.
"""

import hashlib
import math
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

from inner_trials.environments.protocol import Call, Turn
from inner_trials.settings import SettingsError
from inner_trials.verifiers.conversation import Conversation, ConversationError
from inner_trials.verifiers.isolation import PATH

MAX_OBSERVATION_CHARS = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOptions:
    command: str = ""
    """What to execute, with spaces between; `{environment}` is the input of that name."""
    turn_time_s: float = field(default=10.0, metadata={"above": 0.0})


class ProgramEnvironment:
    tools: ClassVar[tuple[dict[str, Any], ...]] = ()

    def __init__(self, options: ProgramOptions, place: Path | None) -> None:
        """`place` is the input `environment`; its files are part of the version.

        Raises:
            SettingsError: there is no command, or it names an input that is not mounted.
        """
        if not options.command.split():
            raise SettingsError("options.environment_options.command: write what to execute")
        if "{environment}" in options.command and place is None:
            raise SettingsError(
                "options.environment_options.command: the study mounts no input environment"
            )
        self._options = options
        self._argv = [
            word.replace("{environment}", str(place)) for word in options.command.split()
        ]
        _check_program(self._argv[0])
        digest = hashlib.sha256(options.command.encode())
        for path in sorted(place.rglob("*")) if place is not None else ():
            if path.is_file():
                digest.update(path.relative_to(place or path).as_posix().encode())
                digest.update(path.read_bytes())
        self.version = f"program/{digest.hexdigest()[:16]}"

    def check(self, row: Mapping[str, Any]) -> None:
        """Any row will do: what it means is for the program to say."""

    def start(self, prompt: Any, row: Mapping[str, Any]) -> "ProgramEpisode":
        return ProgramEpisode(self._argv, self._options, {"prompt": prompt, "row": dict(row)})


class ProgramEpisode:
    def __init__(self, argv: list[str], options: ProgramOptions, first: Mapping[str, Any]) -> None:
        self._turn_time_s = options.turn_time_s
        self._reward = 0.0
        self._talk = Conversation(argv[:-1], argv[-1], deadline=self._deadline())
        self._first: Mapping[str, Any] | None = first

    def answer(self, text: str, calls: Sequence[Call] = ()) -> Turn:
        try:
            self._talk.deadline = self._deadline()
            if self._first is not None:
                self._talk.tell(self._first)
                self._first = None
            return self._turn(self._talk.ask({"answer": text}))
        except ConversationError as error:
            return Turn(observation=None, reward=self._reward, note=str(error))

    def _turn(self, said: Mapping[str, Any]) -> Turn:
        observation, reward = said.get("observation"), said.get("reward", self._reward)
        if not _is_finite(reward) or not isinstance(observation, str | None):
            return Turn(observation=None, reward=self._reward, note="not as agreed")
        self._reward = float(reward)
        if observation is not None and len(observation) > MAX_OBSERVATION_CHARS:
            return Turn(observation=None, reward=self._reward, note="too much output")
        return Turn(observation=observation, reward=self._reward)

    def _deadline(self) -> float:
        return time.monotonic() + self._turn_time_s

    def __enter__(self) -> "ProgramEpisode":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._talk.__exit__(kind, error, trace)


def _check_program(word: str) -> None:
    """Raises SettingsError: there is nothing to execute, as `isolation.start` looks for it."""
    place = os.path.join("/", word) if "/" in word else word
    if shutil.which(place, path=PATH) is None:
        raise SettingsError(
            f"options.environment_options.command: {word!r} is no program that can be executed;"
            f" write its whole path, or one of {PATH}"
        )


def _is_finite(value: object) -> bool:
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # a whole number that no float is near to
        return False
