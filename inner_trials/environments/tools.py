"""Tools that the model may call, as functions of a Python file that the study brings.

The file lies in the input `environment`, so that it is frozen with the study. Each function has
type hints and a docstring with an `Args:` part, from which its schema is made. An answer without
a call is the last one, and the verifier judges it. The functions run in a process of their own for
each episode; a call that takes too long ends that process, and the model reads so.
"""

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from inner_trials.environments.protocol import Call, Turn
from inner_trials.settings import SettingsError
from inner_trials.verifiers.conversation import Conversation, ConversationError
from inner_trials.verifiers.protocol import Verifier

HOST: Final = Path(__file__).with_name("tool_host.py")
DESCRIBE_S: Final = 120.0
CALLS_AT_ONCE: Final = 8
"""Further calls of one answer are not made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    functions: str = ""
    """Names of functions, with commas between."""
    file: str = "tools.py"
    """Where they are, below the input `environment`."""
    turns: int = field(default=4, metadata={"at_least": 1})
    """Answers in all; one that still calls a tool in the last of them is worth nothing."""
    call_time_s: float = field(default=5.0, metadata={"above": 0.0})
    result_chars: int = field(default=2000, metadata={"at_least": 1})
    """What is longer is cut off."""


class ToolEnvironment:
    def __init__(self, options: ToolOptions, verifier: Verifier, place: Path | None) -> None:
        """`place` is the input `environment`.

        Raises:
            SettingsError: there is no such file or function, or one without a description.
        """
        self._options, self._verifier = options, verifier
        names = [name.strip() for name in options.functions.split(",") if name.strip()]
        if not names:
            raise SettingsError("options.environment_options.functions: name what may be called")
        if place is None:
            raise SettingsError(
                "options.environment_options.file: tools are functions of a file in the input"
                " environment, which the study does not mount"
            )
        file = place / options.file if place.is_dir() else place
        if not file.is_file() or place.resolve() not in (file.resolve(), *file.resolve().parents):
            raise SettingsError(
                f"options.environment_options.file: {options.file!r} is no file of the input"
                " environment"
            )
        self._argv = [sys.executable, "-P", "-B", str(HOST)]
        self._words = [str(file), *names]
        self.tools = self._described(names)
        digest = hashlib.sha256(file.read_bytes())
        digest.update(json.dumps(self.tools, sort_keys=True).encode())
        self.version = f"tools/{digest.hexdigest()[:16]}"

    def _described(self, names: Sequence[str]) -> tuple[dict[str, Any], ...]:
        where = "options.environment_options.functions"
        try:
            done = subprocess.run(
                [*self._argv, "--describe", *self._words],
                capture_output=True,
                timeout=DESCRIBE_S,
                check=False,
            )
            said = json.loads(done.stdout)
        except (subprocess.TimeoutExpired, ValueError):
            raise SettingsError(f"{where}: {self._words[0]} says nothing of them") from None
        if "tools" not in said:
            raise SettingsError(f"{where}: {', '.join(names)}: {said.get('error')}")
        return tuple(said["tools"])

    def check(self, row: Mapping[str, Any]) -> None:
        self._verifier.check(row)

    def start(self, prompt: Any, row: Mapping[str, Any]) -> "ToolEpisode":
        return ToolEpisode(self._argv + self._words, self._options, self._verifier, row)


class ToolEpisode:
    def __init__(
        self, argv: list[str], options: ToolOptions, verifier: Verifier, row: Mapping[str, Any]
    ) -> None:
        self._argv, self._options = argv, options
        self._verifier, self._row = verifier, row
        self._turns = 0
        self._stack = ExitStack()
        self._talk: Conversation | None = None

    def answer(self, text: str, calls: Sequence[Call] = ()) -> Turn:
        self._turns += 1
        if not calls:
            verdict = self._verifier.verify(text, self._row)
            return Turn(observation=None, reward=verdict.reward)
        if self._turns >= self._options.turns:
            return Turn(observation=None, reward=0.0, note="no answer")
        results, failed = [], 0
        for call in calls[:CALLS_AT_ONCE]:
            said, is_failed = self._result(call)
            failed += is_failed
            results.append({"role": "tool", "name": call.name, "content": said})
        return Turn(observation=tuple(results), reward=0.0, failed_calls=failed)

    def _result(self, call: Call) -> tuple[str, bool]:
        """What the model reads, and whether it is an error."""
        try:
            if self._talk is None:
                deadline = time.monotonic() + self._options.call_time_s
                talk = Conversation(self._argv[:-1], self._argv[-1], deadline=deadline)
                self._talk = self._stack.enter_context(talk)
            self._talk.deadline = time.monotonic() + self._options.call_time_s
            said = self._talk.ask({"name": call.name, "arguments": dict(call.arguments)})
        except ConversationError as error:
            self._stop()
            return f"error: {error}", True
        result = said.get("result")
        if isinstance(result, str):
            return result[: self._options.result_chars], False
        return f"error: {said.get('error')}"[: self._options.result_chars], True

    def _stop(self) -> None:
        """The next call starts another process."""
        self._stack.close()
        self._talk = None

    def __enter__(self) -> "ToolEpisode":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()
