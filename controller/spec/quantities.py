"""Durations, sizes and counts as people write them: `1h30m`, `4GiB`, `2M`. Plain numbers are
seconds, bytes and units."""

import math
import re
from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

_SECONDS: Final[Mapping[str, float]] = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"(?:(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*)")

_DECIMAL: Final = ("", "k", "M", "G", "T")
_BYTES: Final[Mapping[str, int]] = {
    **{f"{prefix}B".lower(): 1000**n for n, prefix in enumerate(_DECIMAL)},
    **{f"{prefix}iB".lower(): 1024**n for n, prefix in enumerate(_DECIMAL) if prefix},
}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")

_COUNTS: Final[Mapping[str, int]] = {"k": 1000, "m": 1_000_000, "b": 1_000_000_000}
_COUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMbB])")

DURATION_RULE: Final = "a duration is a number with a unit"
DURATION_REMEDY: Final = "write one like 90s, 30m, 8h or 1h30m"
SIZE_RULE: Final = "a size is a number with a unit"
SIZE_REMEDY: Final = "write one like 512MB, 4GiB or 16MiB"
COUNT_RULE: Final = "a count is a whole number"
COUNT_REMEDY: Final = "write one like 40000, 500k or 2M"


def parse_duration_s(text: str) -> float:
    """Seconds. Raises ValueError for anything but numbers with the units ms, s, m, h, d."""
    seconds, end = 0.0, 0
    stripped = text.strip()
    for match in _DURATION.finditer(stripped):
        if match.start() != end:
            break
        seconds += float(match[1]) * _SECONDS[match[2]]
        end = match.end()
    if not stripped or end != len(stripped) or not math.isfinite(seconds):
        raise ValueError(f"{DURATION_RULE}; {DURATION_REMEDY}")
    return seconds


def parse_size_bytes(text: str) -> int:
    """Bytes. Raises ValueError for anything but a number with one of B, kB … TB, KiB … TiB."""
    match = _SIZE.fullmatch(text.strip())
    factor = _BYTES.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"{SIZE_RULE}; {SIZE_REMEDY}")
    return _whole(match[1], factor, f"{SIZE_RULE}; {SIZE_REMEDY}")


def parse_count(text: str) -> int:
    """Raises ValueError for anything but a number with k, M or B behind it."""
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{COUNT_RULE}; {COUNT_REMEDY}")
    return _whole(match[1], _COUNTS[match[2].lower()], f"{COUNT_RULE}; {COUNT_REMEDY}")


def _whole(digits: str, factor: int, problem: str) -> int:
    """Raises ValueError for more digits than any number has."""
    number = float(digits) * factor
    if not math.isfinite(number):
        raise ValueError(problem)
    return round(number)


def _refusal(rule: str, remedy: str) -> PydanticCustomError:
    return PydanticCustomError("arl", "{rule}; {remedy}", {"rule": rule, "remedy": remedy})


def _duration(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _refusal(DURATION_RULE, DURATION_REMEDY)
    if not isinstance(value, str):
        return value
    try:
        return parse_duration_s(value)
    except ValueError:
        raise _refusal(DURATION_RULE, DURATION_REMEDY) from None


def _size(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _refusal(SIZE_RULE, SIZE_REMEDY)
    if not isinstance(value, str):
        return value
    try:
        return parse_size_bytes(value)
    except ValueError:
        raise _refusal(SIZE_RULE, SIZE_REMEDY) from None


def _count(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _refusal(COUNT_RULE, COUNT_REMEDY)
    if not isinstance(value, str):
        return value
    try:
        return parse_count(value)
    except ValueError:
        raise _refusal(COUNT_RULE, COUNT_REMEDY) from None


def _schema(pattern: str, example: str, number: str) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": pattern, "examples": [example]},
                {"type": number, "exclusiveMinimum": 0},
            ]
        }
    )


Seconds: TypeAlias = Annotated[
    float,
    Field(gt=0, le=1e12, allow_inf_nan=False),
    BeforeValidator(_duration),
    _schema(r"^\s*(\d+(\.\d+)?\s*(ms|s|m|h|d)\s*)+$", "30m", "number"),
]
"""A length of time; more than nothing, and less than what no clock or sum can hold."""

ByteCount: TypeAlias = Annotated[
    int,
    Field(gt=0, le=2**60),
    BeforeValidator(_size),
    _schema(r"^\s*\d+(\.\d+)?\s*([kKmMgGtT]i?)?[bB]\s*$", "4GiB", "integer"),
]
"""A size; more than nothing."""

Count: TypeAlias = Annotated[
    int,
    Field(gt=0, le=2**60),
    BeforeValidator(_count),
    _schema(r"^\s*\d+(\.\d+)?\s*[kKmMbB]\s*$", "2M", "integer"),
]
"""A whole number of things; at least one."""
