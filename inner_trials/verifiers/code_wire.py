"""Plain data between the processes that judge code.

Its text is put in front of the scripts that run in the sandbox; standard library only.
"""

import io
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, TextIO

MAX_OUTPUT_CHARS = 256 * 1024


def take_channel() -> tuple[TextIO, TextIO]:
    """The pipes to the judge, as (requests, replies); whatever the code prints goes nowhere."""
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    return requests, replies


def attempt(action: Callable[[], object]) -> dict[str, Any]:
    """What the action returned, or the name of what it raised."""
    try:
        return {"value": encoded(action())}
    except BaseException as error:  # noqa: BLE001  # the code under test may raise anything
        return {"error": type(error).__name__[:100]}


def reply(channel: TextIO, answer: Mapping[str, Any]) -> None:
    channel.write(json.dumps(answer) + "\n")
    channel.flush()


def run_program(code: str, text: str) -> dict[str, Any]:
    """What the program prints, given `text` as its standard input."""
    sys.stdin, sys.stdout = io.StringIO(text), io.StringIO()
    printed = sys.stdout
    answer = attempt(lambda: exec(compile(code, "answer", "exec"), {"__name__": "__main__"}))
    if answer.get("error") not in (None, "SystemExit"):
        return answer
    return {"value": printed.getvalue()[: MAX_OUTPUT_CHARS + 1]}


def encoded(value: object) -> Any:
    """Plain data by the value's exact type; a subclass is not plain.

    Raises:
        TypeError: it is anything else.
    """
    kind: type = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if isinstance(value, dict) and kind is dict:
        return {"dict": [[encoded(key), encoded(item)] for key, item in value.items()]}
    if isinstance(value, list | tuple | set | frozenset) and kind in _MAKERS.values():
        return {kind.__name__: [encoded(item) for item in value]}
    if isinstance(value, float) and kind is float:
        return {"float": value.hex()}
    if isinstance(value, complex) and kind is complex:
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, bytes) and kind is bytes:
        return {"bytes": value.hex()}
    raise TypeError("not plain data")


def decoded(value: Any) -> Any:
    """The inverse of `encoded`.

    Raises:
        ValueError, TypeError, KeyError, AttributeError, OverflowError: it was not made by
            `encoded`.
    """
    if not isinstance(value, dict):
        if isinstance(value, list | float):
            raise ValueError("not encoded")
        return value
    ((kind, inside),) = value.items()
    if kind == "float":
        return float.fromhex(inside)
    if kind == "complex":
        return complex(*map(float.fromhex, inside))
    if kind == "bytes":
        return bytes.fromhex(inside)
    if kind == "dict":
        return {decoded(key): decoded(item) for key, item in inside}
    return _MAKERS[kind](decoded(item) for item in inside)


_MAKERS: dict[str, Callable[[Any], Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}
