"""JSON as the standard means it, both ways: no NaN, no key twice, no bottomless nesting, no half
characters, no number that is none here.
"""

import json
import math
import re
from typing import Any, Final

from fastapi.responses import JSONResponse

from ledger.errors import ArlError

DEPTH: Final = 40
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
"""How JSON writes half of a character; two of them in a row may be a whole one."""


class Malformed(ArlError):
    """The body is not the JSON that this API reads."""

    code = "malformed"


class StrictResponse(JSONResponse):
    """JSON without NaN: a document that may hold one was flagged before it came here."""

    def render(self, content: Any) -> bytes:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        # A lone surrogate in a candidate's words must not make its page unreadable.
        return text.encode("utf-8", "replace")


def parse(body: bytes) -> Any:
    """The value of a JSON text. Raises Malformed."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"the body is not UTF-8: byte {error.start}") from error
    _check_depth(text)
    try:
        found = json.loads(
            text,
            parse_constant=_no_constant,
            parse_float=_finite,
            object_pairs_hook=_no_repeats,
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Malformed(f"the body is not JSON: {error.msg} at {where}") from error
    except ValueError as error:  # an integer of too many digits
        raise Malformed(f"the body is not JSON that this API reads: {error}") from error
    if _HALF.search(text) is not None:
        _check_characters(found)
    return found


def _check_characters(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise Malformed(
            f"the body is not JSON that this API reads: {half} is half of a character, which no "
            "text holds; write the whole one, or leave it out"
        ) from None


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise Malformed(
            f"the body is not JSON that this API reads: {text[:40]} is beyond the largest number "
            "(1.8e308); write a smaller one"
        )
    return number


def _check_depth(text: str) -> None:
    depth, in_string, escaped = 0, False, False
    for char in text:
        if in_string:
            escaped, in_string = (char == "\\" and not escaped), (char != '"' or escaped)
        elif char == '"':
            in_string = True
        elif char in "[{":
            depth += 1
            if depth > DEPTH:
                raise Malformed(f"the body is nested more than {DEPTH} levels deep")
        elif char in "]}":
            depth -= 1


def _no_constant(word: str) -> Any:
    raise Malformed(f"the body is not JSON: {word} is no number there; write null")


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Malformed(f"the body is not JSON that this API reads: two of {twice[:100]!r}")
    return found
