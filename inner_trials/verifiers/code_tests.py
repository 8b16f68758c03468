"""Unit tests of code: a model's program judged by what it returns, from another process.

A row has `tests`, a list of `{"call": "f", "args": [1, 2], "expected": 3}` or of `{"stdin": "1",
"stdout": "2"}`; or `test`, Python code with asserts or a `check(candidate)`, and `entry_point`.
The program runs isolated and only ever sees arguments. What is expected, the comparison and the
verdict are elsewhere, so printing, exiting, patching the library or `__eq__` change nothing.
"""

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from inner_trials.verifiers.code_wire import MAX_OUTPUT_CHARS, decoded, encoded
from inner_trials.verifiers.conversation import Conversation, ConversationError
from inner_trials.verifiers.isolation import Isolation, IsolationError, launcher
from inner_trials.verifiers.protocol import (
    RIGHT,
    BadReferenceError,
    Verdict,
    malformed,
)

MAX_CODE_CHARS: Final = 64 * 1024
MIB: Final = 1024 * 1024

_OPENING: Final = re.compile(r"```(?:python|py)?[ \t]*")
_CLOSING: Final = re.compile(r"```[ \t]*")
_HERE: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeTests:
    version: ClassVar[str] = "code/1"

    wall_time_s: float = field(default=5.0, metadata={"above": 0.0})
    """For all tests of one completion."""
    memory_mib: int = field(default=256, metadata={"at_least": 64})
    isolation: Isolation = "bubblewrap"
    partial: bool = False
    """Reward the share of `tests` that pass instead of all or nothing."""

    def check(self, row: Mapping[str, Any]) -> None:
        try:
            launcher(self.isolation)
        except IsolationError as error:
            raise BadReferenceError(
                f"{error}; where the whole trial is sandboxed (target bubblewrap or docker)"
                " write isolation: process in verifier_options"
            ) from None
        _check_row(row)

    def verify(self, completion: str, row: Mapping[str, Any]) -> Verdict:
        code = find_code(completion)
        if code is None:
            return malformed("no code, or more than one block of it")
        deadline = time.monotonic() + self.wall_time_s
        if "test" in row:
            results = [self._own_tests(code, row, deadline)]
        else:
            results = self._tests(code, row["tests"], deadline)
        failed = [result for result in results if result != "passed"]
        if not failed:
            return RIGHT
        share = 1.0 - len(failed) / len(results) if self.partial else 0.0
        return Verdict(reward=share, well_formed=True, reason=failed[0])

    def _tests(self, code: str, tests: Sequence[Mapping[str, Any]], deadline: float) -> list[str]:
        results = []
        calls = [test for test in tests if "call" in test]
        for test in tests:
            if "call" not in test:
                results.append(self._printed(code, test, deadline))
        if calls:
            results += self._called(code, calls, deadline)
        return results

    def _called(self, code: str, calls: Sequence[Mapping[str, Any]], deadline: float) -> list[str]:
        results: list[str] = []
        try:
            with self._candidate(deadline) as candidate:
                loaded = candidate.ask(self._first(code))
                if "error" in loaded:
                    return [str(loaded["error"])] * len(calls)
                for test in calls:
                    args, named = list(test.get("args", [])), dict(test.get("kwargs", {}))
                    call = [test["call"], encoded(args), encoded(named)]
                    results.append(_result(candidate.ask({"call": call}), test["expected"]))
        except ConversationError as error:
            results += [str(error)] * (len(calls) - len(results))
        return results

    def _printed(self, code: str, test: Mapping[str, Any], deadline: float) -> str:
        try:
            with self._candidate(deadline) as candidate:
                answer = candidate.ask(self._first(code, stdin=test["stdin"]))
        except ConversationError as error:
            return str(error)
        printed = answer.get("value")
        if not isinstance(printed, str):
            return str(answer.get("error", "no output"))
        if len(printed) > MAX_OUTPUT_CHARS:
            return "too much output"
        return "passed" if _lines(printed) == _lines(test["stdout"]) else "another value"

    def _own_tests(self, code: str, row: Mapping[str, Any], deadline: float) -> str:
        first = {**self._first(row["test"]), "entry_point": row["entry_point"]}
        try:
            with self._candidate(deadline) as candidate, self._checks(deadline) as checks:
                loaded = candidate.ask(self._first(code))
                if "error" in loaded:
                    return str(loaded["error"])
                said = checks.ask(first)
                while "call" in said:
                    said = checks.ask(candidate.ask({"call": said["call"]}))
        except ConversationError as error:
            return str(error)
        return str(said["verdict"])

    def _candidate(self, deadline: float) -> Conversation:
        return Conversation(launcher(self.isolation), _script("code_candidate"), deadline=deadline)

    def _checks(self, deadline: float) -> Conversation:
        return Conversation(launcher(self.isolation), _script("code_checks"), deadline=deadline)

    def _first(self, code: str, *, stdin: str | None = None) -> dict[str, Any]:
        limits = {
            "memory_bytes": self.memory_mib * MIB,
            "cpu_time_s": math.ceil(self.wall_time_s) + 1,
        }
        return {"code": code, "stdin": stdin, "limits": limits}


