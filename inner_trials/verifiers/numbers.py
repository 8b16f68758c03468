"""Reads one number from a text into an exact fraction: no floats, no eval, ASCII digits."""

import re
from fractions import Fraction
from typing import Final

MAX_DIGITS: Final = 100
MAX_EXPONENT: Final = 999
SCALES: Final[dict[str | None, int]] = {
    None: 1,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
MINUS: Final = "\u2212"
"""The typographic minus sign, which models write as often as the hyphen."""

_NUMBER: Final = re.compile(
    r"(?P<sign>[-+]?)\s?\$?(?P<whole>[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+|(?=\.[0-9]))"
    r"(?:\.(?P<part>[0-9]*))?(?:[eE](?P<exponent>[-+]?[0-9]{1,4}))?"
    r"(?:\s?/\s?(?P<below>[0-9]{1,100}))?\s?(?P<percent>%?)(?:\s(?P<scale>[a-z]+))?\.?",
    re.ASCII,
)


class NotANumberError(ValueError):
    """The text is not one plain number of a size that anyone would write."""


def read_number(text: str) -> Fraction:
    """The value of `1234`, `-1,234.50`, `.5`, `2e3`, `3/4`, `50%` (a half), `$5`, `2.5 million`.

    A full stop may follow. Anything else around it, digits of other scripts, wrong groups of
    thousands, NaN, infinities and endless numbers are refused.

    Raises:
        NotANumberError: says why.
    """
    plain = text.strip().replace(MINUS, "-")
    if len(plain) > 2 * MAX_DIGITS:
        raise NotANumberError("number too long")
    match = _NUMBER.fullmatch(plain)
    if match is None or match["scale"] not in SCALES:
        raise NotANumberError("not a number")
    value = _decimal(match["whole"].replace(",", ""), match["part"] or "", match["exponent"])
    below = int(match["below"] or 1)
    if below == 0:
        raise NotANumberError("division by zero")
    value = value * SCALES[match["scale"]] / (below * (100 if match["percent"] else 1))
    return -value if match["sign"] == "-" else value


def _decimal(whole: str, part: str, exponent: str | None) -> Fraction:
    if len(whole) + len(part) > MAX_DIGITS:
        raise NotANumberError("number too long")
    power = int(exponent or 0)
    if abs(power) > MAX_EXPONENT:
        raise NotANumberError("exponent too large")
    return Fraction(int(whole + part or "0"), 10 ** len(part)) * Fraction(10) ** power