def find_code(completion: str) -> str | None:
    """The one block between ``` of a completion, or all of it where there is none."""
    if len(completion) > MAX_CODE_CHARS or not completion.strip():
        return None
    blocks = _blocks(completion)
    if len(blocks) > 1:
        return None
    code = blocks[0] if blocks else completion
    return None if "\0" in code else code


def _blocks(text: str) -> list[str]:
    """In one pass: a pattern over all of it would go through the rest from each opening line."""
    found: list[str] = []
    begun: list[str] | None = None
    for line in text.split("\n"):
        if begun is None:
            begun = [] if _OPENING.fullmatch(line) else None
        elif _CLOSING.fullmatch(line):
            found.append("".join(f"{inside}\n" for inside in begun))
            begun = None
        else:
            begun.append(line)
    return found


def _script(name: str) -> str:
    """One text of the parts: the sandbox has no file of ours, so their imports are dropped."""
    parts = [
        (_HERE / f"{part}.py").read_text(encoding="utf-8")
        for part in ("code_limits", "code_wire", name)
    ]
    return re.sub(
        r"^from inner_trials.*(?<!\()\n|^from inner_trials[^)]*\)\n",
        "",
        "\n".join(parts),
        flags=re.MULTILINE,
    )


def _result(answer: Mapping[str, Any], expected: object) -> str:
    if "error" in answer:
        return str(answer["error"])[:100]
    try:
        value = decoded(answer["value"])
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        return "not plain data"
    return "passed" if _is_equal(value, expected) else "another value"


def _is_equal(value: object, expected: object) -> bool:
    """Of plain data: tuples are lists, true is not 1, floats may differ in the last digits."""
    if isinstance(expected, bool) or isinstance(value, bool):
        return value is expected
    if isinstance(expected, float) or isinstance(value, float):
        numbers = isinstance(value, int | float) and isinstance(expected, int | float)
        return numbers and _is_close(value, expected)  # type: ignore[arg-type]  # just checked
    if isinstance(expected, list):
        if not isinstance(value, list | tuple) or len(value) != len(expected):
            return False
        return all(map(_is_equal, value, expected))
    if isinstance(expected, dict):
        if not isinstance(value, dict) or value.keys() != expected.keys():
            return False
        return all(_is_equal(value[key], expected[key]) for key in expected)
    return type(value) is type(expected) and value == expected


def _is_close(value: float, expected: float) -> bool:
    try:
        return math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-12)
    except OverflowError:  # a whole number that no float is near to
        return False


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _check_row(row: Mapping[str, Any]) -> None:
    if "test" in row:
        if not isinstance(row["test"], str) or not isinstance(row.get("entry_point"), str):
            raise BadReferenceError("test and entry_point must be texts")
        return
    tests = row.get("tests")
    if not isinstance(tests, list) or not tests:
        raise BadReferenceError("tests is missing; write a list of them, or test and entry_point")
    for index, test in enumerate(tests):
        is_call = isinstance(test, dict) and isinstance(test.get("call"), str)
        is_call = is_call and "expected" in test
        texts = isinstance(test, dict) and all(
            isinstance(test.get(name), str) for name in ("stdin", "stdout")
        )
        if not is_call and not texts:
            raise BadReferenceError(
                f"tests[{index}]: expected call, args and expected, or stdin and stdout"
            )
